package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
)

// Files are handled by small shell scripts, alike on every kind of host: what
// works in a test on this machine works over ssh.

// Exit statuses with a meaning of our own.
const (
	exitMissing = 44 // the file is not there
	exitRefused = 45 // the path leads out of the host's folder
)

// script runs a shell script on the host; $1 and on are args.
func (m *machine) script(ctx context.Context, name, text string, in io.Reader, out io.Writer, args ...string) error {
	return m.run(ctx, Command{
		Name: name,
		Args: append([]string{"/bin/sh", "-c", text, name}, args...),
		In:   in,
		Out:  out,
	})
}

// exitStatus returns the exit status that err reports, or -1.
func exitStatus(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	return -1
}

// pathError gives err the path and the well-known meaning of its status.
func (m *machine) pathError(op, p string, err error) error {
	switch exitStatus(err) {
	case exitMissing:
		err = fs.ErrNotExist
	case exitRefused:
		err = fmt.Errorf("it leads out of %s", m.Dir())
	}
	return fmt.Errorf("%s %s on %s: %w", op, p, m.cfg.Name, err)
}

func (m *machine) checkAbs(op, p string) error {
	if !path.IsAbs(p) || strings.Contains(p, "\x00") {
		return fmt.Errorf("%s %q on %s: an absolute path is wanted", op, p, m.cfg.Name)
	}
	return nil
}

func (m *machine) MkdirAll(ctx context.Context, p string) error {
	if err := m.checkAbs("making", p); err != nil {
		return err
	}
	if err := m.script(ctx, "mkdir", `mkdir -p -- "$1"`, nil, nil, p); err != nil {
		return m.pathError("making", p, err)
	}
	return nil
}

// writeScript puts its input in place at once, or not at all: a connection
// that is lost in between would otherwise leave a file that is cut off.
const writeScript = `
t="$1.part$$"
cat > "$t" && [ "$(wc -c < "$t")" -eq "$3" ] && chmod "$2" -- "$t" && mv -f -- "$t" "$1" || { rm -f -- "$t"; exit 1; }`

func (m *machine) WriteFile(ctx context.Context, p string, data []byte, mode os.FileMode) error {
	if err := m.checkAbs("writing", p); err != nil {
		return err
	}
	err := m.script(ctx, "write", writeScript, bytes.NewReader(data), nil, p, fmt.Sprintf("%04o", mode.Perm()), strconv.Itoa(len(data)))
	if err != nil {
		return m.pathError("writing", p, err)
	}
	return nil
}

// ReadFile reads a file of at most 64 MiB. A file that is not there is
// fs.ErrNotExist.
func (m *machine) ReadFile(ctx context.Context, p string) ([]byte, error) {
	if err := m.checkAbs("reading", p); err != nil {
		return nil, err
	}
	var out bounded
	err := m.script(ctx, "read", `[ -e "$1" ] || exit 44; exec cat -- "$1"`, nil, &out, p)
	if err != nil {
		return nil, m.pathError("reading", p, err)
	}
	return out.buf, nil
}

// removeScript removes $1/$2 if that is below $3 once every symbolic link on
// the way is resolved. A link in the last place is removed itself.
const removeScript = `
[ -d "$1" ] || exit 0
root=$(cd -P -- "$3" && pwd -P) || exit 1
parent=$(cd -P -- "$1" && pwd -P) || exit 1
case "$parent/" in "$root"/*) ;; *) exit 45;; esac
rm -rf -- "$parent/$2"`

func (m *machine) RemoveAll(ctx context.Context, p string) error {
	p = path.Clean(p)
	if !strings.HasPrefix(p, m.Dir()+"/") || strings.Contains(p, "\x00") {
		return fmt.Errorf("removing %s on %s: refused: it is not below %s", p, m.cfg.Name, m.Dir())
	}
	if err := m.script(ctx, "remove", removeScript, nil, nil, path.Dir(p), path.Base(p), m.Dir()); err != nil {
		return m.pathError("removing", p, err)
	}
	return nil
}

// AllocatedBytes counts what is there while it may change: a file that
// vanishes meanwhile is not counted.
func (m *machine) AllocatedBytes(ctx context.Context, p string) (int64, error) {
	if err := m.checkAbs("measuring", p); err != nil {
		return 0, err
	}
	var out bounded
	err := m.script(ctx, "du", `[ -e "$1" ] || exit 44; du -sk -- "$1" 2>/dev/null || :`, nil, &out, p)
	if err != nil {
		return 0, m.pathError("measuring", p, err)
	}
	kib, err := field(out.buf, 0, 0)
	if err != nil {
		return 0, m.pathError("measuring", p, err)
	}
	return kib * 1024, nil
}

func (m *machine) FreeBytes(ctx context.Context, p string) (int64, error) {
	if err := m.checkAbs("free space of", p); err != nil {
		return 0, err
	}
	var out bounded
	err := m.script(ctx, "df", `[ -e "$1" ] || exit 44; exec df -Pk -- "$1"`, nil, &out, p)
	if err != nil {
		return 0, m.pathError("free space of", p, err)
	}
	kib, err := field(out.buf, 1, 3)
	if err != nil {
		return 0, m.pathError("free space of", p, err)
	}
	return kib * 1024, nil
}

// field returns the number in a column of a line, both counted from 0.
func field(text []byte, line, column int) (int64, error) {
	lines := strings.Split(string(text), "\n")
	if line < len(lines) {
		if f := strings.Fields(lines[line]); column < len(f) {
			return strconv.ParseInt(f[column], 10, 64)
		}
	}
	return 0, fmt.Errorf("unexpected output %q", text)
}
