package drivertest

import (
	"io/fs"
	"path"
	"path/filepath"
	"testing"

	"kafkalab/harness/driver"
)

// restart: a server that ends, cleanly and then by SIGKILL, comes back at the
// same address with what it had stored, and is not said to have died.
func (c Config) restart(t *testing.T, h *spy, s driver.Server) {
	r, ok := s.(driver.Restarter)
	if !ok {
		t.Skip("the server cannot be restarted")
	}
	const queue = "kept"
	cl := c.connect(t, s, c.Options)
	p, err := cl.Producer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	c.produce(t, p, c.Messages)
	waitArrived(t, cl, queue, int64(c.Messages))
	_ = closeClient(t, cl)

	target := s.Target()
	for _, end := range []struct {
		name string
		do   func() error
	}{
		{"Shut", func() error { return r.Shut(timeout(t)) }},
		{"Kill", func() error { return r.Kill(timeout(t)) }},
	} {
		before := s.Processes()
		if err := end.do(); err != nil {
			t.Fatalf("%s: %v", end.name, err)
		}
		for _, p := range before {
			select {
			case <-p.Done():
			default:
				t.Fatalf("process %d runs after %s", p.PID(), end.name)
			}
		}
		h.expectNothingRunning(t)
		if cl, err := c.Driver.Connect(timeout(t), target, c.Options); err == nil {
			t.Errorf("Connect succeeds after %s", end.name)
			_ = cl.Close(timeout(t))
		}
		if err := r.Restart(timeout(t)); err != nil {
			t.Fatalf("Restart after %s: %v", end.name, err)
		}
		if now := s.Processes(); len(now) == 0 || now[0] == before[0] {
			t.Errorf("processes after %s and Restart: %v, before: %v", end.name, now, before)
		}
		if s.Target().Addr != target.Addr {
			t.Errorf("the server is at %s after %s, and was at %s", s.Target().Addr, end.name, target.Addr)
		}
		// What is there is known at the first question: nobody can tell a loss from
		// a count that is yet to come.
		cl := c.connect(t, s, c.Options)
		if n, err := cl.Arrived(timeout(t), queue); err != nil || n != int64(c.Messages) {
			t.Errorf("%d messages are there after %s and Restart, %v; wanted %d", n, end.name, err, c.Messages)
		}
		_ = closeClient(t, cl)
	}
	select {
	case <-s.Died():
		t.Error("a server that was ended and restarted is said to have died")
	default:
	}
	cl = c.connect(t, s, c.Options)
	consumer, err := cl.Consumer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := receive(timeout(t), consumer, c.Messages, c.PayloadBytes); err != nil {
		t.Error(err)
	}
}

// storeParts: the files of a server that says what they are for are mostly
// found among what it says.
func storeParts(t *testing.T, s driver.Server) {
	splitter, ok := s.(driver.StoreSplitter)
	if !ok {
		t.Skip("the server does not tell what its files are for")
	}
	bytes, unknown, names := map[string]int64{}, int64(0), []string(nil)
	err := filepath.WalkDir(s.StoreDir(), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // gone meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil // gone meanwhile
		}
		name, err := filepath.Rel(s.StoreDir(), file)
		if err != nil {
			return err
		}
		for _, part := range splitter.StoreParts() {
			for _, glob := range part.Globs {
				match, err := path.Match(glob, name)
				if err != nil {
					t.Errorf("part %s: %q: %v", part.Name, glob, err)
				}
				if match {
					bytes[part.Name] += info.Size()
					return nil
				}
			}
		}
		unknown += info.Size()
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	known := int64(0)
	for _, n := range bytes {
		known += n
	}
	t.Logf("bytes by part: %v, other: %d", bytes, unknown)
	if known < 10*unknown || bytes["log"]+bytes["journal"]+bytes["index"] == 0 {
		t.Errorf("parts hold %v bytes, and files of no part %d: %q", bytes, unknown, names)
	}
}
