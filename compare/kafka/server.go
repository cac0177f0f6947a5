package kafka

import (
	"context"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// stopGrace is enough to flush what a second of the link brings.
const stopGrace = 30 * time.Second

// server is one broker.
type server struct {
	*driver.Program
	host        host.Host
	metricsPort int // on the host's loopback
}

const loopback = "127.0.0.1"

// MetricsURL is on the broker host's own loopback.
func (s *server) MetricsURL() string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(s.metricsPort)) + "/metrics"
}

// StoreParts tells messages from what the broker keeps beside them.
func (s *server) StoreParts() []driver.StorePart { return storeParts("") }

// storeParts are those of a folder of logs below another one: each partition
// is a folder <topic>-<number>.
func storeParts(below string) []driver.StorePart {
	return []driver.StorePart{
		{Name: "log", Globs: []string{below + "*-*/*.kafka", below + "*-*/*.kafka.unsynced"}},
		{Name: "metadata", Globs: []string{below + "topics", below + ".lock", below + ".kafka_cleanshutdown"}},
	}
}

// startedMessage is what the broker logs when it takes requests.
const startedMessage = `msg="broker started"`

// listenAddr finds the address in the line of the log that holds
// startedMessage.
func listenAddr(line string) (string, bool) { return addrBehind(startedMessage, line) }

// addrBehind returns the value of listen= in a line that holds a message.
func addrBehind(message, line string) (string, bool) {
	if !strings.Contains(line, message) {
		return "", false
	}
	for field := range strings.FieldsSeq(line) {
		if addr, ok := strings.CutPrefix(field, "listen="); ok {
			return strings.Trim(addr, `"`), true
		}
	}
	return "", false
}

// startBroker starts one broker with its data below dir.
func startBroker(ctx context.Context, h host.Host, program, dir string, opts options, flags ...string) (*server, error) {
	port, err := h.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	metricsPort, err := h.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	store := path.Join(dir, "log")
	if err := h.MkdirAll(ctx, store); err != nil {
		return nil, err
	}
	args := append([]string{program, "broker",
		"--listen", net.JoinHostPort(h.Addr(), strconv.Itoa(port)),
		"--log-dir", store,
		// Nothing is collected until somebody asks.
		"--metrics-listen", net.JoinHostPort(loopback, strconv.Itoa(metricsPort)),
	}, opts.brokerFlags(false)...)
	p, err := driver.StartProgram(ctx, h, driver.ProgramConfig{
		Command:  host.Command{Name: "kafka broker", Args: append(args, flags...)},
		Ready:    listenAddr,
		StoreDir: store,
		LogFile:  path.Join(dir, "broker.log"),
		Grace:    stopGrace,
	})
	if err != nil {
		return nil, err
	}
	return &server{Program: p, host: h, metricsPort: metricsPort}, nil
}
