// Package command runs the system's own programs, such as ip and mount, for
// those parts of the testbed that change something on this machine. What
// changes something is printed, so that users see what is done and can do it
// by hand.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// Change prints a command to out as it can be typed, and runs it.
func Change(ctx context.Context, out io.Writer, args ...string) error {
	_, err := ChangeAndTell(ctx, out, args...)
	return err
}

// ChangeAndTell is Change for a command whose output is wanted.
func ChangeAndTell(ctx context.Context, out io.Writer, args ...string) ([]byte, error) {
	fmt.Fprintln(out, Words(args))
	return Run(ctx, args...)
}

// Run runs a command to its end, or kills it when ctx ends, and returns its
// standard output. An error holds the command and what it wrote on standard
// error.
func Run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// In a group of its own: Ctrl-C is the testbed's to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Words(args), err)
	}
	return out, nil
}

// Words writes a command as it can be typed.
func Words(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]#~&|;<>(){}!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words[i] = a
	}
	return strings.Join(words, " ")
}
