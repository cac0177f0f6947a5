package coord

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxRequestBytes is what a server takes unless its jute.maxbuffer says
// otherwise: it hangs up on a larger request.
const maxRequestBytes = 1<<20 - 1

// requestOverhead is more than what a request has beside path and value.
const requestOverhead = 128

// checkPath refuses what a server would refuse as a path, and says why.
func checkPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("%w: path %q does not begin with /", ErrArgument, path)
	case path == "/":
		return nil
	case !utf8.ValidString(path):
		return fmt.Errorf("%w: path %q is not UTF-8", ErrArgument, path)
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return fmt.Errorf("%w: path %q has a name %q", ErrArgument, path, name)
		}
		for _, r := range name {
			if r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xf000 && r <= 0xf8ff || r >= 0xfff0 && r < 0xffff {
				return fmt.Errorf("%w: path %q has the character %U, which is not allowed", ErrArgument, path, r)
			}
		}
	}
	return nil
}

// checkRequest refuses a path, and a value that makes the request larger than a
// server takes.
func checkRequest(path string, data []byte) error {
	if n := len(path) + len(data) + requestOverhead; n > maxRequestBytes {
		return fmt.Errorf("%w: value of %d bytes, a request may have %d", ErrArgument, len(data), maxRequestBytes)
	}
	return checkPath(path)
}

// parent returns the path above one that is not the root.
func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 1)]
}
