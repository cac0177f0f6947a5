package activemq

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// server is a running ActiveMQ with the host that it is on.
type server struct {
	*launch.Server
	host host.Host
}

// said is what is known of the running broker: from the command line that the
// kernel has, the configuration that is named in it, the broker's own log, and
// its journal. It offers no other way to ask for settings: its management is
// Java's own (JMX).
type said struct {
	heap     string // -Xmx of the command line
	version  string // of the log
	sync     string // journalDiskSyncStrategy
	index    bool   // enableIndexDiskSyncs
	memory   string // memoryUsage
	persists bool   // the broker's persistent, and a kahaDB
	stored   bool   // the journal has messages of the queue
}

// askScript prints, each behind a line that begins with #, the command line of
// the process $1, its configuration, the line of its log $2 with its version,
// and whether the journal below $3 knows the queue $4. A configuration that was
// changed after the process had begun is none.
const askScript = `
echo '#command'; tr '\0' '\n' < "/proc/$1/cmdline" || exit 1
conf=$(tr '\0' '\n' < "/proc/$1/cmdline" | sed -n 's/^xbean:file://p')
# The second at which the process began: ticks of 10 ms since the machine did.
ticks=$(sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20)
began=$(($(sed -n 's/^btime //p' /proc/stat) + ticks / 100))
echo '#configuration'
[ "$(stat -c %Z -- "$conf")" -le $((began + 1)) ] && cat -- "$conf"
echo '#log'; grep -m1 -F 'Apache ActiveMQ' -- "$2"
echo '#journal'; [ -z "$4" ] || ! grep -qaF -m1 -- "$4" "$3"/kahadb/db-*.log || echo stored`

func (s *server) ask(ctx context.Context, queue string) (a said, err error) {
	pid := s.Processes()[0].PID()
	out, err := s.host.Run(ctx, "sh", "-c", askScript, "sh", strconv.Itoa(pid), s.Logs()[0], s.StoreDir(), queue)
	if err != nil {
		return a, fmt.Errorf("activemq: asking for the settings of process %d: %w", pid, err)
	}
	return parseSaid(out)
}

// versionPattern finds the version in "Apache ActiveMQ 5.17.2 (b, ID:…) is
// starting".
var versionPattern = regexp.MustCompile(`Apache ActiveMQ ([0-9][^ ]*) `)

func parseSaid(out []byte) (a said, err error) {
	parts := map[string][]byte{}
	section := ""
	for line := range bytes.Lines(out) {
		if name, ok := bytes.CutPrefix(line, []byte("#")); ok {
			section = strings.TrimSpace(string(name))
			continue
		}
		parts[section] = append(parts[section], line...)
	}
	for word := range strings.FieldsSeq(string(parts["command"])) {
		if heap, ok := strings.CutPrefix(word, "-Xmx"); ok {
			a.heap = heap
		}
	}
	if m := versionPattern.FindSubmatch(parts["log"]); m != nil {
		a.version = string(m[1])
	}
	a.stored = strings.TrimSpace(string(parts["journal"])) == "stored"
	if len(parts["configuration"]) == 0 {
		return a, errors.New("activemq: the running broker's configuration was changed after it was started, or cannot be read")
	}
	return a, a.configured(parts["configuration"])
}

// configured reads activemq.xml.
func (a *said) configured(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	persistent, kahaDB := false, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			a.persists = persistent && kahaDB
			return nil
		}
		if err != nil {
			return fmt.Errorf("activemq: the running broker's configuration: %w", err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		value := func(name string) string {
			for _, at := range e.Attr {
				if at.Name.Local == name {
					return at.Value
				}
			}
			return ""
		}
		switch e.Name.Local {
		case "broker":
			persistent = value("persistent") != "false"
		case "kahaDB":
			kahaDB, a.sync, a.index = true, value("journalDiskSyncStrategy"), value("enableIndexDiskSyncs") != "false"
			if a.sync == "" {
				a.sync = "always" // the broker's own
			}
		case "memoryUsage":
			if limit := value("limit"); limit != "" {
				a.memory = limit
			}
		}
	}
}

// Contract reads what the running broker was started with. Receipts,
// acknowledgements and prefetch are the client's.
func (s *server) Contract(ctx context.Context, m driver.Measurement) ([]resultfile.ContractRow, error) {
	opt, err := readOptions(m.Options)
	if err != nil {
		return nil, err
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowDurability, Value: "persistent messages (header persistent:true)", Class: driver.Persistent},
		flushRow(opt.Sync, opt.IndexSyncs),
		opt.producerRow(opt.Sync),
		opt.consumerRow(),
		{Row: driver.RowPrefetch, Value: fmt.Sprintf("%d messages", opt.prefetch), Class: driver.PrefetchClass(int64(opt.prefetch) * int64(max(m.PayloadBytes, 1)))},
	}
	a, err := s.ask(ctx, m.Queue)
	if err != nil {
		return rows, err
	}
	return append(a.rows(opt), rows...), nil // what was read back comes first, and counts
}

func (a said) rows(opt options) []resultfile.ContractRow {
	flush := flushRow(a.sync, a.index)
	flush.ReadBack = true
	rows := []resultfile.ContractRow{
		{Row: driver.RowQueue, Value: fmt.Sprintf("queue; Java heap %s, memoryUsage %s", a.heap, a.memory), ReadBack: true},
		flush,
		opt.producerRow(a.sync),
	}
	if a.version != "" {
		rows = append(rows, resultfile.ContractRow{Row: driver.RowVersion, Value: "ActiveMQ " + a.version, ReadBack: true})
	}
	switch {
	case !a.persists:
		rows = append(rows, resultfile.ContractRow{Row: driver.RowDurability, Value: "the broker keeps no store", Class: driver.Transient, ReadBack: true})
	case a.stored:
		rows = append(rows, resultfile.ContractRow{Row: driver.RowDurability, Value: "the queue's messages are in KahaDB's journal", Class: driver.Persistent, ReadBack: true})
	}
	return rows
}

// flushRow is that of a journalDiskSyncStrategy. The interval of "periodic" is
// the broker's own, a second. The index, which is synced as its pages are written
// unless it is told otherwise, keeps no message from being lost, and so makes no
// class.
func flushRow(sync string, index bool) resultfile.ContractRow {
	r := resultfile.ContractRow{Row: driver.RowFlush, Value: "journalDiskSyncStrategy " + sync + "; index synced as its pages are written", Class: driver.FlushOS}
	if !index {
		r.Value = "journalDiskSyncStrategy " + sync + "; index not synced"
	}
	switch sync {
	case "always":
		r.Class = driver.FlushEach
	case "periodic":
		r.Class = driver.FlushClass(time.Second, 0)
	}
	return r
}

// producerRow: a receipt comes when a message is on its way to the journal's
// file, and with sync always when it is on the disk (KahaDB waits for the write of
// a message that asks for a receipt only where the journal is synced).
func (o options) producerRow(sync string) resultfile.ContractRow {
	r := resultfile.ContractRow{Row: driver.RowProducerAck, Value: "none", Class: driver.AckNone}
	switch o.receipt {
	case "every":
		r.Value, r.Class = "a receipt awaited for each message", driver.AckReceived
	case "bulk":
		r.Value, r.Class = fmt.Sprintf("a receipt for %d messages, %d outstanding at most", o.receiptEvery, o.window), driver.AckReceived
	}
	if r.Class == driver.AckReceived && sync == "always" {
		r.Class = driver.AckFlushed
	}
	return r
}

func (o options) consumerRow() resultfile.ContractRow {
	if !o.clientAck {
		return driver.ConsumerAckRow("", 0)
	}
	return driver.ConsumerAckRow("client", o.ackEvery)
}
