package witness_test

import (
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// motoDiffers are the answers in which moto is known to be wrong, by what sagemaker-local says.
var motoDiffers = []string{
	// The service's model has ObjectNotFoundException for it; moto says ValidationException.
	`["application-autoscaling.deregister_scalable_target", "refused", "ObjectNotFoundException"]`,
}

// TestMoto has moto, another project's server, answer the same script, and lays the answers side by side.
func TestMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("short: moto takes seconds to start")
	}
	py, moto := python(t), need(t, "moto_server")
	a := serve(t, "--empty", "--start", "0", "--verify-signatures")
	ours := strings.Split(a.run(t, ".", py, "control.py"), "\n")

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	host, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(moto, "-H", host, "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("moto does not come up: %v", err)
		}
	}
	b := account{url: "http://" + addr, env: append(slices.Clone(a.env), "AWS_ENDPOINT_URL=http://"+addr)}
	theirs := strings.Split(b.run(t, ".", py, "control.py"), "\n")
	if len(ours) != len(theirs) {
		t.Fatalf("%d answers here, %d of moto's", len(ours), len(theirs))
	}
	same := 0
	for i, line := range ours {
		switch {
		case line == theirs[i]:
			same++
		case !slices.Contains(motoDiffers, line):
			t.Errorf("here  %s\nmoto  %s", line, theirs[i])
		}
	}
	t.Logf("%d of %d answers are the same", same, len(ours))
}
