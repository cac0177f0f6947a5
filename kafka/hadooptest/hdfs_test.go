//go:build hadoop

package hadooptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The program "hdfs" of these tests is this test program under another name, since
// Hadoop's packages for Maven hold no programs. Its only command is dfs, which is
// Hadoop's FsShell.
const (
	hdfsName     = "hdfs"
	hdfsVariable = "KAFKALAB_TEST_HDFS"        // the file with its command line, a line an argument
	amidVariable = "KAFKALAB_TEST_HDFS_BREAKS" // the file that it makes when it breaks off
)

// newHDFS makes the program in a folder of the test and returns what is to be in the
// environment for it.
func newHDFS(t *testing.T, h hadoop, sites string) map[string]string {
	t.Helper()
	folder := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatalf("this program: %v", err)
	}
	argv, err := h.shellArgv(sites)
	if err != nil {
		t.Fatalf("program hdfs: %v", err)
	}
	file := filepath.Join(folder, "argv")
	if err := errors.Join(os.Symlink(program, filepath.Join(folder, hdfsName)), os.WriteFile(file, []byte(strings.Join(argv, "\n")), 0o644)); err != nil {
		t.Fatalf("program hdfs: %v", err)
	}
	// Streaming splits what it hands on at blanks, which the user's own path may have.
	// What a program that is killed leaves behind goes with the test.
	return map[string]string{"PATH": folder + ":/usr/bin:/bin", hdfsVariable: file, "TMPDIR": t.TempDir()}
}

// runHDFS is that program. It returns its exit status.
//
// With amidVariable it uploads halves only, and then waits for the end of the program
// that called it.
func runHDFS() int {
	if len(os.Args) < 2 || os.Args[1] != "dfs" {
		fmt.Fprintln(os.Stderr, "hdfs: the only command is dfs")
		return 2
	}
	argv, err := os.ReadFile(os.Getenv(hdfsVariable))
	if err != nil {
		fmt.Fprintf(os.Stderr, "hdfs: %v\n", err)
		return 1
	}
	words := append(strings.Split(string(argv), "\n"), os.Args[2:]...)
	begun := os.Getenv(amidVariable)
	if begun == "" || len(os.Args) < 5 || os.Args[2] != "-put" {
		err = syscall.Exec(words[0], words, os.Environ())
	} else {
		err = putHalf(words, begun)
	}
	fmt.Fprintf(os.Stderr, "hdfs: %v\n", err)
	return 1
}

// putHalf uploads a file or folder with half of the bytes of each file, under the names
// that the whole ones should have, and waits for the end of the caller.
func putHalf(words []string, begun string) (err error) {
	caller := os.Getppid()
	folder, err := os.MkdirTemp("", "halves-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	from := &words[len(words)-2] // -put ... FROM TO
	if *from, err = halves(*from, folder); err != nil {
		return err
	}
	shell := exec.Command(words[0], words[1:]...)
	shell.Stderr = os.Stderr
	if err := shell.Run(); err != nil {
		return err
	}
	if err := os.WriteFile(begun, nil, 0o644); err != nil {
		return err
	}
	for end := time.Now().Add(lateLimit); os.Getppid() == caller; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the caller was not killed")
		}
	}
	return errors.New("the caller was killed")
}

// halves makes, in a folder, the first halves of the files below a path, and returns
// the path that they have there.
func halves(path, folder string) (string, error) {
	to := filepath.Join(folder, filepath.Base(path))
	return to, filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, path))
		if d.IsDir() {
			return os.Mkdir(target, 0o755)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data[:len(data)/2], 0o644)
	})
}
