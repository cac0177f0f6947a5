package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
)

var update = flag.Bool("update", false, "write what the scripts print into their files")

// TestScripts runs the scripts in testdata. A script is a list of commands, each
// followed by a line of dashes, what it prints, and an empty line. Lines that
// begin with '#' say why.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(text))
			if got == string(text) {
				return
			}
			if !*update {
				t.Fatalf("%s prints something else (-update accepts it):\n%s", path, got)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// runScript returns the script with what its commands print now.
func runScript(t *testing.T, text string) string {
	s := &script{t: t}
	s.fs, s.clock = newTestFS()
	defer s.shut()
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			continue
		}
		if i < len(lines) && lines[i] == "----" { // the old output
			for i < len(lines) && lines[i] != "" {
				i++
			}
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n", line, strings.TrimRight(s.run(strings.Fields(line)), "\n"))
	}
	return out.String()
}

type script struct {
	t      *testing.T
	fs     *vfs.Mem
	clock  *clock.Manual
	m      *Manager
	logged logBuffer
	shown  int // bytes of logged
}

func (s *script) shut() {
	if s.m != nil {
		_ = s.m.Close(context.Background()) // what is left of it, after a crash or an error
		s.m = nil
	}
}

func (s *script) run(args []string) string {
	var out string
	var err error
	switch cmd, args := args[0], args[1:]; cmd {
	case "open":
		out, err = s.open(args)
	case "close":
		err = s.m.Close(testContext(s.t))
		s.m = nil
	case "crash", "kill":
		// crash: of the machine, only what was synced stays; kill: of the process.
		old := s.fs
		if s.fs = old.KillClone(); cmd == "crash" {
			s.fs = old.CrashClone(nil)
		}
		s.shut()
	case "append":
		out, err = s.append(args)
	case "flush":
		err = s.log().Flush(testContext(s.t))
	case "state":
		out = sprint(s.log().State())
	case "read":
		out, err = s.read(s.int(args[0]), int(s.int(args[1])))
	case "offsets":
		out = fmt.Sprint(s.log().OffsetsBefore(s.int(args[0]), int(s.int(args[1]))))
	case "advance": // time goes by
		s.clock.Advance(s.duration(args[0]))
	case "step": // somebody puts the clock forward or back
		s.clock.Step(s.duration(args[0]))
	case "retain":
		err = s.m.Retain(testContext(s.t))
		out = s.newLogs()
	case "restore": // the first attempt to bring the log back into service
		err = s.log().restore(testContext(s.t), 1)
		out = s.newLogs()
	case "files":
		out, err = s.files(testDir)
	case "damage": // damage FILE POSITION HEX
		b, herr := hex.DecodeString(args[2])
		if herr != nil {
			s.t.Fatal(herr)
		}
		old := content(s.t, s.fs, filepath.Join(testDir, args[0]))
		at := int(s.int(args[1]))
		if at < 0 {
			at += len(old)
		}
		put(s.t, s.fs, filepath.Join(testDir, args[0]), append(old[:at:at], append(b, old[min(at+len(b), len(old)):]...)...))
	case "remove":
		err = s.fs.Remove(filepath.Join(testDir, args[0]))
	case "fail": // fail KIND[=BYTES]...: the next operation of each kind, or the rest of it; none: no further
		hooks := make([]vfs.Hook, len(args))
		for i, arg := range args {
			kind, bytes, torn := strings.Cut(arg, "=")
			failure := error(syscall.EIO)
			if torn {
				failure = &vfs.TornWrite{Bytes: int(s.int(bytes)), Err: syscall.EIO}
			}
			hooks[i] = vfs.FailNth(vfs.OpKind(kind), 1, failure)
		}
		s.fs.SetHook(func(op vfs.Op) error {
			for _, h := range hooks {
				if err := h(op); err != nil {
					return err
				}
			}
			return nil
		})
	case "verify":
		out, err = s.verify()
	default:
		s.t.Fatalf("no command %q", cmd)
	}
	if err != nil {
		return out + "error: " + err.Error()
	}
	if out == "" {
		return "ok"
	}
	return out
}

func (s *script) int(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// newLogs returns what was logged since the last call, without the times.
func (s *script) newLogs() string {
	text := s.logged.String()
	fresh := text[s.shown:]
	s.shown = len(text)
	out := ""
	for line := range strings.Lines(fresh) {
		_, message, _ := strings.Cut(line, "level=")
		out += message
	}
	return out
}

func (s *script) log() *Log {
	l, err := s.m.Ensure("t", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *script) open(args []string) (string, error) {
	s.newLogs() // those of before
	cfg := Config{FS: s.fs, Clock: s.clock, Logger: s.logged.logger(), CleanupInterval: 1 << 62}
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "segment":
			cfg.SegmentBytes = s.int(value)
		case "flush-messages":
			cfg.FlushMessages = int(s.int(value))
		case "visible":
			cfg.Visible = VisibleAppended
		case "roll":
			cfg.RollInterval = s.duration(value)
		case "retention":
			cfg.RetentionAge = s.duration(value)
		case "retention-size":
			cfg.RetentionBytes = s.int(value)
		default:
			s.t.Fatalf("no setting %q", key)
		}
	}
	var err error
	s.m, err = Open(testContext(s.t), testDir, cfg)
	return s.newLogs(), err
}

// append appends magic 0 messages with payloads of the given sizes as one set.
func (s *script) append(args []string) (string, error) {
	var list [][]byte
	for i, size := range args {
		list = append(list, payload(i, int(s.int(size))))
	}
	a, err := s.log().Append(set(list...), len(list))
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("base=%d next=%d", a.Base, a.Next)
	if a.FlushDue {
		out += " flush due"
	}
	return out, nil
}

func (s *script) read(offset int64, maxBytes int) (string, error) {
	sl, err := s.log().Read(offset, maxBytes)
	if err != nil {
		return "", err
	}
	defer sl.Release()
	if sl.Len() == 0 {
		return "empty", nil
	}
	return fmt.Sprintf("%d bytes at %d of %s", sl.Len(), sl.Position(), filepath.Base(sl.segment.path)), nil
}

func (s *script) files(dir string) (string, error) {
	entries, err := s.fs.ReadDir(dir)
	if err != nil {
		return "", err
	}
	out := ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		name, _ := filepath.Rel(testDir, path)
		if e.IsDir() {
			below, err := s.files(path)
			if err != nil {
				return out, err
			}
			out += name + "/\n" + below
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out += fmt.Sprintf("%s %d\n", name, info.Size())
	}
	return out, nil
}

func (s *script) verify() (string, error) {
	r, err := Verify(testContext(s.t), testDir, WalkOptions{FS: s.fs})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, p := range r.Partitions {
		fmt.Fprintf(&out, "%s: topic %s partition %d, running %v\n", p.Path, p.Topic, p.Partition, r.Running)
		for _, sg := range p.Segments {
			fmt.Fprintf(&out, "%s: %d messages, %d of %d bytes", filepath.Base(sg.Path), sg.Messages, sg.ValidBytes, sg.Size)
			if sg.Damage != nil {
				fmt.Fprintf(&out, ", %v", sg.Damage)
			}
			fmt.Fprintln(&out)
		}
		for _, g := range p.Gaps {
			fmt.Fprintln(&out, g)
		}
		for _, c := range p.Cuts {
			fmt.Fprintf(&out, "%s: %d bytes\n", filepath.Base(c.Path), c.Bytes)
		}
	}
	return out.String(), nil
}
