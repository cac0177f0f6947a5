//go:build hadoop

package hadooptest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// programLimit bounds every program that is run to its end.
const programLimit = 8 * time.Minute

// alone makes a program the first process of a namespace of its own, where root may
// do that: when it ends, however it does, the kernel kills what it has started. It ends
// with this process at the latest, if the thread that starts it is locked.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
}

// run runs a program to its end and returns what it wrote. An error holds what it
// said to standard error.
func run(ctx context.Context, dir string, env []string, argv ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &errs
	cmd.WaitDelay = 5 * time.Second
	alone(cmd)
	// The signal comes when the thread ends that started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s: %w\n%s", brief(argv), err, tail(errs.String(), 60))
	}
	return out.String(), errs.String(), err
}

// brief is a command line without the flags of Java.
func brief(argv []string) string {
	for i, a := range argv {
		if strings.HasPrefix(a, "org.apache.") || strings.HasPrefix(a, "kafkalab.") {
			return strings.Join(argv[i:], " ")
		}
	}
	return strings.Join(argv, " ")
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
