package chaos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Kind says what a consumer has noted.
type Kind uint8

// What a consumer notes.
const (
	Joined   Kind = iota + 1 // it is a member of the group
	Assigned                 // a partition has come to it
	Handed                   // a stream has handed it a message
	Done                     // it is done with that message
	Released                 // a partition is being given up: its streams hand out nothing more of it
	Left                     // it has left the group, and all that a clean end does was done
	endKinds
)

func (k Kind) String() string {
	if k == 0 || k >= endKinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"joined", "assigned", "handed", "done", "released", "left"}[k-1]
}

// Event is one record of a journal. Which fields count depends on its kind.
type Event struct {
	Time      int64 // on the machine's monotonic clock, in nanoseconds
	Kind      Kind
	Lost      bool // of Released: the partition had been lost already
	Stream    uint16
	Partition Partition
	Offset    int64 // of the message, and behind it
	Next      int64
	Sequence  uint64 // that the message's payload carries
}

// Partition is one of the topic's partitions.
type Partition struct{ Broker, Number int32 }

func (p Partition) String() string { return fmt.Sprintf("%d-%d", p.Broker, p.Number) }

// eventBytes is the size of a record.
const eventBytes = 44

func (e Event) encode(b *[eventBytes]byte) {
	binary.BigEndian.PutUint64(b[0:], uint64(e.Time))
	b[8] = byte(e.Kind)
	b[9] = 0
	if e.Lost {
		b[9] = 1
	}
	binary.BigEndian.PutUint16(b[10:], e.Stream)
	binary.BigEndian.PutUint32(b[12:], uint32(e.Partition.Broker))
	binary.BigEndian.PutUint32(b[16:], uint32(e.Partition.Number))
	binary.BigEndian.PutUint64(b[20:], uint64(e.Offset))
	binary.BigEndian.PutUint64(b[28:], uint64(e.Next))
	binary.BigEndian.PutUint64(b[36:], e.Sequence)
}

func decodeEvent(b *[eventBytes]byte) (Event, error) {
	e := Event{
		Time:      int64(binary.BigEndian.Uint64(b[0:])),
		Kind:      Kind(b[8]),
		Lost:      b[9] == 1,
		Stream:    binary.BigEndian.Uint16(b[10:]),
		Partition: Partition{int32(binary.BigEndian.Uint32(b[12:])), int32(binary.BigEndian.Uint32(b[16:]))},
		Offset:    int64(binary.BigEndian.Uint64(b[20:])),
		Next:      int64(binary.BigEndian.Uint64(b[28:])),
		Sequence:  binary.BigEndian.Uint64(b[36:]),
	}
	if e.Kind == 0 || e.Kind >= endKinds || b[9] > 1 {
		return e, fmt.Errorf("not a record: % x", b[:])
	}
	return e, nil
}

// Journal is what one consumer writes.
type Journal struct {
	mu sync.Mutex
	f  *os.File
}

// CreateJournal makes a journal at a path where there is none.
func CreateJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f: f}, nil
}

// Note writes an event, at the time of the call. Records of one journal are in the
// order of their times.
func (j *Journal) Note(e Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Time = Now()
	var b [eventBytes]byte
	e.encode(&b)
	_, err := j.f.Write(b[:])
	return err
}

// Close closes the journal.
func (j *Journal) Close() error { return j.f.Close() }

// ReadJournal reads a journal. A last record that was not written whole is left
// out.
func ReadJournal(path string) ([]Event, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the consumer was killed before it came to make it
	}
	if err != nil {
		return nil, err
	}
	events := make([]Event, 0, len(b)/eventBytes)
	for ; len(b) >= eventBytes; b = b[eventBytes:] {
		e, err := decodeEvent((*[eventBytes]byte)(b))
		if err != nil {
			return nil, fmt.Errorf("%s, record %d: %w", path, len(events), err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Now is the time on the clock of the journals.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("monotonic clock: %v", err)) // Linux always has it
	}
	return ts.Nano()
}

// since is the time from one reading of the clock to a later one.
func since(from, to int64) time.Duration { return time.Duration(to - from) }

// payloadBytes is the size of a payload: its sequence number, twice over, the
// second time with all bits turned round, so that damage shows.
const payloadBytes = 16

func appendPayload(dst []byte, sequence uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, sequence)
	return binary.BigEndian.AppendUint64(dst, ^sequence)
}

func parsePayload(b []byte) (uint64, error) {
	if len(b) < payloadBytes {
		return 0, fmt.Errorf("payload of %d bytes: %w", len(b), io.ErrUnexpectedEOF)
	}
	sequence := binary.BigEndian.Uint64(b)
	if again := binary.BigEndian.Uint64(b[8:]); again != ^sequence {
		return 0, fmt.Errorf("payload % x is damaged", b[:payloadBytes])
	}
	return sequence, nil
}
