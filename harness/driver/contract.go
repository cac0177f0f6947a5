package driver

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"kafkalab/results/resultfile"
)

// Rows of the settings contract.
const (
	RowVersion     = "version"
	RowDurability  = "durability"
	RowFlush       = "flush"
	RowProducerAck = "producer acknowledgement"
	RowConsumerAck = "consumer acknowledgement"
	RowPrefetch    = "prefetch bytes"
	RowConnections = "connections"
	RowThreads     = "threads"
	RowCores       = "cores"
	RowMemory      = "memory limit"
	RowDisk        = "disk"
	RowQueue       = "queue or log"
)

// ContractRows are the rows of the settings contract, in order: what a
// comparison of brokers rests on. A row's Class is what is compared:
//
//	durability        "persistent", "transient"
//	flush             "os" (left to the kernel), "interval 1s", "count 500",
//	                  "interval 1s, count 500" (whichever comes first), "each"
//	producer acknowledgement
//	                  "none", "received", "appended", "flushed" (by what is
//	                  promised when the answer comes, whatever the system calls it)
//	consumer acknowledgement
//	                  "none" (the consumer keeps its place), "automatic",
//	                  "each", "bulk"
//	prefetch bytes    payload bytes that one pull, or the window of a push, asks
//	                  for at most, to two digits ([PrefetchClass]), or "none": no
//	                  bound but TCP's
//	connections       how many are established to the server's port; of a
//	                  pipeline, whose clients come and go, no class
//	cores             as the kernel lists them: "0-1"
//	memory limit      bytes, or "none"
//	disk              device and file system below the store
//
// Rows without a class (threads, version, queue type, what a rival's
// documentation recommends) are shown and not compared. A row that does not
// apply to a system (a raw file has no acknowledgement) has none either.
var ContractRows = []string{
	RowVersion,
	RowDurability,
	RowFlush,
	RowProducerAck,
	RowConsumerAck,
	RowPrefetch,
	RowConnections,
	RowThreads,
	RowCores,
	RowMemory,
	RowDisk,
	RowQueue,
}

// KernelRows are the rows that the testbed reads from the broker host's kernel,
// alike for every system.
var KernelRows = []string{RowConnections, RowThreads, RowCores, RowMemory, RowDisk}

// The classes of durability and acknowledgement.
const (
	Persistent = "persistent"
	Transient  = "transient"

	AckNone      = "none"
	AckReceived  = "received"
	AckAppended  = "appended"
	AckFlushed   = "flushed"
	AckAutomatic = "automatic"
	AckEach      = "each"
	AckBulk      = "bulk"

	FlushOS   = "os"
	FlushEach = "each"
)

// FlushClass is the class of a flush after an interval, a number of messages,
// or whichever comes first; 0 switches one off, and both "os".
func FlushClass(interval time.Duration, messages int) string {
	switch {
	case messages == 1:
		return FlushEach
	case interval > 0 && messages > 0:
		return fmt.Sprintf("interval %s, count %d", Interval(interval), messages)
	case interval > 0:
		return "interval " + Interval(interval)
	case messages > 0:
		return fmt.Sprintf("count %d", messages)
	}
	return FlushOS
}

// Interval writes a duration without the parts that are 0: "2m", and not
// "2m0s".
func Interval(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if n := len(s) - len(zero) + 1; n > 0 && s[n-1:] == zero {
			s = s[:n]
		}
	}
	return s
}

// PrefetchClass is the class of a prefetch of so many payload bytes: the number
// to two digits, since 1,000 messages of 200 bytes and 200 KiB are the same
// setting (NetDB'11 §5: "up to 1000 messages or about 200KB").
func PrefetchClass(bytes int64) string {
	if bytes < 100 {
		return strconv.FormatInt(bytes, 10)
	}
	unit := math.Pow(10, math.Floor(math.Log10(float64(bytes)))-1)
	return strconv.FormatInt(int64(math.Round(float64(bytes)/unit)*unit), 10)
}

// ConsumerAckRow is the row of a broker that a consumer acknowledges to, in the
// mode of the broker's own word, once for so many messages; 0: it takes a
// message as consumed when it has sent it.
func ConsumerAckRow(mode string, every int) resultfile.ContractRow {
	r := resultfile.ContractRow{Row: RowConsumerAck}
	switch every {
	case 0:
		r.Value, r.Class = "automatic: consumed when sent", AckAutomatic
	case 1:
		r.Value, r.Class = mode+", each message", AckEach
	default:
		r.Value, r.Class = fmt.Sprintf("%s, one for %d messages", mode, every), AckBulk
	}
	return r
}

// SortContract puts rows into the order of [ContractRows]. Of two of a name the
// first counts; a name that is none of them is an error.
func SortContract(rows []resultfile.ContractRow) ([]resultfile.ContractRow, error) {
	for _, r := range rows {
		if !slices.Contains(ContractRows, r.Row) {
			return nil, fmt.Errorf("the contract has no row %q", r.Row)
		}
	}
	var sorted []resultfile.ContractRow
	for _, name := range ContractRows {
		if i := slices.IndexFunc(rows, func(r resultfile.ContractRow) bool { return r.Row == name }); i >= 0 {
			sorted = append(sorted, rows[i])
		}
	}
	return sorted, nil
}
