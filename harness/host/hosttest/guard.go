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
	"kafkalab/harness/raid"
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

// guardLink starts the guard of a link that is about to be made.
func guardLink(t testing.TB, c link.Config) {
	t.Helper()
	startGuard(t, linkGuardScript, "link-guard", c.Client.Namespace, c.Broker.Namespace)
}

// raidGuardScript unmounts an array and removes its folder, as soon as those
// that the guards of links and hosts end do not use it any more. $1 is the
// mount point, $2 the folder; loop devices go with the mount, and those that
// were never mounted with their files.
const raidGuardScript = `
trap '' HUP INT TERM PIPE
while read -r line; do :; done
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  umount "$1" 2>/dev/null || [ -z "$(findmnt -n "$1")" ] && break
  sleep 0.2
done
for f in "$2"/disk-*.img; do
  [ ! -e "$f" ] || losetup --associated "$f" --output NAME --noheadings | xargs -r losetup --detach
done
rm -rf --one-file-system "$2"
exit 0
`

func guardRAID(t testing.TB, c raid.Config) {
	t.Helper()
	startGuard(t, raidGuardScript, "raid-guard", c.Data(), c.Dir)
}

// startGuard starts a guard. It is a process of its own, in a group of its own,
// as the guards of hosts are. What it is to do when the test ends in good order
// has been done before.
func startGuard(t testing.TB, script, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := endGuard(in, cmd); err != nil {
			t.Errorf("%s: %v: %s", name, err, &said)
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
