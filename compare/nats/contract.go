package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// syncInterval is how often the server flushes its files when nobody says
// otherwise, which this version's configuration cannot (nats-server 2.9,
// defaultSyncInterval). No page or request shows it.
const syncInterval = 2 * time.Minute

// said is what a server says of itself and of a stream, in its own words.
type said struct {
	version string
	stream  struct {
		Config struct {
			Storage   string `json:"storage"`
			Retention string `json:"retention"`
			Replicas  int    `json:"num_replicas"`
			MaxBytes  int64  `json:"max_bytes"`
		} `json:"config"`
		Error *apiError `json:"error"`
	}
	consumers struct {
		Consumers []struct {
			Config struct {
				AckPolicy string `json:"ack_policy"`
			} `json:"config"`
		} `json:"consumers"`
		Error *apiError `json:"error"`
	}
}

type apiError struct {
	Description string `json:"description"`
}

// Contract asks the running server for its version, the measured stream and the
// consumers of it, by the protocol of its clients. Acknowledgements to the
// producer and pulls are the client's.
func (s server) Contract(ctx context.Context, m driver.Measurement) ([]resultfile.ContractRow, error) {
	opt, err := readOptions(m.Options)
	if err != nil {
		return nil, err
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowFlush, Value: "fsync every " + driver.Interval(syncInterval) + " (the server's own)", Class: driver.FlushClass(syncInterval, 0)},
		opt.producerRow(),
		opt.consumerRow(),
		opt.prefetchRow(m.PayloadBytes),
	}
	answer, err := s.ask(ctx, m.Queue)
	if err != nil {
		return rows, err
	}
	return append(answer.rows(), rows...), nil // a row that was read back comes first, and counts
}

// askRequests are those to the API of JetStream, whose answers are a line each
// that begins with answerPrefix.
const (
	askRequests  = `CONNECT {"verbose":false}\r\nSUB _INBOX.contract 1\r\nPUB $JS.API.STREAM.INFO.%[1]s _INBOX.contract 0\r\n\r\nPUB $JS.API.CONSUMER.LIST.%[1]s _INBOX.contract 2\r\n{}\r\n`
	answerPrefix = `{"type":`
)

func (s server) ask(ctx context.Context, queue string) (said, error) {
	var a said
	_, text, err := net.SplitHostPort(s.Target().Addr)
	if err != nil {
		return a, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return a, err
	}
	if strings.ContainsAny(queue, " \t\r\n%\\*>.") {
		return a, fmt.Errorf("nats: %q is no name of a stream", queue)
	}
	out, err := launch.Lines(ctx, s.host, port, fmt.Sprintf(askRequests, queue), answerPrefix, 2)
	if err != nil {
		return a, fmt.Errorf("nats: asking for the stream %s: %w", queue, err)
	}
	return a, a.read(out)
}

// read takes the lines of the answers.
func (a *said) read(out []byte) error {
	for line := range bytes.Lines(out) {
		var err error
		info, isInfo := bytes.CutPrefix(line, []byte("INFO "))
		switch {
		case isInfo:
			var hello struct {
				Version string `json:"version"`
			}
			err = json.Unmarshal(info, &hello)
			a.version = hello.Version
		case bytes.Contains(line, []byte("stream_info_response")):
			err = json.Unmarshal(line, &a.stream)
		case bytes.Contains(line, []byte("consumer_list_response")):
			err = json.Unmarshal(line, &a.consumers)
		}
		if err != nil {
			return fmt.Errorf("nats: the answer %.200q: %w", line, err)
		}
	}
	for _, e := range []*apiError{a.stream.Error, a.consumers.Error} {
		if e != nil {
			return fmt.Errorf("nats: the server says: %s", e.Description)
		}
	}
	if a.version == "" || a.stream.Config.Storage == "" {
		return errors.New("nats: the server says nothing of itself or of the stream")
	}
	return nil
}

func (a said) rows() []resultfile.ContractRow {
	c := a.stream.Config
	durability := resultfile.ContractRow{Row: driver.RowDurability, Value: "stream in " + c.Storage, Class: driver.Transient, ReadBack: true}
	if c.Storage == "file" {
		durability.Value, durability.Class = "stream in files", driver.Persistent
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowVersion, Value: "NATS " + a.version, ReadBack: true},
		durability,
		{Row: driver.RowQueue, Value: fmt.Sprintf("stream, retention %s, %d replica", c.Retention, c.Replicas), ReadBack: true},
	}
	for i, consumer := range a.consumers.Consumers {
		row, ok := policyRows[consumer.Config.AckPolicy]
		if i > 0 || !ok {
			continue // all of a run are alike
		}
		row.ReadBack = true
		rows = append(rows, row)
	}
	return rows
}

// policyRows are the consumer's row by the server's name for an ack policy.
var policyRows = map[string]resultfile.ContractRow{
	"none":     {Row: driver.RowConsumerAck, Value: "none: what was sent counts as consumed (ack policy none)", Class: driver.AckAutomatic},
	"all":      {Row: driver.RowConsumerAck, Value: "cumulative (ack policy all)", Class: driver.AckBulk},
	"explicit": {Row: driver.RowConsumerAck, Value: "each message (ack policy explicit)", Class: driver.AckEach},
}

func (o options) consumerRow() resultfile.ContractRow {
	if o.ackAll {
		return policyRows["all"]
	}
	return policyRows["none"]
}

// producerRow: a message is written to its file before its ack is sent.
func (o options) producerRow() resultfile.ContractRow {
	row := resultfile.ContractRow{Row: driver.RowProducerAck, Value: "an ack for each message, when it is written, " + strconv.Itoa(o.window) + " outstanding at most", Class: driver.AckAppended}
	if o.acks == "none" {
		row.Value, row.Class = "none", driver.AckNone
	}
	return row
}

func (o options) prefetchRow(payload int) resultfile.ContractRow {
	n := min(int64(o.prefetch)*int64(max(payload, 1)), int64(o.prefetchBytes))
	return resultfile.ContractRow{Row: driver.RowPrefetch, Value: fmt.Sprintf("pulls of %d messages or %d bytes, whichever is less", o.prefetch, o.prefetchBytes), Class: driver.PrefetchClass(n)}
}
