package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// residentLimit is how large a broker process may become, in bytes, whatever
// goes through it.
const residentLimit = 64 << 20

// residentGrowth is by how much it may grow with the amount that has gone
// through it, or is stored: not at all, but for the noise of the runtime. Most of
// that is garbage: a broker makes so little that its heap, of 1 to 2 MB in use,
// takes some 20 GB of messages to come to the 4 MiB at which Go collects for the
// first time.
const residentGrowth = 4 << 20

// residentOther bounds what is not for requests and yet looks so in split: some
// 100 KB that the C library allocates for threads.
const residentOther = 1 << 20

// residentWarm is how many bytes a quarter must have for the growth to be looked
// at: the connections have come, and with them their stacks and small buffers.
const residentWarm = 2 << 30

// residentBytes is how many bytes go in and out in TestResidentMemory;
// KAFKALAB_RESIDENT_BYTES overrides it (10000000000 is the full size).
const residentBytes = 300 << 20

func residentVolume(t *testing.T) int64 {
	s := os.Getenv("KAFKALAB_RESIDENT_BYTES")
	if s == "" {
		return residentBytes
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("KAFKALAB_RESIDENT_BYTES: %q is no number of bytes", s)
	}
	return n
}

// TestResidentMemory: a broker process stays under 64 MiB while a lot goes in
// and out through 100 connections with requests of up to 1 MiB, and does not
// grow with it.
//
// What it has for requests is bounded, not constant, and is held against that
// bound instead: the arena takes the first free place, so that its last pages wait
// for a moment at which many large requests meet, and the mappings beside it last
// as long as a request. How much of both has been seen grows with the length of a
// run, as the largest of any samples does. In a run of 30 GB the arena's 36 MiB
// were touched to 97 % after 3 GB and wholly after 7 GB; mappings had 0, and for
// moments up to 3.5 MiB. The rest went from 14.3 MiB in the first quarter to 17.4
// MiB in the last: 10.5 MiB of binary and libraries, the heap with its stacks from
// 3.1 to 5.1 MiB, and 0.6 MiB from the first collection on, for the collector. That
// is no leak: collected often, the heap had some 8,000 objects after 5 GB and after
// 19.
func TestResidentMemory(t *testing.T) {
	bin, volume := torture.Build(t), residentVolume(t)
	for _, sendfile := range []string{"true", "false"} {
		t.Run("sendfile="+sendfile, func(t *testing.T) {
			argv := []string{bin, "broker", "--log-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--sendfile=" + sendfile,
				"--num-partitions", "4", "--segment-size", "64MiB", "--retention-size", "256MiB", "--cleanup-interval", "200ms",
				"--flush-messages", "0", "--flush-interval", "200ms", "--visible", "appended"}
			p := torture.Start(t, argv...)
			empty, _ := resident(t, p.Pid())
			flow := &flow{address: p.Addr(), volume: volume, seed: random(t).Uint64()}
			flow.start(t, 50, 50)
			requests, quarters := flow.watch(t, p.Pid())
			_, most := resident(t, p.Pid())
			t.Logf("%d bytes went in and %d out; resident at most %d bytes; for requests %d, the rest by quarters %d",
				flow.in.Load(), flow.out.Load(), most, requests, quarters)
			checkResident(t, most, requests)
			if grown := quarters[3] - quarters[0]; volume/4 >= residentWarm && grown > residentGrowth {
				t.Errorf("resident memory that is not for requests grew by %d bytes from the first quarter to the last", grown)
			}
			checkMappingsGone(t, p.Pid())
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
			p = torture.Start(t, argv...)
			full, _ := resident(t, p.Pid())
			t.Logf("resident after the start: %d bytes with no message stored, %d with all these", empty, full)
			if full-empty > residentGrowth {
				t.Errorf("with messages stored a broker that does nothing has %d bytes more", full-empty)
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkResident compares what a broker has had at most with the bounds: at all,
// and for requests, of which one may go beyond its bound.
func checkResident(t *testing.T, most, requests int64) {
	t.Helper()
	if most > residentLimit {
		t.Errorf("resident memory was %d bytes, at most %d are right", most, residentLimit)
	}
	if bound := int64(broker.DefaultMaxRequestMemoryBytes + 1<<20 + residentOther); requests > bound {
		t.Errorf("resident memory for requests was %d bytes, at most %d are right", requests, bound)
	}
}

// checkMappingsGone waits until a broker whose connections have all ended has no
// more for requests than the arena, three quarters of the bound.
func checkMappingsGone(t *testing.T, pid int) {
	t.Helper()
	const arena = broker.DefaultMaxRequestMemoryBytes / 4 * 3
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		requests, _ := split(t, pid)
		if requests <= arena+residentOther {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("resident memory for requests is %d bytes with no connection open, the arena has %d", requests, arena)
			return
		}
	}
}

// flow is what goes through a broker.
type flow struct {
	address string
	volume  int64 // bytes, in each direction
	seed    uint64
	in, out atomic.Int64
	ended   chan struct{} // closed when the volume has gone through
}

const flowTopics = 4

func (f *flow) start(t *testing.T, producers, consumers int) {
	f.ended = make(chan struct{})
	var wg sync.WaitGroup
	run := func(what string, i int, do func(net.Conn, *rand.Rand) error) {
		rnd := rand.New(rand.NewPCG(f.seed, uint64(i)))
		wg.Go(func() {
			c, err := net.Dial("tcp", f.address)
			if err == nil {
				err = errors.Join(do(c, rnd), c.Close())
			}
			if err != nil {
				t.Errorf("%s %d: %v", what, i, err)
			}
		})
	}
	for i := range producers {
		run("producer", i, f.produce)
	}
	for i := range consumers {
		run("consumer", producers+i, f.consume)
	}
	go func() {
		wg.Wait()
		close(f.ended)
	}()
	t.Cleanup(func() { <-f.ended })
}

// watch waits for the end of the flow and returns the largest that the broker has
// had for requests, and of the rest, within each quarter of what goes through.
func (f *flow) watch(t *testing.T, pid int) (requests int64, quarters [4]int64) {
	t.Helper()
	for done := false; !done; {
		select {
		case <-f.ended:
			done = true
		case <-time.After(20 * time.Millisecond):
		}
		forRequests, rest := split(t, pid)
		requests = max(requests, forRequests)
		q := min(4*min(f.in.Load(), f.out.Load())/f.volume, 3)
		quarters[q] = max(quarters[q], rest)
	}
	return requests, quarters
}

func (f *flow) place(rnd *rand.Rand) (topic string, partition int32) {
	return fmt.Sprintf("flow%d", rnd.IntN(flowTopics)), rnd.Int32N(4)
}

// produce sends sets of all sizes, in requests of up to 1 MiB.
func (f *flow) produce(c net.Conn, rnd *rand.Rand) error {
	const most = 1<<20 - 64 // a set, which makes a request of nearly 1 MiB
	var sets []byte
	ends := []int{0} // of the messages in it
	for {
		payload := make([]byte, 1+rnd.IntN(10_000))
		if len(sets)+message.Overhead0+len(payload) > most {
			break
		}
		sets = message.Append(sets, payload)
		ends = append(ends, len(sets))
	}
	answer := make([]byte, wire.ResponseHeaderSize+16)
	var request []byte
	for f.in.Load() < f.volume {
		topic, partition := f.place(rnd)
		set := sets[:ends[1+rnd.IntN(len(ends)-1)]]
		request = wire.AppendAckedProduce(request[:0], topic, partition, set, wire.AcksAppended, 20_000)
		c.SetDeadline(time.Now().Add(2 * patience))
		if _, err := c.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			return err
		}
		if code, _, err := wire.ParseResponseHeader(answer, 16); code != 0 || err != nil {
			return fmt.Errorf("answer %v, %v", code, err)
		}
		f.in.Add(int64(len(set)))
	}
	return nil
}

// consume fetches from all over the logs, up to 1 MiB at a time. What retention
// has deleted it skips.
func (f *flow) consume(c net.Conn, rnd *rand.Rand) error {
	header := make([]byte, wire.ResponseHeaderSize)
	buf := make([]byte, 64<<10)
	exchange := func(request []byte) (wire.Code, int, error) {
		c.SetDeadline(time.Now().Add(2 * patience))
		if _, err := c.Write(request); err != nil {
			return 0, 0, err
		}
		if _, err := io.ReadFull(c, header); err != nil {
			return 0, 0, err
		}
		return wire.ParseResponseHeader(header, 1<<20)
	}
	for f.out.Load() < f.volume {
		topic, partition := f.place(rnd)
		_, n, err := exchange(wire.AppendOffsets(nil, topic, partition, wire.TimeLatest, 100))
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return err
		}
		offsets, err := wire.ParseOffsetList(buf[:n])
		if err != nil {
			return err
		}
		end, first := offsets[0], offsets[len(offsets)-1]
		for offset := first + rnd.Int64N(end-first+1); offset < end; {
			size := 1 + rnd.Int32N(1<<20)
			code, n, err := exchange(wire.AppendFetch(nil, wire.FetchEntry{Topic: topic, Partition: partition, Offset: offset, MaxBytes: size}))
			if err != nil {
				return err
			}
			if code == wire.CodeOffsetOutOfRange {
				break
			}
			if code != 0 {
				return fmt.Errorf("fetch at offset %d: %w", offset, code)
			}
			if _, err := io.CopyBuffer(io.Discard, io.LimitReader(onlyReader{c}, int64(n)), buf); err != nil {
				return err
			}
			offset += int64(n)
			f.out.Add(int64(n))
			if n == 0 || f.out.Load() >= f.volume {
				break
			}
		}
		if end == 0 { // nothing is there yet
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

type onlyReader struct{ io.Reader }

// TestB06ResidentMemory: what hostile clients send, many of them at once, makes a
// broker process grow by less than 16 MiB; and if they all send most of large
// requests and then fall silent, by no more than what requests may have at all.
func TestB06ResidentMemory(t *testing.T) {
	p := torture.Start(t, torture.Build(t), "broker", "--log-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--read-timeout", "1m")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	hold := func(bytes []byte, n int) {
		t.Helper()
		for range n {
			c, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			c.SetDeadline(time.Now().Add(patience))
			c.Write(bytes) // the broker may have closed by the end of it
		}
	}
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	noise[0] |= 0x40
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	barrier := func() {
		t.Helper()
		c.SetDeadline(time.Now().Add(patience))
		c.Write(wire.AppendOffsets(nil, "barrier", 0, wire.TimeLatest, 1))
		if _, err := io.ReadFull(c, make([]byte, 18)); err != nil {
			t.Fatal(err)
		}
	}
	barrier()
	before, _ := resident(t, p.Pid())
	for _, b := range [][]byte{
		unhex("00000000"), unhex("00000001"), unhex("ffffffff"), unhex("7fffffff"), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		unhex("16030100a5010000a10303"), noise, unhex("06400000 0000"), unhex("06400000 0000 0001 61 0000"), unhex("0000"),
	} {
		hold(b, 30)
		barrier()
	}
	_, most := resident(t, p.Pid())
	t.Logf("resident %d bytes before, at most %d", before, most)
	if most-before >= 16<<20 {
		t.Errorf("resident memory grew by %d bytes", most-before)
	}

	// 100 MiB of requests by 100 clients, none of which is finished.
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	request := wire.AppendProduce(nil, "half", 0, make([]byte, 1<<20))
	for range 100 {
		wg.Go(func() {
			c, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
			c.Write(request[:len(request)-1]) // as much as the broker takes
			<-ctx.Done()
		})
	}
	for ctx.Err() == nil { // nothing else to wait for: they must not succeed
		barrier()
		time.Sleep(10 * time.Millisecond)
	}
	wg.Wait()
	if _, most = resident(t, p.Pid()); most > residentLimit {
		t.Errorf("resident memory was %d bytes, at most %d are right", most, residentLimit)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
