package hosttest

import (
	"bufio"
	"os/exec"
	"sync"
	"testing"
)

// Victim starts a program that says something and goes on until its input
// ends, and returns what it says. kill ends it with SIGKILL and waits for that;
// a second time it does nothing. The test does so when it ends.
func Victim(t testing.TB, cmd *exec.Cmd) (said *bufio.Reader, kill func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // fails only if it has ended
		_ = cmd.Wait()         // it was killed
		_ = in.Close()         // Wait has
	})
	t.Cleanup(kill)
	return bufio.NewReader(out), kill
}
