package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"
	availableFile  = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	allowedFile    = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
)

// setCongestion sets the TCP congestion control of one end, without the
// program sysctl, which small systems lack.
func (t tool) setCongestion(ctx context.Context, c Config, e End) error {
	now, err := run(ctx, "ip", "netns", "exec", e.Namespace, "cat", congestionFile)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(now)) == c.Congestion {
		return nil
	}
	set := func() error {
		return t.change(ctx, "ip", "netns", "exec", e.Namespace, "sh", "-c", "echo "+c.Congestion+" > "+congestionFile)
	}
	available, err := os.ReadFile(availableFile)
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(available)), c.Congestion) {
		// Writing the name may still load the module.
		if err := set(); err != nil {
			return fmt.Errorf("this kernel offers the congestion controls %s, not %s: \"modprobe tcp_%s\" may load it: %w",
				strings.TrimSpace(string(available)), c.Congestion, c.Congestion, err)
		}
		return nil
	}
	return t.whileAllowed(ctx, c.Congestion, set)
}

// whileAllowed runs set while the congestion control is on the machine's list
// of those that are open to all. Outside of the first namespace the kernel
// takes no other, and on a machine whose default is, say, bbr, cubic is not on
// it. The list is put back: what a namespace has, it keeps.
func (t tool) whileAllowed(ctx context.Context, name string, set func() error) (err error) {
	unlock, err := lockAllowed(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	text, err := os.ReadFile(allowedFile)
	if err != nil {
		return err
	}
	before := strings.TrimSpace(string(text))
	if slices.Contains(strings.Fields(before), name) {
		return set()
	}
	fmt.Fprintf(t.out, "# a namespace may use only what the next file names: %s goes on that list for a moment, then the list is put back\n", name)
	if err := t.change(ctx, "sh", "-c", "echo "+before+" "+name+" > "+allowedFile); err != nil {
		return fmt.Errorf("allowing the congestion control %s in network namespaces: %w", name, err)
	}
	err = set()
	// Whatever came of it, and though ctx may have ended.
	return errors.Join(err, t.change(context.WithoutCancel(ctx), "sh", "-c", "echo "+before+" > "+allowedFile))
}

// lockAllowed keeps two calls from putting back each other's list. The lock is
// a name in the kernel, which goes with the process that holds it.
func lockAllowed(ctx context.Context) (unlock func() error, err error) {
	for {
		l, err := net.Listen("unix", "@kafkalab-congestion")
		if err == nil {
			return l.Close, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another testbed that makes a link: %w", ctx.Err())
		}
	}
}
