package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Where Target.Extra has the addresses of the two ZooKeepers.
const (
	liveKey    = "live-zookeeper"
	replicaKey = "replica-zookeeper"
)

// Topics of the pipeline.
const (
	topic      = "clicks"
	auditTopic = "audit"
)

// stopGrace is enough for a broker to flush what it has.
const stopGrace = 20 * time.Second

// cluster is the brokers that share a ZooKeeper.
type cluster struct {
	keeper  *driver.Program
	brokers []*driver.Program
}

// server is both clusters and the balancer before the live one.
type server struct {
	*launch.Programs
	dir           string
	live, replica cluster
	balancer      *driver.Program
}

func start(ctx context.Context, h host.Host, binary, dir string, opts options) (driver.Server, error) {
	s := &server{dir: dir}
	err := s.live.start(ctx, h, binary, path.Join(dir, "live"), opts.brokers, opts)
	if err != nil {
		err = fmt.Errorf("live cluster: %w", err)
	}
	if err == nil {
		if err = s.replica.start(ctx, h, binary, path.Join(dir, "replica"), opts.replicaBrokers, opts); err != nil {
			err = fmt.Errorf("replica cluster: %w", err)
		}
	}
	if err == nil {
		s.balancer, err = startBalancer(ctx, h, path.Join(dir, "balancer"), s.live.addresses())
	}
	// Brokers are stopped before the ZooKeeper that they take themselves out of.
	s.Programs = launch.Join([]*driver.Program{s.balancer}, slices.Concat(s.live.brokers, s.replica.brokers), []*driver.Program{s.live.keeper, s.replica.keeper})
	if err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stopping))
	}
	return s, nil
}

// start starts the ZooKeeper of a cluster, then its brokers.
func (c *cluster) start(ctx context.Context, h host.Host, binary, dir string, brokers int, opts options) error {
	var err error
	data := path.Join(dir, "zookeeper", "data")
	if c.keeper, err = startProgram(ctx, h, "kafka zookeeper", path.Join(dir, "zookeeper"), data, func(listen string) []string {
		return []string{binary, "zookeeper", "--listen", listen, "--data-dir", data, "--tick-time", min(2*time.Second, opts.session/3).String(),
			"--min-session-timeout", "100ms", "--max-session-timeout", "1m", "--max-connections", "0"}
	}); err != nil {
		return err
	}
	for i := range brokers {
		folder := path.Join(dir, "broker-"+strconv.Itoa(i))
		log := path.Join(folder, "log")
		b, err := startProgram(ctx, h, "kafka broker", folder, log, func(listen string) []string {
			return []string{binary, "broker", "--listen", listen, "--log-dir", log, "--broker-id", strconv.Itoa(i), "--num-partitions", strconv.Itoa(opts.partitions),
				"--flush-interval", opts.flush.String(), "--flush-messages", "0",
				"--zk-connect", c.keeper.Target().Addr, "--zk-session-timeout", opts.session.String()}
		})
		if err != nil {
			return fmt.Errorf("broker %d: %w", i, err)
		}
		c.brokers = append(c.brokers, b)
	}
	return nil
}

// startProgram starts a command of ours that serves at a free port of the host,
// and that will serve there again when it is restarted.
func startProgram(ctx context.Context, h host.Host, name, dir, store string, args func(listen string) []string) (*driver.Program, error) {
	port, err := h.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.MkdirAll(ctx, store); err != nil {
		return nil, err
	}
	return driver.StartProgram(ctx, h, driver.ProgramConfig{
		Command:  host.Command{Name: name, Args: args(net.JoinHostPort(h.Addr(), strconv.Itoa(port)))},
		Ready:    started,
		StoreDir: store,
		LogFile:  path.Join(dir, path.Base(dir)+".log"),
		Grace:    stopGrace,
	})
}

// started finds the address in the line in which a broker, or the embedded
// ZooKeeper, logs that it takes requests.
func started(line string) (addr string, ok bool) {
	if !strings.Contains(line, `msg="broker started"`) && !strings.Contains(line, `msg="ZooKeeper server started"`) {
		return "", false
	}
	for field := range strings.FieldsSeq(line) {
		if addr, ok := strings.CutPrefix(field, "listen="); ok {
			return strings.Trim(addr, `"`), true
		}
	}
	return "", false
}

func (c *cluster) addresses() []string {
	var all []string
	for _, b := range c.brokers {
		all = append(all, b.Target().Addr)
	}
	return all
}

// Target is the balancer, and the two ZooKeepers.
func (s *server) Target() driver.Target {
	return driver.Target{Addr: s.balancer.Target().Addr, Extra: map[string]string{liveKey: s.live.keeper.Target().Addr, replicaKey: s.replica.keeper.Target().Addr}}
}

func (s *server) StoreDir() string { return s.dir }

// StoreParts tells the messages of the clusters from what is kept beside them.
func (s *server) StoreParts() []driver.StorePart {
	return []driver.StorePart{
		{Name: "log", Globs: []string{"*/broker-*/log/*-*/*.kafka", "*/broker-*/log/*-*/*.kafka.unsynced"}},
		{Name: "metadata", Globs: []string{"*/zookeeper/data/*", "*/zookeeper/data/*/*", "*/broker-*/log/topics", "*/broker-*/log/.lock", "*/broker-*/log/.kafka_cleanshutdown"}},
	}
}

// KillPart kills a live broker.
func (s *server) KillPart(ctx context.Context, part string) (host.Usage, error) {
	b, err := s.liveBroker(part)
	if err != nil {
		return host.Usage{}, err
	}
	used, err := b.Processes()[0].Usage(ctx)
	return used, errors.Join(err, b.Kill(ctx))
}

// RestartPart starts it again over its log.
func (s *server) RestartPart(ctx context.Context, part string) error {
	b, err := s.liveBroker(part)
	if err != nil {
		return err
	}
	return b.Restart(ctx)
}

func (s *server) liveBroker(part string) (*driver.Program, error) {
	n, err := partNumber(part)
	if err == nil && n >= len(s.live.brokers) {
		err = fmt.Errorf("pipeline: no part is called %q: there are %d live brokers", part, len(s.live.brokers))
	}
	if err != nil {
		return nil, err
	}
	return s.live.brokers[n], nil
}
