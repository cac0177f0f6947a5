package hosttest

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/link"
)

// linkGuardScript removes the namespaces it is given, with every process in
// them, when its standard input ends. That is when the test has ended, also
// when it was killed or interrupted: then no cleanup of the test runs any more.
const linkGuardScript = `
trap '' HUP INT TERM PIPE
while read -r line; do :; done
for n in "$@"; do
  for try in 1 2 3 4 5 6 7 8 9 10; do
    p=$(ip netns pids "$n" 2>/dev/null)
    [ -n "$p" ] || break
    kill -s KILL $p 2>/dev/null
    sleep 0.1
  done
  ip netns delete "$n" 2>/dev/null
done
exit 0
`

// guardLink starts the guard of a link that is about to be made. It is a
// process of its own, in a group of its own, as the guards of hosts are. What
// it is to do when the test ends in good order has been done before.
func guardLink(t testing.TB, c link.Config) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", linkGuardScript, "link-guard", c.Client.Namespace, c.Broker.Namespace)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("the guard of the link: %v", err)
	}
	t.Cleanup(func() {
		if err := endGuard(in, cmd); err != nil {
			t.Errorf("the guard of the link: %v: %s", err, &said)
		}
	})
}

func endGuard(in io.Closer, cmd *exec.Cmd) error {
	if err := in.Close(); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("it ended badly: %w", err)
	}
	return nil
}
