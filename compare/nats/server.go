package nats

import (
	"context"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// stopGrace is how long the server has to close its store after SIGTERM.
const stopGrace = 20 * time.Second

// readyMessage is what the server logs when JetStream is up and clients may
// come.
const readyMessage = "Server is ready"

// exchangePings makes the answer so long that whoever reads it in pieces need
// not wait for the end of one.
const exchangePings = 20

// configuration is the server's own file: where it listens, and JetStream with
// its store in files. All else is as it comes.
const configuration = `listen: %q
jetstream { store_dir: %q }
`

// Start starts the server with an empty store below dir.
func (d *Driver) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	if _, err := readOptions(o); err != nil {
		return nil, err
	}
	port, err := broker.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	store, conf := path.Join(dir, "store"), path.Join(dir, "nats.conf")
	if err := broker.MkdirAll(ctx, store); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(broker.Addr(), strconv.Itoa(port))
	if err := broker.WriteFile(ctx, conf, fmt.Appendf(nil, configuration, addr, store), 0o644); err != nil {
		return nil, err
	}
	s, err := driver.StartProgram(ctx, broker, driver.ProgramConfig{
		Command: host.Command{Name: packageName, Args: onPath(packageName, "--config", conf), Dir: dir},
		Ready: func(line string) (string, bool) {
			return addr, strings.Contains(line, readyMessage)
		},
		StoreDir: store,
		LogFile:  path.Join(dir, "nats.log"),
		Grace:    stopGrace,
	})
	if err != nil {
		return nil, fmt.Errorf("port %d: %w", port, err)
	}
	if err := launch.Exchange(ctx, broker, port, strings.Repeat(`PING\r\n`, exchangePings), `"jetstream":true`); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if stopErr := s.Stop(stopping); stopErr != nil {
			err = fmt.Errorf("%w; and then: %w", err, stopErr)
		}
		return nil, err
	}
	return server{Program: s, host: broker}, nil
}

// server is the program, which can be restarted, and what its files are for.
type server struct {
	*driver.Program
	host host.Host
}

// StoreParts are a stream's blocks, their indexes, and what is known of streams
// and their consumers.
func (server) StoreParts() []driver.StorePart {
	const stream = "jetstream/*/streams/*/"
	return []driver.StorePart{
		{Name: "log", Globs: []string{stream + "msgs/*.blk"}},
		{Name: "index", Globs: []string{stream + "msgs/*.idx", stream + "msgs/*.fss"}},
		{Name: "metadata", Globs: []string{stream + "meta.*", stream + "obs/*/*"}},
	}
}

// onPath is the command that becomes a program that may lie where users other
// than root do not look.
func onPath(program string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", `PATH=$PATH:/usr/sbin:/sbin; exec "$@"`, "sh", program}, args...)
}
