package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/artifact"
	"loadline/internal/sample"
)

const name = "qmax-m-raw-url-00000000.json"

// record is an artifact as far as this package reads one; fill makes it long.
func record(run string, n int) []byte {
	return fmt.Appendf(nil, `{"run_id":%q,"n":%d,"fill":%q}`+"\n", run, n, strings.Repeat("x", 20000))
}

// list is what a folder holds, hidden files too.
func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, "\n")
}

func want(t *testing.T, path string, data []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(data) {
		t.Errorf("%s holds %.60q, want %.60q", path, got, data)
	}
}

func TestSaveKeepsOtherRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "artifacts")
	save := func(data []byte, wantKept string) {
		t.Helper()
		kept, err := Save(dir, name, data)
		if err != nil || kept != wantKept {
			t.Fatalf("kept %q, want %q: %v", kept, wantKept, err)
		}
		want(t, filepath.Join(dir, name), data)
	}
	save(record("A", 1), "")
	save(record("A", 2), "") // the same run again
	save(record("B", 1), "qmax-m-raw-url-00000000-A.json")
	want(t, filepath.Join(dir, "qmax-m-raw-url-00000000-A.json"), record("A", 2))
	save(record("A", 3), "qmax-m-raw-url-00000000-B.json")   // A goes on
	save(record("C", 1), "qmax-m-raw-url-00000000-A-2.json") // an older file of A has the plain name
	save([]byte("no record"), "qmax-m-raw-url-00000000-C.json")
	save([]byte("no record either"), "qmax-m-raw-url-00000000-kept-1.json")
	save(record("D", 1), "qmax-m-raw-url-00000000-kept-2.json")
	want(t, filepath.Join(dir, "qmax-m-raw-url-00000000-kept-1.json"), []byte("no record"))
	if got := list(t, dir); strings.Contains(got, ".tmp") || strings.Count(got, "\n") != 6 {
		t.Errorf("the folder holds\n%s", got)
	}
}

func TestSaveRefusesNames(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []string{"", "../x.json", "a/b.json", ".x.json", "x", "x.json\x00", `a\b.json`, strings.Repeat("x", 300) + ".json"} {
		if _, err := Save(dir, bad, nil); err == nil || !strings.Contains(err.Error(), "is no name for an artifact") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(dir, name, record("A", 1)); err == nil || !strings.Contains(err.Error(), "a folder is in its place") {
		t.Error(err)
	}
	if _, err := Save(filepath.Join(dir, name, "\x00"), name, nil); err == nil {
		t.Error("a folder with a zero byte was made")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(filepath.Join(file, "sub"), name, nil); err == nil || !strings.Contains(err.Error(), "a part of the path is a file") {
		t.Error(err)
	}
}

func TestWriteFileKeepsModeAndLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "models.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.WriteFile(file, []byte("a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("models.yaml", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("b")); err != nil {
		t.Fatal(err)
	}
	want(t, file, []byte("b"))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Error("the link is a file now")
	}
}

func TestFailed(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "save a/b: permission denied: allow it, or choose another folder"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, "save a/b: read-only file system: choose a folder that can be written to"},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "save a/b: no space left on device: make room and run again; what was there is untouched"},
		{&os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EDQUOT}, "save a/b: disk quota exceeded: make room and run again; what was there is untouched"},
		{&fs.PathError{Op: "read", Path: "x", Err: syscall.EISDIR}, "save a/b: is a directory: name a file in it"},
		{syscall.EIO, "save a/b: input/output error"},
	} {
		if got := failed("save", "a/b", c.err); got.Error() != c.want || !errors.Is(got, c.err) && !errors.Is(got, errors.Unwrap(c.err)) {
			t.Errorf("got  %v\nwant %s", got, c.want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := ReadFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "name a file in it") {
		t.Error(err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, name, "A"); err == nil || !strings.Contains(err.Error(), "choose another folder") {
		t.Error(err)
	}
}

func TestNewRunID(t *testing.T) {
	now := time.Date(2026, 8, 4, 0, 0, 0, 0, time.UTC)
	a, b := NewRunID(now), NewRunID(now.Add(time.Second))
	if len(a) != 26 || a >= b {
		t.Errorf("%s is not before %s", a, b)
	}
}

func requests(rung, n int) []sample.Request {
	var rs []sample.Request
	for i := range n {
		r := sample.New(100*rung + i)
		r.Rung, r.Worker, r.Started, r.End, r.Outcome = rung, i, sample.Nanos(i), sample.Nanos(i+5), sample.OK
		r.Chunks = []sample.Chunk{{At: sample.Nanos(i + 2), Bytes: 44}, {At: sample.Nanos(i + 3), Bytes: 4096}}
		r.Text = sample.TextID{Corpus: "clips", Index: i}
		rs = append(rs, r)
	}
	return rs
}

func journal(t *testing.T, dir, run string, rungs int) *Journal {
	t.Helper()
	j, err := Open(dir, name, run)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rungs {
		if err := j.Rung(requests(i, 3+i)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Save(record(run, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func TestLogRoundTrip(t *testing.T) {
	dir := t.TempDir()
	j := journal(t, dir, "A", 3)
	if err := j.Rung(nil); err != nil { // a rung in which nothing was sent is a rung
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := ReadLog(filepath.Join(dir, j.LogName()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]sample.Request{requests(0, 3), requests(1, 4), requests(2, 5), nil}, log.Rungs); d != "" {
		t.Error(d)
	}
	if log.RunID != "A" || log.Dropped != 0 || log.Why != "" {
		t.Errorf("%s, %d dropped: %s", log.RunID, log.Dropped, log.Why)
	}
}

// TestLogTorn cuts the log at every byte: the rungs before the cut are whole, and the rest is told.
func TestLogTorn(t *testing.T) {
	dir := t.TempDir()
	j := journal(t, dir, "A", 3)
	path := filepath.Join(dir, j.LogName())
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := ReadLog(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := slices.Clone(log.ends)
	torn := filepath.Join(dir, "torn")
	for cut := range len(whole) {
		if err := os.WriteFile(torn, whole[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		log, err := ReadLog(torn)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		rungs := 0
		for rungs < len(ends) && ends[rungs] <= int64(cut) {
			rungs++
		}
		left := int64(cut)
		if rungs > 0 {
			left -= ends[rungs-1]
		}
		if len(log.Rungs) != rungs || log.Dropped != left || (log.Why == "") != (left == 0) {
			t.Fatalf("cut at %d: %d rungs of %d, %d bytes dropped of %d: %s", cut, len(log.Rungs), rungs, log.Dropped, left, log.Why)
		}
	}
	// Zeros where the tail should be, as after a power cut; and a byte changed in the middle.
	if err := os.WriteFile(torn, append(slices.Clone(whole[:ends[1]]), make([]byte, 500)...), 0o666); err != nil {
		t.Fatal(err)
	}
	if log, err := ReadLog(torn); err != nil || len(log.Rungs) != 2 || log.Dropped != 500 {
		t.Errorf("zeros: %+v %v", log, err)
	}
	flipped := slices.Clone(whole)
	flipped[ends[0]+40] ^= 0x55
	if err := os.WriteFile(torn, flipped, 0o666); err != nil {
		t.Fatal(err)
	}
	if log, err := ReadLog(torn); err != nil || len(log.Rungs) != 1 || log.Why == "" {
		t.Errorf("flipped: %+v %v", log, err)
	}
	if err := os.WriteFile(torn, []byte(`{"seq":1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLog(torn); err == nil || !strings.Contains(err.Error(), "not a compressed file") {
		t.Error(err)
	}
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	journal(t, dir, "A", 3).Close()
	path := filepath.Join(dir, artifact.RequestLogName(name))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("half a rung")
	f.Close()
	// The artifact lists two of the three rungs: the third is measured again.
	j, log, err := Resume(filepath.Join(dir, name), "A", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if len(log.Rungs) != 2 || log.Dropped == 0 {
		t.Errorf("%d rungs, %d bytes dropped", len(log.Rungs), log.Dropped)
	}
	if _, _, err := Resume(filepath.Join(dir, name), "A", 2); err == nil || !strings.Contains(err.Error(), "still being measured") {
		t.Error(err)
	}
	if err := j.Rung(requests(7, 1)); err != nil {
		t.Fatal(err)
	}
	if log, err = ReadLog(path); err != nil || len(log.Rungs) != 3 || log.Dropped != 0 || log.Rungs[2][0].Seq != 700 {
		t.Errorf("%+v %v", log, err)
	}
	j.Close()
	if _, _, err := Resume(filepath.Join(dir, name), "A", 9); err == nil || !strings.Contains(err.Error(), "lists 9 rungs") {
		t.Error(err)
	}
	if _, _, err := Resume(filepath.Join(dir, name), "B", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if j, log, err := Resume(filepath.Join(dir, name), "B", 0); err != nil || len(log.Rungs) != 0 || j.Path() != filepath.Join(dir, name) {
		t.Error(err)
	}
}

func TestLogFollowsItsArtifact(t *testing.T) {
	dir := t.TempDir()
	find := func(artifact, run, want string) {
		t.Helper()
		if got, err := FindLog(filepath.Join(dir, artifact), run); err != nil || filepath.Base(got) != want {
			t.Errorf("log of %s (%s): %s, want %s: %v", artifact, run, got, want, err)
		}
	}
	log := artifact.RequestLogName(name)
	a := journal(t, dir, "A", 1)
	find(name, "A", log)
	b := journal(t, dir, "B", 0) // has begun, and touched nothing
	find(name, "A", log)
	if err := b.Rung(requests(0, 1)); err != nil { // takes the log's name, not the artifact's yet
		t.Fatal(err)
	}
	find(name, "A", "qmax-m-raw-url-00000000-A.requests.jsonl.gz")
	if _, err := b.Save(record("B", 1)); err != nil {
		t.Fatal(err)
	}
	find(name, "B", log)
	find("qmax-m-raw-url-00000000-A.json", "A", "qmax-m-raw-url-00000000-A.requests.jsonl.gz")
	if err := a.Rung(requests(1, 1)); err != nil { // A runs beside B, and still writes to its own
		t.Fatal(err)
	}
	if got, err := ReadLog(filepath.Join(dir, "qmax-m-raw-url-00000000-A.requests.jsonl.gz")); err != nil || len(got.Rungs) != 2 || got.RunID != "A" {
		t.Errorf("%+v %v", got, err)
	}
	// A later run that saves before it has measured leaves the log under the old name.
	c := journal(t, dir, "C", 0)
	if _, err := c.Save(record("C", 0)); err != nil {
		t.Fatal(err)
	}
	find("qmax-m-raw-url-00000000-B.json", "B", log)
	if _, err := FindLog(filepath.Join(dir, name), "C"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestLogOfARunWithAHostileName(t *testing.T) {
	dir := t.TempDir()
	member, err := encodeMember("../../evil", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, artifact.RequestLogName(name)), member, 0o666); err != nil {
		t.Fatal(err)
	}
	journal(t, dir, "B", 1)
	if got := list(t, dir); !strings.Contains(got, "qmax-m-raw-url-00000000-kept-1.requests.jsonl.gz") {
		t.Errorf("the folder holds\n%s", got)
	}
}

// FuzzReadLog: no bytes make a reader of logs panic or lose a whole rung that it counted.
func FuzzReadLog(f *testing.F) {
	a, err := encodeMember("A", 0, requests(0, 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a)
	f.Add(append(slices.Clone(a), a[:len(a)/2]...))
	f.Add(append(slices.Clone(a), a...))
	path := filepath.Join(f.TempDir(), "log")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		log, err := ReadLog(path)
		if err != nil {
			return
		}
		whole := int64(len(data)) - log.Dropped
		if len(log.ends) != len(log.Rungs) || len(log.ends) > 0 && log.ends[len(log.ends)-1] != whole || len(log.ends) == 0 && whole != 0 {
			t.Fatalf("%d rungs, ends %v, %d dropped of %d", len(log.Rungs), log.ends, log.Dropped, len(data))
		}
	})
}
