package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// zooKeeperKey is where Target.Extra has the address of the ZooKeeper.
const zooKeeperKey = "zookeeper"

// cluster is several brokers and their ZooKeeper on one host.
type cluster struct {
	dir     string
	keeper  *driver.Program
	brokers []*server

	died     chan struct{}
	stopping chan struct{}
	watchers sync.WaitGroup
	stopOnce sync.Once
	stopErr  error
}

// startCluster starts a ZooKeeper, then the brokers, one after the other.
func startCluster(ctx context.Context, h host.Host, program, dir string, opts options) (driver.Server, error) {
	c := &cluster{dir: dir, died: make(chan struct{}), stopping: make(chan struct{})}
	err := c.start(ctx, h, program, opts)
	c.watch() // Stop waits for it
	if err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return nil, errors.Join(err, c.Stop(stopping))
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, h host.Host, program string, opts options) error {
	var err error
	if c.keeper, err = startZooKeeper(ctx, h, program, path.Join(c.dir, "zookeeper"), opts.cluster); err != nil {
		return err
	}
	for i := range opts.cluster.brokers {
		b, err := startBroker(ctx, h, program, path.Join(c.dir, "broker-"+strconv.Itoa(i)), opts,
			"--broker-id", strconv.Itoa(i),
			"--num-partitions", strconv.Itoa(opts.cluster.partitions),
			"--zk-connect", c.keeper.Target().Addr,
			"--zk-session-timeout", opts.cluster.session.String(),
		)
		if err != nil {
			return fmt.Errorf("broker %d: %w", i, err)
		}
		c.brokers = append(c.brokers, b)
	}
	return nil
}

// programs are all, in the order in which they are stopped: the brokers first,
// which take themselves from the registry.
func (c *cluster) programs() []*driver.Program {
	var all []*driver.Program
	for _, b := range c.brokers {
		all = append(all, b.Program)
	}
	if c.keeper != nil {
		all = append(all, c.keeper)
	}
	return all
}

// watch closes died when one of the programs has.
func (c *cluster) watch() {
	var once sync.Once
	for _, p := range c.programs() {
		c.watchers.Go(func() {
			select {
			case <-p.Died():
				once.Do(func() { close(c.died) })
			case <-c.stopping:
			}
		})
	}
}

// Target is the first broker, and the ZooKeeper that knows the others.
func (c *cluster) Target() driver.Target {
	return driver.Target{Addr: c.brokers[0].Target().Addr, Extra: map[string]string{zooKeeperKey: c.keeper.Target().Addr}}
}

// Processes are the brokers, then the ZooKeeper.
func (c *cluster) Processes() []host.Process {
	var all []host.Process
	for _, p := range c.programs() {
		all = append(all, p.Processes()...)
	}
	return all
}

func (c *cluster) Died() <-chan struct{} { return c.died }
func (c *cluster) StoreDir() string      { return c.dir }

func (c *cluster) Logs() []string {
	var all []string
	for _, p := range c.programs() {
		all = append(all, p.Logs()...)
	}
	return all
}

// StoreParts are those of every broker; what ZooKeeper keeps is metadata.
func (c *cluster) StoreParts() []driver.StorePart {
	parts := storeParts("broker-*/log/")
	parts[1].Globs = append(parts[1].Globs, "zookeeper/data/*", "zookeeper/data/*/*")
	return parts
}

// Stop ends the brokers at once, then the ZooKeeper.
func (c *cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() {
		close(c.stopping)
		c.watchers.Wait()
		errs := make([]error, len(c.brokers))
		var wg sync.WaitGroup
		for i, b := range c.brokers {
			wg.Go(func() { errs[i] = b.Stop(ctx) })
		}
		wg.Wait()
		if c.keeper != nil {
			errs = append(errs, c.keeper.Stop(ctx))
		}
		c.stopErr = errors.Join(errs...)
	})
	return c.stopErr
}

// keeperMessage is what the embedded ZooKeeper logs when it takes requests.
const keeperMessage = `msg="ZooKeeper server started"`

// startZooKeeper starts the ZooKeeper of the option.
func startZooKeeper(ctx context.Context, h host.Host, program, dir string, opts clusterOptions) (*driver.Program, error) {
	port, err := h.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	data := path.Join(dir, "data")
	if err := h.MkdirAll(ctx, data); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(h.Addr(), strconv.Itoa(port))
	cfg := driver.ProgramConfig{
		Command: host.Command{Name: "kafka zookeeper", Args: []string{program, "zookeeper", "--listen", addr, "--data-dir", data,
			"--tick-time", tick(opts.session).String(), "--min-session-timeout", minSession.String(), "--max-session-timeout", maxSession.String(),
			"--max-connections", "0"}},
		Ready:    func(line string) (string, bool) { return addrBehind(keeperMessage, line) },
		StoreDir: data,
		LogFile:  path.Join(dir, "zookeeper.log"),
		Grace:    stopGrace,
	}
	if opts.zooKeeper == "real" {
		file := path.Join(dir, "zoo.cfg")
		if err := h.WriteFile(ctx, file, zooKeeperConfig(h.Addr(), port, data, opts.session), 0o644); err != nil {
			return nil, err
		}
		cfg.Command = host.Command{Name: "ZooKeeper", Args: zooKeeperCommand(file), Dir: dir}
		cfg.Ready = func(line string) (string, bool) { return addr, strings.Contains(line, realMessage) }
	}
	return driver.StartProgram(ctx, h, cfg)
}
