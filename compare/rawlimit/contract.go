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
// kernel has it. Of a limit most rows do not apply.
func (s *rawServer) Contract(ctx context.Context, _ driver.Measurement) ([]resultfile.ContractRow, error) {
	const none = "does not apply"
	rows := []resultfile.ContractRow{
		{Row: driver.RowVersion, Value: "this project's own"},
		{Row: driver.RowProducerAck, Value: none},
		{Row: driver.RowConsumerAck, Value: none},
		{Row: driver.RowPrefetch, Value: "as far as TCP's window", Class: "none"},
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
