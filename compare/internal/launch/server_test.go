package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

var (
	_ driver.Restarter     = (*Server)(nil)
	_ driver.StoreSplitter = (*Server)(nil)
)

// serve starts a server of shell scripts, which is stopped with the test.
func serve(t *testing.T, h host.Host, scripts ...string) *Server {
	t.Helper()
	s, err := StartServer(t.Context(), ServerConfig{
		Target: driver.Target{Addr: "x:1"}, StoreDir: "/store", Logs: []string{"/log"},
		Start: func(ctx context.Context) ([]host.Process, error) {
			var programs []host.Process
			for i, script := range scripts {
				p := shell(t, h, "program", script, "ready")
				if err := p.WaitReady(ctx); err != nil {
					t.Errorf("program %d: %v", i, err)
				}
				programs = append(programs, p.Process)
			}
			return programs, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			if err := s.Stop(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
	return s
}

const sleeper = `echo ready; exec sleep 100`

func waitClosed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s goes on", what)
	}
}

func expectAlive(t *testing.T, s *Server) {
	t.Helper()
	select {
	case <-s.Died():
		t.Error("the server is said to have died")
	default:
	}
}

// When one program of a server dies, Died is closed and the others are ended.
func TestServerDies(t *testing.T) {
	s := serve(t, openHost(t), sleeper, sleeper)
	p := s.Processes()
	if len(p) != 2 || p[0] != s.current.programs[1] || p[1] != s.current.programs[0] {
		t.Error("the last started is not the first listed")
	}
	if err := p[1].Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, "the server", s.Died())
	waitClosed(t, "the other program", p[0].Done())
}

// Stop ends programs that do not want to, in the end.
func TestServerStop(t *testing.T) {
	s := serve(t, openHost(t), `trap "" TERM; echo ready; while :; do sleep 0.1; done`)
	if err := s.Stop(deadline(t, 100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	expectAlive(t, s)
}

// A server ends cleanly with Shut and without warning with Kill, comes back
// after both, and is not said to have died; when it does die after that, it is.
func TestServerRestarts(t *testing.T) {
	h := openHost(t)
	clean := filepath.Join(t.TempDir(), "clean")
	s := serve(t, h, sleeper,
		`trap "echo >>`+clean+`; exit" TERM; echo ready; while :; do sleep 0.05; done`)
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a running server was started once more")
	}
	for _, end := range []func(context.Context) error{s.Shut, s.Kill} {
		before := s.Processes()
		if err := end(deadline(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, p := range before {
			waitClosed(t, "a program", p.Done())
		}
		if text, err := os.ReadFile(clean); err != nil || len(text) != 1 {
			t.Errorf("clean ends: %q, %v; the first is one, the second none", text, err)
		}
		if err := s.Restart(deadline(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		if now := s.Processes(); len(now) != len(before) || now[0] == before[0] {
			t.Errorf("processes %v after %v", now, before)
		}
		expectAlive(t, s)
	}
	if err := s.Processes()[0].Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, "the server", s.Died())
}

// A restart that fails leaves a server that can be stopped.
func TestServerFailsToRestart(t *testing.T) {
	h := openHost(t)
	starts, refused := 0, errors.New("refused")
	s, err := StartServer(t.Context(), ServerConfig{Start: func(context.Context) ([]host.Process, error) {
		if starts++; starts > 1 {
			return nil, refused
		}
		return []host.Process{shell(t, h, "program", sleeper, "ready").Process}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(deadline(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); !errors.Is(err, refused) {
		t.Errorf("Restart: %v", err)
	}
	if err := s.Stop(deadline(t, 30*time.Second)); err != nil {
		t.Error(err)
	}
	expectAlive(t, s)
}
