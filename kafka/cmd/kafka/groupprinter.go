package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/registry"
)

// maxPrintBuffer is how much a stream gathers before it writes, in bytes; one
// message may exceed it.
const maxPrintBuffer = 64 << 10

// groupPrinter prints the messages of several streams at once.
type groupPrinter struct {
	json bool
	avro *avroReader // nil: payloads are printed as they are
	max  int64       // messages of all streams, 0: no limit
	end  *groupEnd   // nil: there is none
	stop context.CancelFunc
	// seek moves a partition's position to behind what was printed of a chunk.
	seek func(topic string, p registry.Partition, offset int64) error
	note func(error) // of what the streams go on after

	mu      sync.Mutex // of what follows: a stream writes whole lines while it holds it
	out     io.Writer
	printed int64 // messages
	done    bool  // nothing more is to be printed
}

// pieces are lines of one stream that were not written yet.
type pieces struct {
	text []byte
	ends []lineEnd
}

// lineEnd is where a line ends in the text, and where its partition goes on.
type lineEnd struct {
	text int
	next int64
}

// printAll prints what all streams give, until each has ended, and runs beside until
// then.
func (p *groupPrinter) printAll(ctx context.Context, g *consumer.Group, streams []*consumer.GroupStream, beside ...func(context.Context)) error {
	stream, stop := context.WithCancel(ctx)
	defer stop()
	p.stop = stop
	each, eachCtx := errgroup.WithContext(stream)
	for _, s := range streams {
		each.Go(func() error { return p.print(eachCtx, s) })
	}
	if p.end != nil {
		each.Go(func() error { return p.end.watch(eachCtx, g.Commit, p.finish) })
	}
	for _, f := range beside {
		each.Go(func() error {
			f(eachCtx)
			return nil
		})
	}
	err := each.Wait()
	if errors.Is(err, context.Canceled) || unread(err) {
		err = nil // an interrupt, the end that was wanted, or a reader that has enough
	}
	return err
}

// finish lets all streams end: nothing more is printed from its return on.
func (p *groupPrinter) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.stop()
}

// print prints what one stream gives. What was printed of a chunk is written out
// before the stream is asked for more, and so before its offset may be committed.
func (p *groupPrinter) print(ctx context.Context, s *consumer.GroupStream) error {
	var lines pieces
	for {
		chunk, err := s.NextChunk(ctx)
		var of *consumer.PartitionError
		switch {
		case errors.As(err, &of) && of.Temporary:
			p.note(err)
			continue
		case of != nil:
			return fmt.Errorf("%w (\"kafka groups reset\" moves the group to where it can go on)", err)
		case err != nil:
			return err
		}
		next, whole, err := p.chunk(&lines, &chunk)
		if err != nil {
			return err
		}
		if !whole {
			return leaveRest(p.seek, s, &chunk, next, p.note)
		}
	}
}

// leaveRest ends the reading of a stream in the middle of a chunk: the rest, from
// next on, stays to be consumed by whoever comes then.
func leaveRest(seek func(string, registry.Partition, int64) error, s *consumer.GroupStream, c *consumer.Chunk, next int64, note func(error)) error {
	err := seek(c.Topic, chunkPartition(c).Partition, next)
	if errors.Is(err, registry.ErrNotOwner) { // then the next owner gets all of the chunk
		note(err)
		return nil
	}
	s.Done()
	return err
}

// chunkPartition returns the partition that a chunk is of.
func chunkPartition(c *consumer.Chunk) partitionID {
	return partitionID{c.Topic, registry.Partition{Broker: c.Broker, Partition: c.Partition}}
}

// chunk prints the messages of a chunk. It returns where the partition goes on,
// and whether all of the chunk was printed. Damage is left for the stream to
// report.
func (p *groupPrinter) chunk(lines *pieces, c *consumer.Chunk) (next int64, whole bool, err error) {
	next = -1
	for more := true; more; {
		lines.text, lines.ends = lines.text[:0], lines.ends[:0]
		for len(lines.text) < maxPrintBuffer {
			if more = c.Next(); !more {
				break
			}
			if next < 0 {
				next = c.Offset() // nothing is printed yet
			}
			if err := p.line(lines, c); err != nil {
				return next, false, err
			}
		}
		var printed int
		if printed, err = p.write(lines, chunkPartition(c)); printed > 0 {
			next = lines.ends[printed-1].next
		}
		if err != nil || printed < len(lines.ends) {
			return next, false, err
		}
	}
	return next, true, nil
}

// write writes lines out, as many as are wanted, and returns how many those were.
func (p *groupPrinter) write(lines *pieces, id partitionID) (printed int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return 0, nil
	}
	n := len(lines.ends)
	if p.max > 0 && p.printed+int64(n) >= p.max {
		n, p.done = int(p.max-p.printed), true
	}
	if p.end != nil {
		if k, all := p.end.reach(id, lines.ends[:n]); all {
			n, p.done = k, true
		}
	}
	if p.done {
		p.stop()
	}
	if n == 0 {
		return 0, nil
	}
	if _, err := p.out.Write(lines.text[:lines.ends[n-1].text]); err != nil {
		return 0, err
	}
	p.printed += int64(n)
	return n, nil
}

// printedGroupMessage is a message of a group in JSON.
type printedGroupMessage struct {
	Topic  string `json:"topic"`
	Broker int32  `json:"broker_id"`
	printedMessage
}

// line appends the current message of a chunk.
func (p *groupPrinter) line(to *pieces, c *consumer.Chunk) error {
	payload := c.Message().Payload
	if p.avro != nil {
		return p.avroLine(to, c)
	}
	if p.json {
		text, err := json.Marshal(printedGroupMessage{c.Topic, c.Broker, printedMessage{c.Partition, c.Offset(), c.NextOffset(), printPayload(payload)}})
		if err != nil {
			return err
		}
		payload = text
	}
	to.text = append(append(to.text, payload...), '\n')
	to.ends = append(to.ends, lineEnd{len(to.text), c.NextOffset()})
	return nil
}

// avroLine appends the current message of a chunk, which is Avro. One that cannot be
// read is an empty piece of text, so that its offset counts.
func (p *groupPrinter) avroLine(to *pieces, c *consumer.Chunk) error {
	value, id, err := p.avro.value(c.Message().Payload, func() string {
		return fmt.Sprintf("%v at offset %d", chunkPartition(c), c.Offset())
	})
	if err != nil {
		return err
	}
	text := []byte(value)
	if value != nil && p.json {
		where := printedMessage{Partition: c.Partition, Offset: c.Offset(), NextOffset: c.NextOffset()}
		text, err = json.Marshal(printedGroupAvro{c.Topic, c.Broker, printedAvro{where, id, value}})
		if err != nil {
			return err
		}
	}
	if value != nil {
		to.text = append(append(to.text, text...), '\n')
	}
	to.ends = append(to.ends, lineEnd{len(to.text), c.NextOffset()})
	return nil
}
