// Package kafka drives this project's own broker and clients as a system under
// test. It uses nothing that another program could not use: the broker is the
// program "kafka broker", and the client half is the public packages producer,
// consumer and client.
//
// A queue is partition 0 of a topic of the same name. Its messages must all be
// of one size: Kafka counts bytes, and the number of messages that have arrived
// is the end of the log over the size of an entry, 9 + n bytes for a payload
// of n.
package kafka

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/kafka/producer"
)

// stopGrace is enough to flush what a second of the link brings.
const stopGrace = 30 * time.Second

type kafka struct{}

// New returns the driver.
func New() driver.Driver { return kafka{} }

func (kafka) Name() string { return "kafka" }

// options of the driver, of both halves.
type options struct {
	// Of the broker.
	flushInterval time.Duration // "flush-interval": between two flushes; 0 off
	flushMessages int           // "flush-messages": between two flushes; 0 off
	sendfile      string        // "sendfile": on, off
	visible       string        // "visible": flushed, appended

	// Of the client.
	batch      int           // "batch": messages a request
	coalesced  bool          // "socket": coalesced, plain (one write a request)
	acks       producer.Acks // "acks": none, received, appended, flushed
	fetchBytes int           // "fetch-bytes" of one fetch
}

const defaultFetchBytes = 200 << 10 // NetDB'11 §5: "about 200 KB"

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opts := options{
		// Off by count, as the other systems flush by time alone.
		flushInterval: r.Duration("flush-interval", time.Second),
		flushMessages: r.Int("flush-messages", 0, 0, 1<<30),
		sendfile:      r.OneOf("sendfile", "on", "off"),
		visible:       r.OneOf("visible", "flushed", "appended"),
		batch:         r.Int("batch", 1, 1, 100_000),
		coalesced:     r.OneOf("socket", "coalesced", "plain") == "coalesced",
		fetchBytes:    r.Int("fetch-bytes", defaultFetchBytes, 1<<10, 32<<20),
	}
	// One of the names of the producer's own.
	opts.acks, _ = producer.ParseAcks(r.OneOf("acks", "none", "received", "appended", "flushed"))
	if err := r.Err(); err != nil {
		return opts, err
	}
	if opts.visible == "flushed" && opts.flushInterval == 0 && opts.flushMessages == 0 {
		return opts, fmt.Errorf("options flush-interval = 0 and flush-messages = 0: nothing would become visible; give one of them, or visible = %q", "appended")
	}
	return opts, nil
}

func (kafka) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	if _, err := readOptions(o); err != nil {
		return err
	}
	_, err := broker.Binary(ctx, "kafka")
	return err
}

func (kafka) Settings(_ context.Context, _ host.Host, o driver.Options) ([]driver.Setting, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	var flush []string
	if opts.flushInterval > 0 {
		flush = append(flush, fmt.Sprintf("fsync every %v in the background", opts.flushInterval))
	}
	if opts.flushMessages > 0 {
		flush = append(flush, fmt.Sprintf("fsync every %d messages", opts.flushMessages))
	}
	if len(flush) == 0 {
		flush = []string{"by the kernel alone"}
	}
	acks := opts.acks.String()
	if opts.acks == producer.AcksNone {
		acks = "none, as in the paper"
	}
	batching := fmt.Sprintf("%d a request; what has gathered while a write is under way goes out in the next one", opts.batch)
	if !opts.coalesced {
		batching = fmt.Sprintf("%d a request; one write for each request", opts.batch)
	}
	transfer := "sendfile"
	if opts.sendfile == "off" {
		transfer = "copied through the process"
	}
	return []driver.Setting{
		{Row: "version", Value: "this project's own, protocol and files of Kafka 0.7"},
		{Row: "protocol and client", Value: "Kafka 0.7; this project's producer and consumer in Go; " + transfer},
		{Row: "persistence", Value: "log file, written before anything else; visible to consumers when " + opts.visible},
		{Row: "flush to disk", Value: strings.Join(flush, ", ")},
		{Row: "producer acknowledgement", Value: acks},
		{Row: "producer batching", Value: batching},
		{Row: "consumer acknowledgement", Value: "none: the consumer keeps its offset"},
		{Row: "consumer prefetch", Value: fmt.Sprintf("fetches of %d bytes, the next one asked for ahead", opts.fetchBytes)},
		{Row: "queue or log", Value: "log of one partition, segments of 1 GiB"},
		{Row: "memory", Value: "no cache in the process; the page cache"},
		{Row: "deviations from the defaults", Value: deviations(opts)},
	}, nil
}

// deviations names what differs from "kafka broker" without flags. (That
// flushes after 10,000 messages or a second.)
func deviations(opts options) string {
	d := []string{fmt.Sprintf("--flush-messages %d", opts.flushMessages)}
	if opts.flushInterval != time.Second {
		d = append(d, fmt.Sprintf("--flush-interval %v", opts.flushInterval))
	}
	if opts.sendfile == "off" {
		d = append(d, "--sendfile=false")
	}
	if opts.visible != "flushed" {
		d = append(d, "--visible "+opts.visible)
	}
	return strings.Join(d, " ")
}

// startedMessage is what the broker logs when it takes requests.
const startedMessage = `msg="broker started"`

// listenAddr finds the address in the line of the log that holds
// startedMessage.
func listenAddr(line string) (string, bool) {
	if !strings.Contains(line, startedMessage) {
		return "", false
	}
	for field := range strings.FieldsSeq(line) {
		if addr, ok := strings.CutPrefix(field, "listen="); ok {
			return strings.Trim(addr, `"`), true
		}
	}
	return "", false
}

func (kafka) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	program, err := broker.Binary(ctx, "kafka")
	if err != nil {
		return nil, err
	}
	port, err := broker.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "log")
	if err := broker.MkdirAll(ctx, store); err != nil {
		return nil, err
	}
	return driver.StartProgram(ctx, broker, driver.ProgramConfig{
		Command: host.Command{Name: "kafka broker", Args: []string{program, "broker",
			"--listen", net.JoinHostPort(broker.Addr(), strconv.Itoa(port)),
			"--log-dir", store,
			"--flush-messages", strconv.Itoa(opts.flushMessages),
			"--flush-interval", opts.flushInterval.String(),
			"--visible", opts.visible,
			"--sendfile=" + strconv.FormatBool(opts.sendfile == "on"),
		}},
		Ready:    listenAddr,
		StoreDir: store,
		LogFile:  filepath.Join(dir, "broker.log"),
		Grace:    stopGrace,
	})
}

func (kafka) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	return connect(ctx, target.Addr, opts)
}
