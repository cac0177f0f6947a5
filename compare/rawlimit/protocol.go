package rawlimit

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"kafkalab/harness/workload"
)

// A connection begins with a request, a line of JSON, which is answered by
// another one. What follows depends on the request:
//
//	arrived   further requests
//	produce   paths tcp, ping and file: entries, until the client closes
//	          path disk: see grant
//	consume   entries from the server, from the first one on, without end
//	fetch     paths file and disk: requests for parts of them, see fetchRequest
//
// An entry is as large as one of Kafka's, so that a rate in messages is the
// goodput of the link over the same number of bytes:
//
//	0  u32 length of the payload
//	4  5 bytes, zero
//	9  payload
const (
	entryHeaderBytes = 9
	maxEntryBytes    = entryHeaderBytes + workload.MaxPayloadBytes
	maxLineBytes     = 4 << 10
	maxQueueBytes    = 64 // of a queue's name
)

// op is what a request asks for.
type op string

const (
	opArrived op = "arrived"
	opProduce op = "produce"
	opConsume op = "consume"
	opFetch   op = "fetch"
)

type request struct {
	Op    op     `json:"op"`
	Queue string `json:"queue"`
	// With produce: what is going to be sent.
	PayloadBytes int    `json:"payload_bytes,omitempty"`
	RunID        uint64 `json:"run_id,omitempty"`
	First        uint64 `json:"first,omitempty"` // sequence number of the first message
}

type answer struct {
	Error    string `json:"error,omitempty"`
	Messages int64  `json:"messages"` // with arrived: how many there are, whole ones
}

func (a answer) err() error {
	if a.Error == "" {
		return nil
	}
	return errors.New(a.Error)
}

// check refuses what the server could not carry out, before it makes anything.
func (r request) check() error {
	if r.Op != opArrived && r.Op != opProduce && r.Op != opConsume && r.Op != opFetch {
		return fmt.Errorf("unknown request %q", r.Op)
	}
	if r.Queue == "" || len(r.Queue) > maxQueueBytes {
		return fmt.Errorf("queue name of %d bytes: 1 to %d are wanted", len(r.Queue), maxQueueBytes)
	}
	if r.Op == opProduce && (r.PayloadBytes < workload.MinPayloadBytes || r.PayloadBytes > workload.MaxPayloadBytes) {
		return fmt.Errorf("payload of %d bytes: %d to %d are possible", r.PayloadBytes, workload.MinPayloadBytes, workload.MaxPayloadBytes)
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// readLine reads one line into v. The reader's buffer bounds it.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("line of more than %d bytes: not a request of this protocol", r.Size())
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("line %.60q is not of this protocol: %w", line, err)
	}
	return nil
}

// appendEntry appends payload as an entry.
func appendEntry(dst, payload []byte) []byte {
	var h [entryHeaderBytes]byte
	binary.BigEndian.PutUint32(h[:], uint32(len(payload)))
	return append(append(dst, h[:]...), payload...)
}

// parseEntry returns the first entry's payload and its size in b. The size is
// 0 when b does not hold all of it; want is then how much of b there must be.
func parseEntry(b []byte) (payload []byte, size, want int, err error) {
	if len(b) < entryHeaderBytes {
		return nil, 0, entryHeaderBytes, nil
	}
	n := binary.BigEndian.Uint32(b)
	if n > workload.MaxPayloadBytes {
		return nil, 0, 0, fmt.Errorf("entry with a payload of %d bytes, at most %d are possible: the peer is no server of the physical limit", n, workload.MaxPayloadBytes)
	}
	size = entryHeaderBytes + int(n)
	if len(b) < size {
		return nil, 0, size, nil
	}
	return b[entryHeaderBytes:size:size], size, size, nil
}

// Path disk: so that nothing but the disk is measured, messages do not travel.
// A grant is a u32 count: the server makes as many of the run's messages itself
// and writes them to the file, in one write, then answers with the same u32.
const (
	grantBytes = 4
	// maxGrants may be unanswered: one is written while the next is made, and
	// the third is on its way.
	maxGrants = 3
)

// grantMessages is how many messages of that size a grant has at most, so that
// a write is about 1 MiB.
func grantMessages(payloadBytes int) int {
	return max(1, writeBytes/(entryHeaderBytes+payloadBytes))
}

// writeBytes is the size of a read from the network and of a write to the
// file: the fastest on ext4 when measured.
const writeBytes = 1 << 20
