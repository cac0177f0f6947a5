package disktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestB03DiskFull (fault B03): on a file system of 16 MiB a broker takes messages
// until there is no room, is asked to go on for a while, and gets room again.
// What it has acknowledged is there and readable all the time, what it refused
// is not, nothing stands behind something torn, and it takes up its work by
// itself.
func TestB03DiskFull(t *testing.T) {
	t.Run("goes on", func(t *testing.T) { testFullDisk(t, 10*time.Second, false) })
	t.Run("is started again while the disk is full", func(t *testing.T) { testFullDisk(t, time.Second, true) })
}

func testFullDisk(t *testing.T, trying time.Duration, restart bool) {
	d := newDisk(t, 16<<20)
	other := filepath.Join(d.dir, "other") // what somebody else keeps on the disk
	if err := os.WriteFile(other, make([]byte, 7<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b := kafkatest.Start(t, func(c *broker.Config) {
		c.LogDir = filepath.Join(d.dir, "log")
		c.MetricsListen = "127.0.0.1:0"
		c.Storage.DefaultPartitions = fullPartitions
		c.Storage.SegmentBytes = 256 << 10
		c.Storage.FlushMessages = 100
		c.Storage.FlushInterval = 20 * time.Millisecond
	})
	_, rng := random(t)
	f := &filling{t: t, b: b, rng: rng}
	f.connect()
	f.createTopic()
	if len(f.topics) != 1 {
		t.Fatal("no topic could be made on an empty disk")
	}

	for f.produce(f.rng.IntN(20_000), f.anyAcks()) == nil {
	}
	t.Logf("full after %d messages", len(f.sent))
	f.checkStarved(trying)
	if restart {
		b.MayStopBadly = true // it may have what it cannot flush
		b.Restart()
		b.MayStopBadly = false
		f.connect()
		f.checkStarved(trying)
	}

	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	for p := range int32(fullPartitions) {
		eventually(t, fmt.Sprintf("partition %d takes messages again", p), func() bool {
			return f.produceTo(p, 1000, wire.AcksFlushed) == nil
		})
	}
	w := newWeb(t, b.MetricsAddr().String())
	eventually(t, "the broker is healthy again", func() bool {
		status, _ := w.get("/healthz")
		return status == 200
	})
	for range 200 {
		if err := f.produce(f.rng.IntN(20_000), f.anyAcks()); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	f.createTopic()
	f.check(false)
	b.Restart()
	f.connect()
	f.check(true)
	f.checkAllFiles()
}

const (
	fullTopic      = "full"
	fullPartitions = 3
)

// filling is a client that knows what it has sent and what became of it.
type filling struct {
	t      *testing.T
	b      *kafkatest.Broker
	rng    *rand.Rand
	conn   *client.Conn
	sent   []filled
	topics []string // made, says the broker
	tried  int      // topics
}

// filled is a message that was sent. Its number, which its payload holds, is its
// index.
type filled struct {
	partition int32
	size      int // of the payload
	acks      wire.Acks
	acked     bool
	refused   bool  // it is not in the log, says the broker
	offset    int64 // if it was acknowledged
}

func (f *filling) connect() {
	f.t.Helper()
	if f.conn != nil {
		f.conn.Close()
	}
	c, err := client.Dial(f.t.Context(), f.b.HostPort(), client.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.conn = c
	f.t.Cleanup(func() { c.Close() })
}

// numbered returns the payload of a message: its number, and size bytes that
// depend on it.
func numbered(n, size int) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	source := rand.NewPCG(uint64(n), 3)
	for len(b) < 8+size {
		b = binary.BigEndian.AppendUint64(b, source.Uint64())
	}
	return b[:8+size]
}

func (f *filling) anyAcks() wire.Acks {
	if f.rng.IntN(2) == 0 {
		return wire.AcksAppended
	}
	return wire.AcksFlushed
}

func (f *filling) produce(size int, acks wire.Acks) error {
	f.t.Helper()
	return f.produceTo(f.rng.Int32N(fullPartitions), size, acks)
}

// produceTo sends a message and returns the broker's refusal, if it is one.
func (f *filling) produceTo(partition int32, size int, acks wire.Acks) error {
	f.t.Helper()
	payload := numbered(len(f.sent), size)
	m := filled{partition: partition, size: size, acks: acks}
	set := message.Append(nil, payload)
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	at, err := f.conn.AckedProduce(ctx, fullTopic, partition, set, acks, patience/2)
	var code wire.Code
	switch {
	case err == nil:
		m.acked, m.offset = true, at.Base
		if at.Next != at.Base+int64(len(set)) {
			f.t.Fatalf("%d bytes were acknowledged at offset %d to %d", len(set), at.Base, at.Next)
		}
	case !errors.As(err, &code):
		f.t.Fatalf("produce on a full disk: %v; an answer with an error code is wanted", err)
	default:
		// One that was to be flushed may be in the log without being flushed.
		m.refused = acks == wire.AcksAppended
	}
	f.sent = append(f.sent, m)
	return err
}

// createTopic tries to make another topic.
func (f *filling) createTopic() {
	f.t.Helper()
	f.tried++
	name := fmt.Sprintf("made-%d", f.tried)
	err := f.conn.CreateTopic(f.t.Context(), name, 2)
	var code wire.Code
	switch {
	case err == nil:
		f.topics = append(f.topics, name)
	case !errors.As(err, &code):
		f.t.Fatalf("create a topic on a full disk: %v; an answer with an error code is wanted", err)
	}
}

// checkStarved goes on to ask for more than the disk has room for, and looks
// whether all that was promised is kept meanwhile, and the state is told.
func (f *filling) checkStarved(trying time.Duration) {
	f.t.Helper()
	w := newWeb(f.t, f.b.MetricsAddr().String())
	told := w.metric("kafka_broker_failed_produce_total")
	failed, refused := 0, 0.0
	sizes := [...]int{0, 100, 20_000, 200_000}
	end := time.Now().Add(trying)
	for round := 0; refused == 0 || time.Now().Before(end); round++ {
		for range 50 {
			if f.produce(sizes[f.rng.IntN(len(sizes))], f.anyAcks()) == nil {
				continue
			}
			failed++
			if f.sent[len(f.sent)-1].refused {
				refused++
			}
		}
		if round%20 == 0 {
			f.createTopic()
			f.check(false)
			f.checkFiles()
		}
	}
	f.check(false)
	f.t.Logf("%d messages failed while the disk was full", failed)
	if told = w.metric("kafka_broker_failed_produce_total") - told; told < refused {
		f.t.Errorf("%v messages were refused, the metrics tell of %v", refused, told)
	}
	if w.metric("kafka_broker_storage_errors_total") == 0 {
		f.t.Error("the metrics tell of no storage error")
	}
	eventually(f.t, "/healthz says that the disk is full", func() bool {
		status, reasons := w.get("/healthz")
		return status == 503 && strings.Contains(reasons, "full")
	})
}

// check reads all that is visible and compares it with what was sent. whole
// says that everything acknowledged must be visible.
func (f *filling) check(whole bool) {
	f.t.Helper()
	found := make([]bool, len(f.sent))
	for p := range int32(fullPartitions) {
		f.checkPartition(p, found)
	}
	for n, m := range f.sent {
		if m.acked && !found[n] && (whole || m.acks == wire.AcksFlushed) {
			f.t.Fatalf("message %d of partition %d, acknowledged with acks %d at offset %d, is not there", n, m.partition, m.acks, m.offset)
		}
	}
	states, err := f.conn.Topics(f.t.Context(), f.topics...)
	if err != nil || len(states) != 2*len(f.topics) {
		f.t.Fatalf("%d topics were made with 2 partitions each; there are %d: %v", len(f.topics), len(states), err)
	}
}

func (f *filling) checkPartition(partition int32, found []bool) {
	f.t.Helper()
	last := -1
	for offset := int64(0); ; {
		set, err := f.conn.Fetch(f.t.Context(), wire.FetchEntry{Topic: fullTopic, Partition: partition, Offset: offset, MaxBytes: 1 << 20})
		if err != nil {
			f.t.Fatalf("read with a full disk: %v", err)
		}
		if len(set) == 0 {
			return
		}
		it := set.Iterate(offset)
		for it.Next() {
			payload := it.Message().Payload
			n := int(binary.BigEndian.Uint64(payload))
			if n >= len(f.sent) || f.sent[n].partition != partition || !bytes.Equal(payload, numbered(n, f.sent[n].size)) {
				f.t.Fatalf("partition %d has a message at offset %d that was never sent", partition, it.Offset())
			}
			switch m := f.sent[n]; {
			case n <= last:
				f.t.Fatalf("partition %d has message %d at offset %d, behind message %d", partition, n, it.Offset(), last)
			case m.refused:
				f.t.Fatalf("message %d is in partition %d at offset %d, and was refused", n, partition, it.Offset())
			case m.acked && m.offset != it.Offset():
				f.t.Fatalf("message %d is in partition %d at offset %d, and was acknowledged at %d", n, partition, it.Offset(), m.offset)
			}
			last, found[n] = n, true
		}
		if it.Err() != nil || it.ValidBytes() == 0 {
			f.t.Fatalf("partition %d is unreadable from offset %d on: %v", partition, it.NextOffset(), it.Err())
		}
		offset = it.NextOffset()
	}
}

// checkFiles looks for metadata files that a write without room has left empty
// or unfinished.
func (f *filling) checkFiles() {
	f.t.Helper()
	entries, err := os.ReadDir(f.b.Config.LogDir)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			f.checkFile(filepath.Join(f.b.Config.LogDir, e.Name()), e)
		}
	}
}

// checkAllFiles does the same for the files of partitions, at which a broker
// that is short of room may be at work.
func (f *filling) checkAllFiles() {
	f.t.Helper()
	err := filepath.WalkDir(f.b.Config.LogDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			f.checkFile(path, e)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *filling) checkFile(path string, e fs.DirEntry) {
	f.t.Helper()
	info, err := e.Info()
	switch {
	case err != nil:
		f.t.Fatal(err)
	case e.Name() == ".lock", filepath.Ext(path) == ".kafka": // may be empty
	case info.Size() == 0:
		f.t.Errorf("%s has no bytes", path)
	case strings.HasSuffix(path, ".tmp"):
		f.t.Errorf("%s is left over", path)
	}
}
