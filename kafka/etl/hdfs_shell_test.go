package etl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The test's own program stands in for HDFS's shell, over a local folder, where tests
// of the commands run without Hadoop: it takes the commands that this package uses, and
// answers them as the shell does, so far as that matters here. `make test-hadoop` runs the
// same against a real HDFS.

// shellRoot is the environment variable that holds the folder; with it the test's program
// is the shell.
const shellRoot = "ETL_TEST_HDFS_ROOT"

const shellHost = "hdfs://test:8020"

// hdfsShell is the shell, if the program was started as one.
func hdfsShell() bool {
	root := os.Getenv(shellRoot)
	if root == "" {
		return false
	}
	s := shell{root: root}
	s.run(os.Args[1:])
	if s.failed {
		os.Exit(1)
	}
	return true
}

type shell struct {
	root   string
	failed bool
}

func (s *shell) fail(command, name, why string) {
	s.failed = true
	fmt.Fprintf(os.Stderr, "%s: `%s': %s\n", command, name, why)
}

func (s *shell) local(url string) string {
	p, found := strings.CutPrefix(url, shellHost)
	if !found {
		fmt.Fprintf(os.Stderr, "not of this file system: %s\n", url)
		os.Exit(2)
	}
	return filepath.Join(s.root, p)
}

func (s *shell) run(args []string) {
	command, args := args[0], args[1:]
	var options []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		options, args = append(options, args[0]), args[1:]
	}
	switch command + " " + strings.Join(options, " ") {
	case "-mkdir -p":
		for _, a := range args {
			if err := os.MkdirAll(s.local(a), 0o755); err != nil {
				s.fail("mkdir", a, err.Error())
			}
		}
	case "-put -f":
		for _, a := range args[:len(args)-1] {
			s.put(a, s.target(a, args[len(args)-1]))
		}
	case "-mv ":
		for _, a := range args[:len(args)-1] {
			s.move(a, args[len(args)-1])
		}
	case "-cat ":
		for _, a := range args {
			b, err := os.ReadFile(s.local(a))
			if err != nil {
				s.fail("cat", a, "No such file or directory")
			}
			_, _ = os.Stdout.Write(b)
		}
	case "-ls ", "-ls -R":
		for _, a := range args {
			s.list(a, len(options) > 0)
		}
	case "-rm -r -f -skipTrash":
		for _, a := range args {
			if err := os.RemoveAll(s.local(a)); err != nil {
				s.fail("rm", a, err.Error())
			}
		}
	default:
		fmt.Fprintf(os.Stderr, "%s %v: unknown command\n", command, options)
		os.Exit(255)
	}
}

// target is where something comes to lie: within a folder that is there, or under its name.
func (s *shell) target(from, to string) string {
	if info, err := os.Stat(s.local(to)); err == nil && info.IsDir() {
		return strings.TrimSuffix(to, "/") + "/" + path.Base(from)
	}
	return to
}

func (s *shell) put(from, to string) {
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(s.local(to), below)
		if e.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o644)
	})
	if err != nil {
		s.fail("put", from, err.Error())
	}
}

func (s *shell) move(from, to string) {
	target := s.target(from, to)
	if _, err := os.Stat(s.local(from)); errors.Is(err, fs.ErrNotExist) {
		s.fail("mv", from, "No such file or directory")
		return
	}
	if _, err := os.Stat(s.local(target)); err == nil {
		s.fail("mv", target, "File exists")
		return
	}
	if err := os.Rename(s.local(from), s.local(target)); err != nil {
		s.fail("mv", from, "No such file or directory")
	}
}

func (s *shell) list(name string, deep bool) {
	info, err := os.Stat(s.local(name))
	if err != nil {
		s.fail("ls", name, "No such file or directory")
		return
	}
	if !info.IsDir() {
		s.line(name, info)
		return
	}
	entries, err := os.ReadDir(s.local(name))
	if err != nil {
		s.fail("ls", name, err.Error())
	}
	if !deep {
		fmt.Printf("Found %d items\n", len(entries))
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		child := strings.TrimSuffix(name, "/") + "/" + e.Name()
		s.line(child, info)
		if deep && e.IsDir() {
			s.list(child, true)
		}
	}
}

func (s *shell) line(name string, info fs.FileInfo) {
	kind, replicas, length := "-rw-r--r--", "3", info.Size()
	if info.IsDir() {
		kind, replicas, length = "drwxr-xr-x", "-", 0
	}
	fmt.Printf("%s   %s root supergroup %10d 2026-11-29 12:00 %s\n", kind, replicas, length, name)
}

// copyOut copies a folder of the shell for the reader, which reads local ones.
func copyOut(root, dir string) error {
	return filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || slices.Contains(strings.Split(name, "/"), bookkeeping) {
			return err
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, below)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(to)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}
