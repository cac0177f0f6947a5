package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// configuration is what is looked at of the broker's /config.
type configuration struct {
	Version       string `json:"version"`
	FlushMessages int    `json:"flush_messages"`
	FlushInterval string `json:"flush_interval"`
	Visible       string `json:"visible"`
	SegmentSize   int64  `json:"segment_size"`
	Sendfile      bool   `json:"sendfile"`
}

// Contract asks the running broker for its configuration. Acknowledgements and
// fetches are the client's.
func (s *server) Contract(ctx context.Context, m driver.Measurement) ([]resultfile.ContractRow, error) {
	opts, err := readOptions(m.Options)
	if err != nil {
		return nil, err
	}
	rows := clientRows(opts)
	c, err := s.configuration(ctx)
	if err != nil {
		return rows, err
	}
	said, err := c.rows()
	return append(rows, said...), err
}

// configuration asks the broker's metrics listener.
func (s *server) configuration(ctx context.Context) (c configuration, err error) {
	body, err := launch.Get(ctx, s.host, loopback, s.metricsPort, "/config")
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("configuration of the broker: %w", err)
	}
	return c, nil
}

func (c configuration) rows() ([]resultfile.ContractRow, error) {
	interval, err := time.ParseDuration(c.FlushInterval)
	if err != nil {
		return nil, fmt.Errorf("configuration of the broker: flush_interval: %w", err)
	}
	flush := driver.FlushClass(interval, c.FlushMessages)
	transfer := "sent by sendfile"
	if !c.Sendfile {
		transfer = "copied through the process"
	}
	return []resultfile.ContractRow{
		{Row: driver.RowVersion, Value: c.Version, ReadBack: true},
		{Row: driver.RowDurability, Value: "log file; visible to consumers when " + c.Visible, Class: driver.Persistent, ReadBack: true},
		{Row: driver.RowFlush, Value: flushWords(interval, c.FlushMessages), Class: flush, ReadBack: true},
		{Row: driver.RowQueue, Value: fmt.Sprintf("log, segments of %d MiB, %s", c.SegmentSize>>20, transfer), ReadBack: true},
	}, nil
}

// flushWords says after how long or how many messages the broker flushes.
func flushWords(interval time.Duration, messages int) string {
	var rules []string
	if interval > 0 {
		rules = append(rules, driver.Interval(interval))
	}
	if messages > 0 {
		rules = append(rules, fmt.Sprintf("%d messages", messages))
	}
	if len(rules) == 0 {
		return "left to the kernel"
	}
	return "fsync every " + strings.Join(rules, " or ")
}

// acksWords says what an acknowledgement promises; it is the class too.
var acksWords = map[string]string{
	driver.AckNone:     "none",
	driver.AckReceived: "received",
	driver.AckAppended: "appended to the log",
	driver.AckFlushed:  "on the disk",
}

// clientRows are the rows of the client half.
func clientRows(opts options) []resultfile.ContractRow {
	acks := opts.acks.String()
	words := acksWords[acks]
	if acks != driver.AckNone {
		words = opts.answered(words)
	}
	return []resultfile.ContractRow{
		{Row: driver.RowProducerAck, Value: words, Class: acks},
		{Row: driver.RowConsumerAck, Value: "none: the consumer keeps its offset", Class: driver.AckNone},
		{Row: driver.RowPrefetch, Value: fmt.Sprintf("fetches of %d bytes, the next one asked for ahead", opts.fetchBytes), Class: driver.PrefetchClass(int64(opts.fetchBytes))},
	}
}
