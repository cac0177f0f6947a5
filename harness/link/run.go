package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// tool runs ip and tc, and prints each call that changes something, so that
// users see what is done to their machine and can do it by hand.
type tool struct{ out io.Writer }

// change runs a command that changes something.
func (t tool) change(ctx context.Context, args ...string) error {
	fmt.Fprintln(t.out, shellWords(args))
	_, err := run(ctx, args...)
	return err
}

// run runs a command and returns its output.
func run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// In a group of its own: Ctrl-C is the testbed's to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shellWords(args), err)
	}
	return out, nil
}

// query runs a command that answers in JSON.
func query(ctx context.Context, into any, args ...string) error {
	out, err := run(ctx, args...)
	if err != nil {
		return err
	}
	if len(strings.TrimSpace(string(out))) == 0 {
		return nil // what ip prints for an empty list
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("%s: %w", shellWords(args), err)
	}
	return nil
}

// shellWords writes a command as it can be typed.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]#~&|;<>(){}!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words[i] = a
	}
	return strings.Join(words, " ")
}

// Rights says what this process lacks to make a link: root rights, or the
// programs ip and tc.
func Rights() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root rights: call it with sudo, such as \"sudo testbed up\"")
	}
	for _, program := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("the program %s is missing: install the package iproute2 (\"apt-get install iproute2\")", program)
		}
	}
	return nil
}
