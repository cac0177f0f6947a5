package mirror_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/mirror"
)

// workerVariable names the environment variable that makes the test's program a mirror.
// Its value is a workerConfig.
const workerVariable = "KAFKALAB_MIRROR_WORKER"

// workerConfig is what a mirror in a process of its own is told.
type workerConfig struct {
	Sources    []string
	Target     string
	Group      string
	WhiteList  string
	FetchBytes int
	Session    time.Duration
	// DieAt is the step at which it kills itself, when it comes there for the DieAfter-th
	// time; empty: at none.
	DieAt    string
	DieAfter int64
}

// run is a mirror until ctx ends.
func (c workerConfig) run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	zk := func(servers string) coord.Config {
		return coord.Config{Servers: servers, SessionTimeout: c.Session, ConnectTimeout: patience, Logger: log}
	}
	cfg := mirror.Config{
		Target: zk(c.Target), Group: c.Group, WhiteList: c.WhiteList, FetchBytes: c.FetchBytes,
		CommitInterval: 50 * time.Millisecond, RebalanceBackoff: 200 * time.Millisecond, Logger: log,
	}
	for _, s := range c.Sources {
		cfg.Sources = append(cfg.Sources, zk(s))
	}
	if c.DieAt != "" {
		var times atomic.Int64
		mirror.OnStep(&cfg, func(step string) {
			if step == c.DieAt && times.Add(1) == c.DieAfter {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // nothing more is to happen until the signal has come
			}
		})
	}
	m, err := mirror.Open(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return m.Close(closing)
}

// worker is a mirror in a process of its own.
type worker struct {
	t     testing.TB
	cmd   *exec.Cmd
	log   *tail
	ended chan struct{}
	err   error // set before ended is closed
}

// tail keeps what a process prints.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, b...)
	if over := len(l.b) - 64<<10; over > 0 {
		l.b = l.b[over:]
	}
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

func startWorker(t testing.TB, c workerConfig) *worker {
	t.Helper()
	cmd, err := kafkatest.WorkerCommand(workerVariable, c)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, cmd: cmd, log: &tail{}, ended: make(chan struct{})}
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		w.err = w.cmd.Wait()
		close(w.ended)
	}()
	t.Cleanup(func() {
		w.kill()
		if t.Failed() {
			t.Logf("a mirror (%v), the end of its log:\n%s", w.err, w.log)
		}
	})
	return w
}

// kill ends it with signal 9.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // fails only for one that has ended
	<-w.ended
}

// awaitKilled waits until it has killed itself.
func (w *worker) awaitKilled() {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		w.t.Fatal("the mirror has not come to the step at which it is to die")
	}
	var exit *exec.ExitError
	if !errors.As(w.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.t.Fatalf("the mirror has ended by itself: %v\n%s", w.err, w.log)
	}
}

// stop ends it as its user would.
func (w *worker) stop() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(patience):
		w.t.Fatal("the mirror does not stop")
	}
	if w.err != nil {
		w.t.Errorf("the mirror has not stopped well: %v\n%s", w.err, w.log)
	}
}
