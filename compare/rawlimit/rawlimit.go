// Package rawlimit is the physical limit as a system under test: what the link
// and the disk give when nothing stands between them and the client.
//
// A figure needs messages a second. So the bytes are those of the same
// messages, in entries as large as Kafka's (9 + n bytes for a payload of n,
// 209 for the paper's 200), and the rate of the limit is the goodput over the
// entry's size: 941 Mbit/s over 209 bytes are 563,000 messages a second. They
// are checked one by one like those of every system.
//
// Four paths can be measured, by the option "path":
//
//	tcp    the link alone: one TCP stream in large writes, which the server reads
//	       and throws away. A consumer gets the same messages, made again.
//	ping   the link alone, message by message: each is a write of its own, and the
//	       server writes what one read returns to the consumers before the next.
//	       No message can be faster there and back, which is the limit of a
//	       latency.
//	file   link and file: the stream goes into a file, and comes out of it by
//	       sendfile
//	disk   the file alone: the server makes the messages itself and writes them
//	       in sequence; the network carries counts. A consumer is served as
//	       with file.
//
// The server is the hidden command "rawserver" of testbed.
package rawlimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// ReadyPrefix begins the line with which the server says its address.
const ReadyPrefix = "rawserver listens on "

// stopGrace is enough for a server that only closes files.
const stopGrace = 5 * time.Second

type limit struct{}

// New returns the driver.
func New() driver.Driver { return limit{} }

func (limit) Name() string { return "rawlimit" }

// options of the driver:
//
//	path            tcp, ping, file or disk
//	flush-interval  between two flushes of the file to the disk; 0 leaves them
//	                to the kernel. Default: as Kafka's in the scenarios, 1s
//	flush-messages  how many messages ask for a flush, beside what is coming; 0,
//	                the default: none do
//	fetch-bytes     consumers ask for so many bytes at a time, for the next ones
//	                as soon as an answer is there, instead of getting one stream;
//	                0, the default: they do not
//	outstanding     how many of these fetches are unanswered at a time; default 1
type options struct {
	path          Path
	flushInterval time.Duration
	flushMessages int
	fetchBytes    int
	outstanding   int
}

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opts := options{path: Path(r.OneOf("path", string(PathTCP), string(PathPing), string(PathFile), string(PathDisk)))}
	opts.flushInterval = r.Duration("flush-interval", time.Second)
	opts.flushMessages = r.Int("flush-messages", 0, 0, 1<<30)
	opts.fetchBytes = r.Int("fetch-bytes", 0, 0, maxFetchBytes)
	opts.outstanding = r.Int("outstanding", 1, 1, fetchesAhead)
	err := r.Err()
	if !opts.path.Stores() {
		opts.flushInterval = 0
		for _, name := range []string{"flush-interval", "flush-messages", "fetch-bytes"} {
			if _, given := o[name]; given {
				err = errors.Join(err, fmt.Errorf("option %s: with path = %q nothing is stored that could be flushed or fetched", name, opts.path))
			}
		}
	}
	if opts.fetchBytes > 0 && opts.fetchBytes < minFetchBytes {
		err = errors.Join(err, fmt.Errorf("option fetch-bytes = %d: 0, or from %d to %d is wanted", opts.fetchBytes, minFetchBytes, maxFetchBytes))
	}
	if opts.outstanding > 1 && opts.fetchBytes == 0 {
		err = errors.Join(err, fmt.Errorf("option outstanding = %d: it counts fetches: give fetch-bytes too", opts.outstanding))
	}
	return opts, err
}

func (limit) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	if _, err := readOptions(o); err != nil {
		return err
	}
	_, err := broker.Binary(ctx, "testbed")
	return err
}

func (limit) Settings(_ context.Context, _ host.Host, o driver.Options) ([]driver.Setting, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	persistence, flush, queue := "file, written in sequence", flushWords(opts.flushInterval, opts.flushMessages), "one file"
	prefetch := "one stream without requests, as far as TCP's window"
	if opts.fetchBytes > 0 {
		prefetch = fmt.Sprintf("fetches of %d bytes, the next one asked for as soon as an answer is there", opts.fetchBytes)
		if opts.outstanding > 1 {
			prefetch += fmt.Sprintf(", %d unanswered at a time", opts.outstanding)
		}
	}
	batching := fmt.Sprintf("entries of 9 bytes + payload, as large as Kafka's, in writes of %d KiB", sendBytes>>10)
	memory := "one read buffer of 1 MiB"
	switch opts.path {
	case PathTCP:
		persistence, flush, queue = "none: thrown away; made again for a consumer", "does not apply", "a count of bytes"
	case PathPing:
		persistence, flush, queue = "none: sent on to the consumers at once", "does not apply", "a count of bytes"
		batching = "entries of 9 bytes + payload, as large as Kafka's, each a write of its own"
	case PathDisk:
		batching = fmt.Sprintf("counts alone; the server makes the messages and writes %d KiB at a time", writeBytes>>10)
		memory = "two write buffers of 1 MiB"
	}
	return []driver.Setting{
		{Row: "version", Value: "this project's own, path " + string(opts.path)},
		{Row: "protocol and client", Value: "one TCP stream without requests; rate = goodput over (9 + payload) bytes"},
		{Row: "persistence", Value: persistence},
		{Row: "flush to disk", Value: flush},
		{Row: "producer acknowledgement", Value: "none; the server's count of bytes is asked for"},
		{Row: "producer batching", Value: batching},
		{Row: "consumer acknowledgement", Value: "none"},
		{Row: "consumer prefetch", Value: prefetch},
		{Row: "queue or log", Value: queue},
		{Row: "memory", Value: memory},
		{Row: "deviations from the defaults", Value: "does not apply"},
	}, nil
}

func (limit) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	testbed, err := broker.Binary(ctx, "testbed")
	if err != nil {
		return nil, err
	}
	port, err := broker.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "store")
	if err := broker.MkdirAll(ctx, store); err != nil {
		return nil, err
	}
	p, err := driver.StartProgram(ctx, broker, driver.ProgramConfig{
		Command: host.Command{Name: "rawserver", Args: []string{testbed, "rawserver",
			"--listen", net.JoinHostPort(broker.Addr(), strconv.Itoa(port)), "--dir", store,
			"--path", string(opts.path), "--flush-interval", opts.flushInterval.String(),
			"--flush-messages", strconv.Itoa(opts.flushMessages)}},
		Ready:    func(line string) (string, bool) { return strings.CutPrefix(line, ReadyPrefix) },
		StoreDir: store,
		LogFile:  filepath.Join(dir, "rawserver.log"),
		Grace:    stopGrace,
	})
	if err != nil {
		return nil, err
	}
	return &rawServer{Program: p, host: broker}, nil
}

func (limit) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	return connect(ctx, target.Addr, opts)
}
