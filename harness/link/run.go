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

	"kafkalab/harness/internal/command"
)

// tool runs ip and tc, and prints each call that changes something.
type tool struct{ out io.Writer }

// change runs a command that changes something.
func (t tool) change(ctx context.Context, args ...string) error {
	return command.Change(ctx, t.out, args...)
}

// run runs a command and returns its output.
func run(ctx context.Context, args ...string) ([]byte, error) { return command.Run(ctx, args...) }

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
		return fmt.Errorf("%s: %w", command.Words(args), err)
	}
	return nil
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
