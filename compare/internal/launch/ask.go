package launch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Missing returns an error that wraps driver.ErrNotInstalled when one of the
// programs (names on the PATH, or files by their full path) is missing on the
// host. It names the packages that hold them.
func Missing(ctx context.Context, h host.Host, packages string, programs ...string) error {
	missing, err := host.Missing(ctx, h, programs...)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w on %s: %s; the package %s has it: apt-get install --no-install-recommends %s",
			driver.ErrNotInstalled, h.Name(), strings.Join(missing, ", "), strings.ReplaceAll(packages, " ", " or "), packages)
	}
	return nil
}

// PackageVersion returns the version of an installed Debian package on the
// host, or else the first line that the fallback command writes.
func PackageVersion(ctx context.Context, h host.Host, pkg string, fallback ...string) (string, error) {
	out, err := host.Ask(ctx, h, "dpkg-query", "--showformat=${Version}", "--show", pkg)
	if version := strings.TrimSpace(string(out)); err == nil && version != "" {
		return version, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	out, fallbackErr := host.Ask(ctx, h, fallback...)
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if fallbackErr != nil || first == "" {
		if err == nil {
			err = errors.New("it names none")
		}
		return "", fmt.Errorf("the version of %s on %s: neither dpkg-query (%w) nor %s (%v) knows it", pkg, h.Name(), err, fallback[0], fallbackErr)
	}
	return first, nil
}

// Exchange makes one exchange with a server from its own host, since the
// testbed may have no way to the host's address: it connects to the port,
// sends what the shell's printf makes of send, and returns once the answer
// holds want. It repeats that until ctx ends.
func Exchange(ctx context.Context, h host.Host, port int, send, want string) error {
	// bash, for its /dev/tcp. Its own time-out, in case there is no answer.
	script := `exec 3<>"/dev/tcp/$1/$2" && printf "$3" >&3 && while IFS= read -r -t 5 -n 64 -u 3 -d '' part || [ -n "$part" ]; do ` +
		`case $seen$part in *"$4"*) exit 0;; esac; seen=$seen$part; done; echo "answer: $seen" >&2; exit 1`
	for {
		_, err := h.Run(ctx, "bash", "-c", script, "bash", h.Addr(), strconv.Itoa(port), send, want)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("port %d of %s does not answer: %w: %w", port, h.Name(), ctx.Err(), err)
		}
	}
}
