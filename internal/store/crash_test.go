package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/sample"
)

// TestMain runs the test binary again as a child that is killed on the way, or that works until it is.
func TestMain(m *testing.M) {
	role, dir, step := os.Getenv("STORE_TEST_ROLE"), os.Getenv("STORE_TEST_DIR"), os.Getenv("STORE_TEST_STEP")
	if role == "" {
		os.Exit(m.Run())
	}
	at = func(s string) {
		if s == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if err := child(role, dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func child(role, dir string) error {
	switch role {
	case "save": // the second run takes the first one's name
		_, err := Save(dir, name, record("B", 1))
		return err
	case "rung": // the second rung of a run
		j, _, err := Resume(filepath.Join(dir, name), "A", 1)
		if err != nil {
			return err
		}
		if err := j.Rung(requests(1, 4)); err != nil {
			return err
		}
		_, err = j.Save(record("A", 2))
		return err
	case "loop": // saves and logs as fast as it can
		j, err := Open(dir, name, "A")
		if err != nil {
			return err
		}
		for i := range 10000 {
			if err := j.Rung(requests(i, 20)); err != nil {
				return err
			}
			if _, err := j.Save(record("A", i+1)); err != nil {
				return err
			}
			fmt.Println(i + 1)
		}
		return nil
	case "full": // a disk that takes 8 KiB a file and no more
		limit := syscall.Rlimit{Cur: 8 << 10, Max: 8 << 10}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		_, err := Save(dir, name, record("A", 2))
		fmt.Println(err)
		j, _, err := Resume(filepath.Join(dir, name), "A", 1)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(1, 2))
		var many []sample.Request
		for i := range 600 {
			q := sample.New(r.IntN(1 << 30))
			q.Started = sample.Nanos(r.IntN(1 << 30))
			q.Worker = i
			many = append(many, q)
		}
		fmt.Println(j.Rung(many))
		return nil
	case "hold":
		s, err := OpenState(dir)
		if err != nil {
			return err
		}
		h, err := s.Lock("speech-a", "primary", "me@here 1")
		if err != nil {
			return err
		}
		if err := h.Write(freezeOf("A")); err != nil {
			return err
		}
		fmt.Println("held")
		os.Stdin.Read(make([]byte, 1)) // until killed
		return h.Release()
	}
	return fmt.Errorf("no role %s", role)
}

func command(t *testing.T, role, dir, step string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "STORE_TEST_ROLE="+role, "STORE_TEST_DIR="+dir, "STORE_TEST_STEP="+step)
	return cmd
}

// killed runs the child and makes sure that it met its end at the step.
func killed(t *testing.T, role, dir, step string) {
	t.Helper()
	out, err := command(t, role, dir, step).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s was not killed at %s: %v\n%s", role, step, err, out)
	}
}

func TestKilledWhileSaving(t *testing.T) {
	for _, step := range []string{"keep", "create", "write", "sync", "rename", "syncdir"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Save(dir, name, record("A", 1)); err != nil {
				t.Fatal(err)
			}
			killed(t, "save", dir, step)
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal("the name is free: ", err)
			}
			if got := string(data); got != string(record("A", 1)) && got != string(record("B", 1)) {
				t.Fatalf("half a file: %.60q", got)
			}
			if _, err := Save(dir, name, record("B", 1)); err != nil {
				t.Fatal(err)
			}
			want(t, filepath.Join(dir, name), record("B", 1))
			want(t, filepath.Join(dir, "qmax-m-raw-url-00000000-A.json"), record("A", 1))
			for _, n := range strings.Split(list(t, dir), "\n") {
				if !strings.HasPrefix(n, ".") && n != name && n != "qmax-m-raw-url-00000000-A.json" {
					t.Errorf("left behind: %s", n)
				}
			}
		})
	}
}

func TestKilledWhileLogging(t *testing.T) {
	for _, step := range []string{"log", "logsync", "create", "rename", "syncdir"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			journal(t, dir, "A", 1).Close()
			killed(t, "rung", dir, step)
			saved := 1
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			} else if string(data) == string(record("A", 2)) {
				saved = 2
			}
			j, log, err := Resume(filepath.Join(dir, name), "A", saved)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if d := cmp.Diff([][]sample.Request{requests(0, 3), requests(1, 4)}[:saved], log.Rungs); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestKilledAnywhere kills a run that saves as fast as it can, wherever it happens to be.
func TestKilledAnywhere(t *testing.T) {
	dir := t.TempDir()
	cmd := command(t, "loop", dir, "")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := 0
	for said < 12 {
		if _, err := fmt.Fscan(out, &said); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Process.Kill()
	for {
		if _, err := fmt.Fscan(out, &said); err != nil {
			break
		}
	}
	cmd.Wait()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	listed := said
	if string(data) == string(record("A", said+1)) {
		listed++
	} else if string(data) != string(record("A", said)) {
		t.Fatalf("after %d saves the file holds %.60q", said, data)
	}
	j, log, err := Resume(filepath.Join(dir, name), "A", listed)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if len(log.Rungs) != listed || len(log.Rungs[listed-1]) != 20 {
		t.Errorf("%d rungs in the log, %d listed", len(log.Rungs), listed)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	journal(t, dir, "A", 1).Close()
	out, err := command(t, "full", dir, "").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Count(string(out), "file too large: make room and run again; what was there is untouched") != 2 {
		t.Errorf("it said:\n%s", out)
	}
	want(t, filepath.Join(dir, name), record("A", 1))
	if log, err := ReadLog(filepath.Join(dir, artifact.RequestLogName(name))); err != nil || len(log.Rungs) != 1 || log.Dropped != 0 {
		t.Errorf("%+v %v", log, err)
	}
	if got := list(t, dir); strings.Contains(got, ".tmp") {
		t.Errorf("the folder holds\n%s", got)
	}
}
