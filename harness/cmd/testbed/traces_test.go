package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/harness/scenario"
)

// site is a testbed of a test, and knows every place in which a run could
// leave something behind.
type site struct {
	t       *testing.T
	file    string
	testbed scenario.Testbed
	bin     string // the programs
	temp    string // the testbed's folder for temporary files
}

func newSite(t *testing.T, file, bin string) *site {
	t.Helper()
	tb, err := scenario.LoadTestbed(file)
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, file: file, testbed: tb, bin: bin, temp: t.TempDir()}
}

// traces lists everything of this testbed that is there: files in the hosts'
// folders, processes in the namespaces, and processes anywhere that were
// started from those folders or with them. The key is a path or a process's
// number, since a process may change what it calls itself.
func (s *site) traces() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	folders := []string{s.testbed.ClientHost.Dir, s.testbed.BrokerHost.Dir, s.temp}
	for _, dir := range folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			for _, path := range contents(filepath.Join(dir, e.Name())) {
				found[path] = path
			}
		}
	}
	for _, l := range left(s.t, s.testbed.Link) {
		for _, pid := range l.PIDs {
			found[pid] = fmt.Sprintf("process %s (%s) in the namespace %s", pid, commandOf(pid), l.Namespace)
		}
	}
	marks := append(folders, s.bin)
	if config := s.testbed.ClientHost.SSH.ConfigFile; config != "" {
		marks = append(marks, config)
	}
	maps.Copy(found, s.processes(marks...))
	return found
}

// processes lists the processes of this machine whose command line holds one of
// the marks, or that were started in such a folder.
func (s *site) processes(marks ...string) map[string]string {
	s.t.Helper()
	found := map[string]string{}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range all {
		pid := filepath.Base(p)
		cwd, _ := os.Readlink(p + "/cwd") // not of one that has just ended
		command := commandOf(pid)
		if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(command, m) || strings.HasPrefix(cwd, m) }) {
			found[pid] = fmt.Sprintf("process %s (%s), in %s", pid, command, cwd)
		}
	}
	return found
}

// contents lists what is at the path, the files of a folder by their paths.
func contents(path string) []string {
	found := []string{path}
	entries, err := os.ReadDir(path)
	if err != nil {
		return found // a file
	}
	for _, e := range entries {
		found = append(found, filepath.Join(path, e.Name()))
	}
	return found
}

func commandOf(pid string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/cmdline") // not of one that has just ended
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
}

// wantOnly wants that nothing is there that was not before. What was killed
// may take a moment to be gone, and an sshd to see that its peer is; on a busy
// machine that is a long one.
func (s *site) wantOnly(before map[string]string) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		extra := s.traces()
		maps.DeleteFunc(extra, func(key, _ string) bool { _, was := before[key]; return was })
		if len(extra) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("left behind:\n  %s", strings.Join(slices.Sorted(maps.Values(extra)), "\n  "))
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// watched keeps what is written to it and tells that more has come.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newWatched() *watched { return &watched{more: make(chan struct{}, 1)} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	select {
	case w.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
