package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// standIn is the null driver with a server process, and with one fault: the
// option "fault" says which, "at" by which message. "kind" says what its server
// and its clients offer besides.
type standIn struct{ driver.Null }

func (standIn) Name() string { return "standin" }

var faults = []string{"none", "not-installed", "no-start", "hang-start", "death", "death-told", "death-consuming", "stuck", "surplus",
	"damaged", "lost", "doubled", "reordered", "send-error", "send-hang", "receive-error", "exit", "blocked", "slow", "gate", "stubborn",
	"stall", "mute", "depth",
	"no-shut", "no-restart", "half"}

// The kinds: a log that can be restarted and shows its metrics, one that offers
// nothing besides, and a broker that has a queue for each consumer.
var kinds = []string{"log", "bare", "queues"}

type standInOptions struct {
	fault string
	kind  string
	at    int64
	gate  string
	// warm, if not 0, is the one size of the messages that are sent, to queues of
	// warm-ups alone.
	warm int
}

func readStandIn(o driver.Options) (standInOptions, error) {
	r := o.Read()
	s := standInOptions{fault: r.OneOf("fault", faults...), kind: r.OneOf("kind", kinds...), at: int64(r.Int("at", 1000, 0, 1<<30)), gate: o["gate"],
		warm: r.Int("warm", 0, 0, 1<<20)}
	if s.gate != "" {
		r.OneOf("gate", s.gate)
	}
	return s, r.Err()
}

func (standIn) Check(_ context.Context, _ host.Host, o driver.Options) error {
	s, err := readStandIn(o)
	if err == nil && s.fault == "not-installed" {
		return fmt.Errorf("the stand-in is %w: no package has it", driver.ErrNotInstalled)
	}
	return err
}

func (d standIn) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	s, err := readStandIn(o)
	if err != nil {
		return nil, err
	}
	if s.fault == "gate" {
		if _, err := os.Stat(s.gate); err != nil {
			return nil, err
		}
	}
	switch s.fault {
	case "no-start":
		return nil, errors.New("port 1 is in use")
	case "hang-start":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	null, err := d.Null.Start(ctx, broker, dir, nil)
	if err != nil {
		return nil, err
	}
	log := dir + "/server.log"
	if err := broker.WriteFile(ctx, log, []byte("started\n"), 0o644); err != nil {
		return nil, err
	}
	server := &standInServer{Server: null, host: broker, died: make(chan struct{}), log: log}
	if err := server.run(ctx); err != nil {
		return nil, err
	}
	if s.kind == "bare" {
		return server, nil
	}
	return &standInLog{server, s.fault}, nil
}

type standInServer struct {
	driver.Server
	host    host.Host
	process host.Process
	died    chan struct{}
	watched chan struct{}
	stopped *atomic.Bool // of the process of now
	log     string
}

func (s *standInServer) run(ctx context.Context) error {
	p, err := s.host.Start(ctx, host.Command{Args: []string{"sleep", "3600"}})
	if err != nil {
		return err
	}
	stopped, watched := new(atomic.Bool), make(chan struct{})
	s.process, s.stopped, s.watched = p, stopped, watched
	go func() {
		defer close(watched)
		<-p.Done()
		if !stopped.Load() {
			close(s.died)
		}
	}()
	return nil
}

func (s *standInServer) Target() driver.Target {
	t := s.Server.Target()
	t.Extra["pid"] = strconv.Itoa(s.process.PID())
	return t
}
func (s *standInServer) Processes() []host.Process { return []host.Process{s.process} }
func (s *standInServer) Died() <-chan struct{}     { return s.died }
func (s *standInServer) Logs() []string            { return []string{s.log} }
func (s *standInServer) Stop(ctx context.Context) error {
	s.stopped.Store(true)
	err := s.process.Stop(ctx, time.Second)
	<-s.watched
	return err
}

func (d standIn) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	s, err := readStandIn(o)
	if err != nil {
		return nil, err
	}
	null, err := d.Null.Connect(ctx, target, nil)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(target.Extra["pid"])
	c := &standInClient{Client: null, o: s, pid: pid}
	if s.kind == "bare" {
		return c, err
	}
	return &standInFanOut{standInClient: c}, err
}
