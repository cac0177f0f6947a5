package host

import (
	"context"
	"fmt"
	"strings"
)

// missingScript prints those of its arguments that are not there. Users other
// than root often lack the folders of servers' programs on their PATH.
const missingScript = `PATH=$PATH:/usr/sbin:/sbin
for f in "$@"; do case $f in /*) [ -e "$f" ];; *) command -v "$f" >/dev/null;; esac || echo "$f"; done`

// Missing returns those that a host does not have of some programs, by their
// names, and files, by their full paths. It is asked once in the life of a
// host.
func Missing(ctx context.Context, h Host, files ...string) ([]string, error) {
	out, err := Ask(ctx, h, append([]string{"/bin/sh", "-c", missingScript, "sh"}, files...)...)
	if err != nil {
		return nil, fmt.Errorf("looking for %s on %s: %w", strings.Join(files, ", "), h.Name(), err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}
