package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// insideVariable says that this program runs in namespaces of its own.
const insideVariable = "KAFKALAB_TEST_NAMESPACES"

// namespaceErr is why there are no namespaces, or nil.
var namespaceErr error

// TestMain runs a broker that does not flush if that is what this process was
// started for. Else it runs the tests, in a process that has namespaces of its
// own for mounts and processes.
func TestMain(m *testing.M) {
	inside := os.Getenv(insideVariable) != ""
	switch {
	case os.Getenv(lyingVariable) != "" && len(os.Args) > 1 && os.Args[1] == "broker":
		fmt.Fprintln(os.Stderr, runLyingBroker(os.Args[2:]))
		os.Exit(1)
	case inside:
		// The processes of the new namespace, where the old ones were.
		namespaceErr = unix.Mount("proc", "/proc", "proc", 0, "")
	case os.Geteuid() == 0:
		// That is where mkfs is, and not everybody's path has it.
		os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
		code, err := runInside()
		if err == nil {
			os.Exit(code)
		}
		namespaceErr = err
	}
	goleak.VerifyTestMain(m)
}

// runInside runs this program again in new namespaces and returns its exit
// status. An error says that it could not be started.
func runInside() (status int, err error) {
	// The signal comes when the thread ends that started the process, not when
	// this process does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	err = cmd.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if !ended.Exited() {
			fmt.Fprintln(os.Stderr, ended)
		}
		return max(ended.ExitCode(), 1), nil
	}
	return 0, err
}
