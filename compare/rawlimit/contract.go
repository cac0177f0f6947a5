package rawlimit

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// rawServer is the running server with the host that it is on.
type rawServer struct {
	*driver.Program
	host host.Host
}

// Contract reads what the server was started with from its command line, as the
// kernel has it. Fetches are the client's. Of a limit most rows do not apply.
func (s *rawServer) Contract(ctx context.Context, m driver.Measurement) ([]resultfile.ContractRow, error) {
	opts, err := readOptions(m.Options)
	if err != nil {
		return nil, err
	}
	const none = "does not apply"
	prefetch := resultfile.ContractRow{Row: driver.RowPrefetch, Value: "as far as TCP's window", Class: "none"}
	if opts.fetchBytes > 0 {
		prefetch.Value = fmt.Sprintf("fetches of %d bytes, the next one asked for ahead", opts.fetchBytes)
		if opts.outstanding > 1 {
			prefetch.Value = fmt.Sprintf("fetches of %d bytes, %d asked for at a time", opts.fetchBytes, opts.outstanding)
		}
		prefetch.Class = driver.PrefetchClass(int64(opts.fetchBytes))
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowVersion, Value: "this project's own"},
		{Row: driver.RowProducerAck, Value: none},
		{Row: driver.RowConsumerAck, Value: none},
		prefetch,
	}
	var words []string
	for _, p := range s.Processes() {
		line, err := s.host.ReadFile(ctx, fmt.Sprintf("/proc/%d/cmdline", p.PID()))
		if err != nil {
			return rows, fmt.Errorf("rawlimit: command line of the server: %w", err)
		}
		for word := range bytes.SplitSeq(line, []byte{0}) {
			words = append(words, string(word))
		}
	}
	path := Path(valueOf(words, "--path"))
	interval, err := time.ParseDuration(valueOf(words, "--flush-interval"))
	if err != nil {
		return rows, fmt.Errorf("rawlimit: flush interval of the server: %w", err)
	}
	messages, err := strconv.Atoi(valueOf(words, "--flush-messages"))
	if err != nil {
		return rows, fmt.Errorf("rawlimit: flush messages of the server: %w", err)
	}
	durability := resultfile.ContractRow{Row: driver.RowDurability, Value: "nothing is stored", ReadBack: true}
	flush := resultfile.ContractRow{Row: driver.RowFlush, Value: none, ReadBack: true}
	if path.Stores() {
		durability.Value, durability.Class = "one file", driver.Persistent
		flush.Value, flush.Class = flushWords(interval, messages), driver.FlushClass(interval, messages)
	}
	return append(rows, durability, flush, resultfile.ContractRow{Row: driver.RowQueue, Value: "path " + string(path), ReadBack: true}), nil
}

// valueOf returns the word behind a flag.
func valueOf(words []string, flag string) string {
	for i, w := range words {
		if w == flag && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}
