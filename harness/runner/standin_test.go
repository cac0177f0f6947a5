package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

// The test program is its own client and sampler process, as the real testbed
// program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "client":
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			if err := RunClient(ctx, os.Stdin, os.Stdout, drivers()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "sample":
			os.Exit(sample(os.Args[2:]))
		case "drop-cache":
			left, err := measure.DropCache(context.Background(), os.Args[2])
			if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(left)); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// sample is the sampler, which reads no metrics: with --metrics-url it says that
// collecting has taken a second more in each sample, and that the server has a
// mebibyte.
func sample(args []string) int {
	flags := pflag.NewFlagSet("sample", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	var cfg measure.SamplerConfig
	flags.IntSliceVar(&cfg.PIDs, "pids", nil, "")
	url := flags.String("metrics-url", "", "")
	if err := flags.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	s, err := measure.NewSampler(cfg)
	if err == nil {
		out, gc := json.NewEncoder(os.Stdout), 0.0
		err = s.Run(ctx, 100*time.Millisecond, func(s resultfile.Sample) error {
			if *url != "" {
				s.ProcessResidentBytes = 1 << 20
				s.GCSeconds = gc
				gc++
			}
			return out.Encode(s)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func drivers() *driver.Table {
	return driver.NewTable(driver.NewNull(), standIn{driver.NewNull()}, crasher{driver.NewNull()}, gatherer{driver.NewNull()})
}

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
}

func readStandIn(o driver.Options) (standInOptions, error) {
	r := o.Read()
	s := standInOptions{fault: r.OneOf("fault", faults...), kind: r.OneOf("kind", kinds...), at: int64(r.Int("at", 1000, 0, 1<<30)), gate: o["gate"]}
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

// standInClient commits the fault. Warm-up queues are spared.
type standInClient struct {
	driver.Client
	o   standInOptions
	pid int
}

func (c *standInClient) Arrived(ctx context.Context, queue string) (int64, error) {
	n, err := c.Client.Arrived(ctx, queue)
	if strings.HasPrefix(queue, "bench") && n > 0 {
		switch c.o.fault {
		case "stuck":
			n = min(n, c.o.at)
		case "surplus":
			n++
		case "depth":
			n -= consumed.Load()
		}
	}
	return n, err
}

// consumed is how many messages this process has received.
var consumed atomic.Int64

func (c *standInClient) CountsDepth() bool { return c.o.fault == "depth" }

func (c *standInClient) StoredSize(n int) int { return n + 9 }

func (c *standInClient) BlockedReasons() []string {
	if c.o.fault == "blocked" {
		return []string{"low on disk"}
	}
	return nil
}

func (c *standInClient) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	p, err := c.Client.Producer(ctx, queue)
	if queue != "bench" {
		return p, err
	}
	return &standInProducer{Producer: p, c: c}, err
}

type standInProducer struct {
	driver.Producer
	c    *standInClient
	sent int64
}

func (p *standInProducer) Send(ctx context.Context, payload []byte) error {
	p.sent++
	if p.c.o.fault == "slow" {
		time.Sleep(100 * time.Microsecond)
	}
	if p.sent == p.c.o.at && p.c.o.fault == "stall" {
		time.Sleep(200 * time.Millisecond)
	}
	if p.sent > p.c.o.at {
		switch p.c.o.fault {
		case "send-error":
			return errors.New("connection reset")
		case "send-hang":
			<-ctx.Done()
			return ctx.Err()
		case "stubborn":
			select {}
		case "exit":
			os.Exit(3)
		case "death":
			_ = syscall.Kill(p.c.pid, syscall.SIGKILL)
			<-ctx.Done()
			return ctx.Err()
		case "death-told":
			_ = syscall.Kill(p.c.pid, syscall.SIGKILL)
			return errors.New("connection reset")
		}
	}
	return p.Producer.Send(ctx, payload)
}

func (c *standInClient) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	consumer, err := c.Client.Consumer(ctx, queue)
	if !strings.HasPrefix(queue, "bench") {
		return consumer, err
	}
	return &standInConsumer{Consumer: consumer, c: c}, err
}

type standInConsumer struct {
	driver.Consumer
	c        *standInClient
	received int64
	kept     []byte
}

func (c *standInConsumer) Receive(ctx context.Context, handle func([]byte) error) error {
	if c.c.o.fault == "slow" {
		time.Sleep(100 * time.Millisecond)
	}
	if c.c.o.fault == "mute" && c.received >= c.c.o.at {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.Consumer.Receive(ctx, func(payload []byte) error {
		c.received++
		consumed.Add(1)
		switch at := c.received == c.c.o.at; {
		case at && c.c.o.fault == "damaged":
			payload[len(payload)-1]++
		case at && c.c.o.fault == "lost":
			return nil
		case at && c.c.o.fault == "doubled":
			if err := handle(payload); err != nil {
				return err
			}
		case at && c.c.o.fault == "reordered":
			c.kept = append([]byte(nil), payload...)
			return nil
		case c.kept != nil:
			if err := handle(payload); err != nil {
				return err
			}
			payload, c.kept = c.kept, nil
		case at && c.c.o.fault == "receive-error":
			return errors.New("connection reset")
		case at && c.c.o.fault == "death-consuming":
			_ = syscall.Kill(c.c.pid, syscall.SIGKILL)
			<-ctx.Done()
			return ctx.Err()
		}
		return handle(payload)
	})
}
