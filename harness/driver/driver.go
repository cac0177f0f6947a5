// Package driver is what a system under test must offer so that the testbed
// can measure it. A driver has two halves: the broker half runs in the testbed
// and starts real servers on the broker host; the client half runs in a
// process of its own on the client host and speaks the system's protocol.
//
// Drivers are found by name in a [Table]; the testbed knows nothing else of
// them.
package driver

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"kafkalab/harness/host"
)

// Options are the settings of a system, by name, from a scenario file. A
// driver refuses a name that it does not know or a value that it cannot use.
type Options map[string]string

// Setting is one row of the settings table that makes the comparison fair:
// every driver must fill in every row of [SettingRows], with "does not apply"
// where that is so.
type Setting struct {
	Row   string
	Value string
}

// SettingRows are the rows of the settings table, in order. A scenario cannot
// be run with a system that leaves one out.
var SettingRows = []string{
	"version",
	"protocol and client",
	"persistence",
	"flush to disk",
	"producer acknowledgement",
	"producer batching",
	"consumer acknowledgement",
	"consumer prefetch",
	"queue or log",
	"memory",
	"deviations from the defaults",
}

// ErrNotInstalled is wrapped by Driver.Check when the system's programs are
// missing; the message names the package and how to install it.
var ErrNotInstalled = errors.New("not installed")

// Driver is one system under test. Its methods may be called at once by
// several goroutines, for different hosts.
type Driver interface {
	// Name is the name in scenario files: "kafka", "rabbitmq", …
	Name() string
	// Check says whether the options are good and what the broker host lacks.
	// It starts nothing.
	Check(ctx context.Context, broker host.Host, o Options) error
	// Settings describes the system with these options, for the table.
	Settings(ctx context.Context, broker host.Host, o Options) ([]Setting, error)
	// Start starts a fresh server on the broker host, with its data below dir,
	// and returns when it takes requests or ctx ends. On an error nothing is
	// left running.
	Start(ctx context.Context, broker host.Host, dir string, o Options) (Server, error)
	// Connect opens the client half. It runs on the client host. target is
	// what Server.Target returned.
	Connect(ctx context.Context, target Target, o Options) (Client, error)
}

// Target is how a client finds a server: all that the client process is told.
type Target struct {
	Addr  string            `json:"addr"` // host:port
	Extra map[string]string `json:"extra,omitempty"`
}

// Server is a running server on the broker host.
type Server interface {
	Target() Target
	// Processes are the server's processes, whose processor time is counted.
	Processes() []host.Process
	// Died is closed when a process of the server ends without Stop.
	Died() <-chan struct{}
	// StoreDir is the folder with what the server stores, whose size is
	// measured.
	StoreDir() string
	// Logs are the server's log files on the broker host.
	Logs() []string
	// Stop ends the server. It is idempotent and bounded by ctx, after which
	// the processes are killed. It does not remove the data.
	Stop(ctx context.Context) error
}

// Client is one connection of the client half. Not for use by several
// goroutines at once, but for Close and Arrived, which may be called at any
// time.
type Client interface {
	// Producer prepares sending to one queue, topic or log, and makes it if
	// need be.
	Producer(ctx context.Context, queue string) (Producer, error)
	// Consumer prepares receiving from the beginning of one. It waits until what
	// is there can be received, but asks for nothing: that is for the first
	// Receive, with which a measurement begins.
	Consumer(ctx context.Context, queue string) (Consumer, error)
	// Arrived returns how many messages the server itself says it holds or has
	// ever taken in this queue: log end, queue depth, counter. It must use a
	// connection of its own where asking on the data connection would wait
	// behind the data.
	Arrived(ctx context.Context, queue string) (int64, error)
	Close(ctx context.Context) error
}

// Producer sends. How messages are grouped (Kafka's batch size) is the
// driver's business, by its options.
type Producer interface {
	// Send hands one payload over. The driver must not keep it after the
	// return. It may return before anything was sent; it blocks when the
	// driver's bounded buffer is full.
	Send(ctx context.Context, payload []byte) error
	// Flush returns when everything handed over has left this process, or with
	// the reason why it could not, naming how many messages were not sent.
	Flush(ctx context.Context) error
}

// Consumer receives.
type Consumer interface {
	// Receive blocks until there are messages or ctx ends, and calls handle
	// for each of a pull's or a push's worth. A payload is valid only during
	// the call. It acknowledges them as the options say. An error of handle
	// ends it and is returned.
	Receive(ctx context.Context, handle func(payload []byte) error) error
}

// WireBytes is implemented by clients that know how many bytes per message a
// payload of n bytes takes in the server's own format: for Kafka 9 + n. It is
// used for the share of the link's goodput in log bytes.
type WireBytes interface {
	StoredSize(payload int) int
}

// Blocked is implemented by clients that are told by the server when it takes
// no more (RabbitMQ's connection.blocked). The reasons so far are returned;
// none is good.
type Blocked interface {
	BlockedReasons() []string
}

// Table holds drivers by name.
type Table struct{ byName map[string]Driver }

// NewTable returns a table of the drivers; two of one name are a fault of the
// program.
func NewTable(drivers ...Driver) *Table {
	t := &Table{byName: make(map[string]Driver)}
	for _, d := range drivers {
		if t.byName[d.Name()] != nil {
			panic("driver: two drivers named " + d.Name())
		}
		t.byName[d.Name()] = d
	}
	return t
}

// Names returns the names in order.
func (t *Table) Names() []string {
	names := make([]string, 0, len(t.byName))
	for n := range t.byName {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Find returns the driver of that name.
func (t *Table) Find(name string) (Driver, error) {
	if d := t.byName[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("no system named %q: there are %s", name, strings.Join(t.Names(), ", "))
}

// Reader reads options one by one and, at its end, refuses what was not asked
// for.
type Reader struct {
	o    Options
	seen map[string]bool
	errs []error
}

// Read returns a reader of o.
func (o Options) Read() *Reader { return &Reader{o: o, seen: map[string]bool{}} }

// OneOf returns the option, which must be one of values; absent, it is the
// first of them.
func (r *Reader) OneOf(name string, values ...string) string {
	r.seen[name] = true
	v, ok := r.o[name]
	if !ok {
		return values[0]
	}
	for _, w := range values {
		if v == w {
			return v
		}
	}
	r.errs = append(r.errs, fmt.Errorf("option %s = %q: one of %s is wanted", name, v, strings.Join(values, ", ")))
	return values[0]
}

// Int returns the option as a whole number from min to max (both inclusive);
// absent, it is def.
func (r *Reader) Int(name string, def, min, max int) int {
	r.seen[name] = true
	v, ok := r.o[name]
	if !ok {
		return def
	}
	var n int
	if _, err := fmt.Sscanf(v, "%d", &n); err != nil || fmt.Sprint(n) != v || n < min || n > max {
		r.errs = append(r.errs, fmt.Errorf("option %s = %q: a whole number from %d to %d is wanted", name, v, min, max))
		return def
	}
	return n
}

// Duration returns the option as a duration that is not negative; absent, it
// is def.
func (r *Reader) Duration(name string, def time.Duration) time.Duration {
	r.seen[name] = true
	v, ok := r.o[name]
	if !ok {
		return def
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		r.errs = append(r.errs, fmt.Errorf("option %s = %q: a duration such as 1s is wanted", name, v))
		return def
	}
	return d
}

// Err returns what was wrong, unknown names included.
func (r *Reader) Err() error {
	errs := r.errs
	known := make([]string, 0, len(r.seen))
	for n := range r.seen {
		known = append(known, n)
	}
	sort.Strings(known)
	names := make([]string, 0, len(r.o))
	for n := range r.o {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if !r.seen[n] {
			errs = append(errs, fmt.Errorf("unknown option %q: there are %s", n, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}
