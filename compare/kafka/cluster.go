package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// zooKeeperKey is where Target.Extra has the address of the ZooKeeper.
const zooKeeperKey = "zookeeper"

// cluster is several brokers and their ZooKeeper on one host.
type cluster struct {
	*launch.Programs
	dir     string
	keeper  *driver.Program
	brokers []*driver.Program
}

// startCluster starts a ZooKeeper, then the brokers, one after the other.
func startCluster(ctx context.Context, h host.Host, program, dir string, opts options) (driver.Server, error) {
	c := &cluster{dir: dir}
	err := c.start(ctx, h, program, opts)
	// The brokers are stopped first: they take themselves from the registry.
	c.Programs = launch.Join(c.brokers, []*driver.Program{c.keeper})
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
		c.brokers = append(c.brokers, b.Program)
	}
	return nil
}

// Target is the first broker, and the ZooKeeper that knows the others.
func (c *cluster) Target() driver.Target {
	return driver.Target{Addr: c.brokers[0].Target().Addr, Extra: map[string]string{zooKeeperKey: c.keeper.Target().Addr}}
}

func (c *cluster) StoreDir() string { return c.dir }

// StoreParts are those of every broker; what ZooKeeper keeps is metadata.
func (c *cluster) StoreParts() []driver.StorePart {
	parts := storeParts("broker-*/log/")
	parts[1].Globs = append(parts[1].Globs, "zookeeper/data/*", "zookeeper/data/*/*")
	return parts
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
