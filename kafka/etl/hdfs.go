package etl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HDFSCommandVariable is the environment variable that holds the command line of
// HDFS's file system shell, split at blanks; "hdfs dfs" if it is not set.
const HDFSCommandVariable = "HADOOP_HDFS_COMMAND"

// hdfs is a folder of HDFS, used through Hadoop's own shell, so that whatever its
// configuration says (names, security, erasure coding) holds here too. Each call
// starts a Java process, of a second or two: so there are few, for many files each.
//
// A file of HDFS is there for good once it was closed, and a rename once it was
// answered: nothing is to be synced.
type hdfs struct {
	root string // URL without a slash at the end
	path string // of root
	argv []string
}

func newHDFS(out string) (*hdfs, error) {
	u, err := url.Parse(out)
	if err != nil {
		return nil, fmt.Errorf("output folder %q: %w", out, err)
	}
	p := path.Clean("/" + u.Path)
	if p == "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("output folder %q: give hdfs://HOST:PORT/PATH", out)
	}
	argv := strings.Fields(os.Getenv(HDFSCommandVariable))
	if len(argv) == 0 {
		argv = []string{"hdfs", "dfs"}
	}
	return &hdfs{root: "hdfs://" + u.Host + p, path: p, argv: argv}, nil
}

func (h *hdfs) url(name string) string {
	if name == "" {
		return h.root
	}
	return h.root + "/" + name
}

func (h *hdfs) urls(names []string) []string {
	var urls []string
	for _, name := range names {
		urls = append(urls, h.url(name))
	}
	return urls
}

// plainName is what the shell takes for itself and nothing else: it understands
// patterns, and HDFS knows no colon.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func (h *hdfs) checkTopic(topic string) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if !plainName.MatchString(topic) {
		return fmt.Errorf("topic %q cannot be loaded into HDFS: its name may have letters, digits, '.', '_' and '-' only", topic)
	}
	return nil
}

// shellError is a command that failed.
type shellError struct {
	command string
	err     error
	stderr  string
}

func (e *shellError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.command, e.err, strings.TrimSpace(e.stderr))
}
func (e *shellError) Unwrap() error { return e.err }

// missing reports whether the shell found something not to be there.
func (e *shellError) missing() bool { return strings.Contains(e.stderr, "No such file or directory") }

// shellDelay is how long a command that was killed is waited for, whose own children may
// hold its output open.
const shellDelay = 5 * time.Second

// maxShellOutput bounds what is kept of a command's output, but for that of read.
const maxShellOutput = 256 << 20

// run runs a command of the shell and returns its standard output, limit bytes at
// most, also beside a [*shellError].
func (h *hdfs) run(ctx context.Context, limit int64, args ...string) ([]byte, error) {
	argv := append(slices.Clone(h.argv), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, notes := &bounded{limit: limit}, &bounded{limit: 64 << 10, cut: true}
	cmd.Stdout, cmd.Stderr = out, notes
	cmd.WaitDelay = shellDelay
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", strings.Join(h.argv, " "), args[0], ctx.Err())
	case err != nil:
		shown := strings.Join(argv, " ")
		if len(shown) > 300 {
			shown = shown[:300] + "…"
		}
		return out.Bytes(), &shellError{shown, err, notes.String()}
	}
	return out.Bytes(), nil
}

// bounded is a buffer that takes so many bytes; what is more is an error, or dropped.
type bounded struct {
	bytes.Buffer
	limit int64
	cut   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - int64(b.Len()); int64(len(p)) > room {
		if !b.cut {
			return 0, fmt.Errorf("more than %d bytes", b.limit)
		}
		_, err := b.Buffer.Write(p[:max(room, 0)])
		return len(p), err
	}
	return b.Buffer.Write(p)
}

// listed is a line of "-ls": permissions, replication, owner and group, length, date,
// path.
var listed = regexp.MustCompile(`^([d-])[rwxstST-]{9}\+?\s+(?:-|\d+)\s+.*?\s(\d+)\s+\d{4}-\d\d-\d\d \d\d:\d\d\s(.*)$`)

// list lists what "-ls" says of names, and calls back for each with its name below the
// output folder. Names that are not there are left out.
func (h *hdfs) list(ctx context.Context, args []string, each func(name string, folder bool, length int64)) error {
	out, err := h.run(ctx, maxShellOutput, append([]string{"-ls"}, args...)...)
	var failed *shellError
	if errors.As(err, &failed) && failed.missing() {
		err = nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		m := listed.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue // "Found 3 items"
		}
		length, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return fmt.Errorf("hdfs -ls: length in %q: %w", line, err)
		}
		name := m[3]
		if u, err := url.Parse(name); err == nil && u.Scheme != "" {
			name = u.Path
		}
		below, found := strings.CutPrefix(name, h.path+"/")
		if !found {
			return fmt.Errorf("hdfs -ls: %q is not below %s", m[3], h.root)
		}
		each(below, m[1] == "d", length)
	}
	return nil
}

func (h *hdfs) tree(ctx context.Context, folder string) (map[string]int64, error) {
	files := map[string]int64{}
	err := h.list(ctx, []string{"-R", h.url(folder)}, func(name string, folder bool, length int64) {
		if !folder {
			files[name] = length
		}
	})
	return files, err
}

func (h *hdfs) folders(ctx context.Context, folder string) ([]string, error) {
	var names []string
	err := h.list(ctx, []string{h.url(folder)}, func(name string, folder bool, _ int64) {
		if folder {
			names = append(names, path.Base(name))
		}
	})
	slices.Sort(names)
	return names, err
}

// argsAtOnce bounds how many names a command line has: far below the kernel's bound
// on its length.
const argsAtOnce = 200

func (h *hdfs) lengths(ctx context.Context, names []string) (map[string]int64, error) {
	files := map[string]int64{}
	for some := range slices.Chunk(names, argsAtOnce) {
		err := h.list(ctx, h.urls(some), func(name string, folder bool, length int64) {
			if !folder {
				files[name] = length
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (h *hdfs) read(ctx context.Context, limit int64, names ...string) ([]byte, error) {
	var all []byte
	for some := range slices.Chunk(names, argsAtOnce) {
		out, err := h.run(ctx, limit-int64(len(all)), append([]string{"-cat"}, h.urls(some)...)...)
		var failed *shellError
		if errors.As(err, &failed) && failed.missing() {
			err = fmt.Errorf("%w: %w", errMissing, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, out...)
	}
	return all, nil
}

func (h *hdfs) write(ctx context.Context, folder string, files ...content) (err error) {
	dir, err := os.MkdirTemp("", "kafka-etl-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := []string{"-put", "-f"}
	for _, c := range files {
		name := filepath.Join(dir, c.name)
		if err := os.WriteFile(name, c.data, 0o644); err != nil {
			return err
		}
		args = append(args, name)
	}
	if _, err := h.run(ctx, maxShellOutput, "-mkdir", "-p", h.url(folder)); err != nil {
		return err
	}
	_, err = h.run(ctx, maxShellOutput, append(args, h.url(folder)+"/")...)
	return err
}

// put copies a local folder with all that is in it into a folder, which it makes.
func (h *hdfs) put(ctx context.Context, localFolder, folder string) error {
	if _, err := h.run(ctx, maxShellOutput, "-mkdir", "-p", h.url(folder)); err != nil {
		return err
	}
	_, err := h.run(ctx, maxShellOutput, "-put", "-f", localFolder, h.url(folder)+"/")
	return err
}

func (h *hdfs) settle(context.Context, string) error { return nil }

func (h *hdfs) keep(context.Context, []string) error { return nil }

func (h *hdfs) publish(ctx context.Context, from, to string) error {
	if _, err := h.run(ctx, maxShellOutput, "-mkdir", "-p", h.url(path.Dir(to))); err != nil {
		return err
	}
	_, err := h.run(ctx, maxShellOutput, "-mv", h.url(from), h.url(to))
	return err
}

// move moves files that keep their last element, all of a folder with one command. A
// file that has been moved already, by somebody who does the same, is no error here:
// the caller looks at what there is in the end.
func (h *hdfs) move(ctx context.Context, moves []move) error {
	byFolder := map[string][]string{}
	for _, m := range moves {
		if path.Base(m.from) != path.Base(m.to) {
			return fmt.Errorf("move %s to %s: the names differ", m.from, m.to)
		}
		byFolder[path.Dir(m.to)] = append(byFolder[path.Dir(m.to)], m.from)
	}
	folders := slices.Sorted(maps.Keys(byFolder))
	for some := range slices.Chunk(folders, argsAtOnce) {
		if _, err := h.run(ctx, maxShellOutput, append([]string{"-mkdir", "-p"}, h.urls(some)...)...); err != nil {
			return err
		}
	}
	for _, folder := range folders {
		for some := range slices.Chunk(byFolder[folder], argsAtOnce) {
			args := append(append([]string{"-mv"}, h.urls(some)...), h.url(folder)+"/")
			_, err := h.run(ctx, maxShellOutput, args...)
			var failed *shellError
			if errors.As(err, &failed) && (failed.missing() || strings.Contains(failed.stderr, "File exists")) {
				err = nil
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hdfs) remove(ctx context.Context, folders ...string) error {
	for some := range slices.Chunk(folders, argsAtOnce) {
		if _, err := h.run(ctx, maxShellOutput, append([]string{"-rm", "-r", "-f", "-skipTrash"}, h.urls(some)...)...); err != nil {
			return err
		}
	}
	return nil
}

// noLock is the lock of a folder that needs none.
type noLock struct{}

func (noLock) Close() error { return nil }

func (h *hdfs) lock() (io.Closer, error) { return noLock{}, nil }
