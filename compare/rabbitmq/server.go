package rabbitmq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"time"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// serverProgram is the script that becomes the Erlang machine. The one on the
// PATH is a wrapper that switches user and drops the environment.
const serverProgram = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// ports are those of one instance: AMQP on the test network; Erlang's
// distribution and its name server on loopback.
type ports struct{ amqp, dist, epmd int }

// Start starts a fresh server with its name server.
func (d *Driver) Start(ctx context.Context, h host.Host, dir string, o driver.Options) (driver.Server, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	var p ports
	for _, port := range []*int{&p.amqp, &p.dist, &p.epmd} {
		if *port, err = h.FreePort(ctx); err != nil {
			return nil, err
		}
	}
	if err := writeFiles(ctx, h, dir, p, opt); err != nil {
		return nil, err
	}
	cookie := rand.Text()
	env := environment(dir, p, cookie)
	s, err := launch.StartServer(ctx, launch.ServerConfig{
		Target:   driver.Target{Addr: net.JoinHostPort(h.Addr(), strconv.Itoa(p.amqp))},
		StoreDir: path.Join(dir, "mnesia"),
		Logs:     []string{path.Join(dir, "log", logFile)},
		Parts:    storeParts,
		Start:    func(ctx context.Context) ([]host.Process, error) { return startBoth(ctx, h, dir, p, env) },
	})
	if err != nil {
		return nil, err
	}
	return &server{Server: s, host: h, cookie: cookie, dist: p.dist}, nil
}

// storeParts are the files of a node. A classic queue keeps a small message,
// up to 4,095 bytes, in its index (queue_index_embed_msgs_below), the second
// version of it beside that (.qs); larger ones are in the message store. The
// rest is Mnesia's and the coordinators' own.
var storeParts = []driver.StorePart{
	{Name: "log", Globs: []string{
		"*/msg_stores/vhosts/*/msg_store_*/*.rdq",
		"*/msg_stores/vhosts/*/queues/*/*.qs",
		"*/stream/*/*.segment",
		"*/quorum/*/*/*.segment",
	}},
	{Name: "index", Globs: []string{
		"*/msg_stores/vhosts/*/queues/*/*.idx",
		"*/msg_stores/vhosts/*/queues/*/*.qi",
		"*/stream/*/*.index",
	}},
	{Name: "journal", Globs: []string{
		"*/msg_stores/vhosts/*/queues/*/journal.jif",
		"*/quorum/*/*.wal",
	}},
	{Name: "metadata", Globs: []string{
		"*/*.DCD", "*/*.DCL", "*/*.DAT", "*/*.LOG", "*/*.dets", "*/*_*",
		"*/msg_stores/vhosts/*/.*", "*/msg_stores/vhosts/*/*.dets", "*/msg_stores/vhosts/*/queues/*/.queue_name",
		"*/coordination/*/*", "*/coordination/*/*/*",
		"*/quorum/*/*/config", "*/quorum/*/*.dets",
	}},
}

// startBoth starts the name server and the server. The name server comes
// first, as a child: else the server starts one as a daemon, which would
// outlive it.
func startBoth(ctx context.Context, h host.Host, dir string, p ports, env []string) ([]host.Process, error) {
	epmd, err := launch.Start(ctx, h, host.Command{
		Name: "epmd",
		Args: []string{"epmd", "-address", "127.0.0.1", "-port", strconv.Itoa(p.epmd)},
		Dir:  dir,
	}, p.epmd, "")
	if err != nil {
		return nil, err
	}
	s, err := startServer(ctx, h, dir, p, env, epmd)
	if err != nil {
		return nil, errors.Join(err, epmd.Stop(ctx, 0))
	}
	return []host.Process{epmd.Process, s.Process}, nil
}

// startServer starts the server proper and waits until it takes requests.
func startServer(ctx context.Context, h host.Host, dir string, p ports, env []string, epmd *launch.Program) (*launch.Program, error) {
	s, err := launch.Start(ctx, h, host.Command{
		Name: "rabbitmq-server",
		Args: []string{serverProgram, "-noinput"},
		Env:  env,
		Dir:  dir,
	}, p.amqp, "Server startup complete")
	if err != nil {
		return nil, err
	}
	if err = s.WaitReady(ctx, epmd); err == nil {
		err = launch.Exchange(ctx, h, p.amqp, `AMQP\0\0\11\1`, "RabbitMQ")
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx, 0))
	}
	return s, nil
}

const logFile = "rabbit.log"

// environment makes an instance that lives in dir and knows nothing of the
// system's own.
func environment(dir string, p ports, cookie string) []string {
	return []string{
		"HOME=" + path.Join(dir, "home"), // for the Erlang cookie
		"RABBITMQ_NODENAME=kafkalab" + strconv.Itoa(p.amqp) + "@localhost",
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE=" + path.Join(dir, "rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + path.Join(dir, "advanced.config"),
		"RABBITMQ_MNESIA_BASE=" + path.Join(dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + path.Join(dir, "log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + path.Join(dir, "enabled_plugins"),
		"RABBITMQ_PLUGINS_EXPAND_DIR=" + path.Join(dir, "plug"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + path.Join(dir, "gen"),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(p.dist),
		"ERL_EPMD_PORT=" + strconv.Itoa(p.epmd),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		// Without it each Erlang machine whose name server is gone starts one as a
		// daemon, which nobody would end.
		"ERL_AFLAGS=-start_epmd false",
		"ERL_CRASH_DUMP=" + path.Join(dir, "log", "erl_crash.dump"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -setcookie " + cookie,
		"RABBITMQ_ALLOW_INPUT=1", // the script replaces itself: its pid is the server's
	}
}

// configuration is the server's own file. "loopback_users = none" lets the
// user guest in from the client host.
const configuration = `listeners.tcp.1 = %s
loopback_users = none
log.console = true
log.console.level = info
log.file = %s
log.file.level = info
disk_free_limit.absolute = 500MB
vm_memory_high_watermark.relative = %.2f
`

// memoryConfiguration tells a server that is held to less memory than the
// machine has: its watermark is a share of that. It finds the limit of a control
// group itself only where it sees the kernel's folder of them.
const memoryConfiguration = "total_memory_available_override_value = %d\n"

// countEvery is how often the server counts what its streams hold. Its own 5 s
// would make what has arrived look older than it is.
const countEvery = 50 * time.Millisecond

const streamConfiguration = "[{rabbit, [{stream_tick_interval, %d}]}].\n"

func writeFiles(ctx context.Context, h host.Host, dir string, p ports, opt options) error {
	for _, sub := range []string{"home", "mnesia", "log", "plug", "gen"} {
		if err := h.MkdirAll(ctx, path.Join(dir, sub)); err != nil {
			return err
		}
	}
	addr := net.JoinHostPort(h.Addr(), strconv.Itoa(p.amqp))
	conf := fmt.Sprintf(configuration, addr, logFile, float64(opt.memory)/100)
	if limit := host.MemoryLimit(h); limit > 0 {
		conf += fmt.Sprintf(memoryConfiguration, limit)
	}
	if err := h.WriteFile(ctx, path.Join(dir, "rabbitmq.conf"), []byte(conf), 0o644); err != nil {
		return err
	}
	if opt.stream() {
		text := fmt.Sprintf(streamConfiguration, countEvery.Milliseconds())
		if err := h.WriteFile(ctx, path.Join(dir, "advanced.config"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return h.WriteFile(ctx, path.Join(dir, "enabled_plugins"), []byte("[].\n"), 0o644)
}
