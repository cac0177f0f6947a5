package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
)

// printer prints messages.
type printer struct {
	out       *bufio.Writer
	json      bool
	avro      *avroReader // nil: payloads are printed as they are
	topic     string
	partition int32
	max       int64 // messages, 0: no limit
	end       int64 // offset at which to end, -1: nowhere
	logEnd    func() (int64, error)
	endCheck  time.Duration // how often logEnd is asked while the end does not come
	printed   int64
}

// print prints the messages of s. What was printed is written out before the
// stream is asked for more, and so before the messages count as consumed.
func (p *printer) print(ctx context.Context, s *consumer.Stream) error {
	for p.end < 0 || s.ConsumedOffset() < p.end {
		chunk, err := p.next(ctx, s)
		if err != nil {
			return err
		}
		more, err := p.chunk(chunk)
		flushErr := p.out.Flush()
		if err == nil {
			err = flushErr // else they are the same, or the damage matters more
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// endCheckInterval is how long the end may keep one waiting before the broker
// is asked whether there still is one.
const endCheckInterval = 5 * time.Second

// next waits for more. Up to an end it does not wait for ever: the end does not
// come when the topic is deleted meanwhile.
func (p *printer) next(ctx context.Context, s *consumer.Stream) (message.Iterator, error) {
	if p.end < 0 {
		return s.NextChunk(ctx)
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, p.endCheck)
		chunk, err := s.NextChunk(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return chunk, err
		}
		end, err := p.logEnd()
		if err != nil {
			return chunk, err
		}
		if end < p.end {
			return chunk, fmt.Errorf("the log ended at offset %d at the start and ends at %d now: its topic was deleted, and perhaps made anew", p.end, end)
		}
	}
}

// chunk prints the messages of a chunk and says whether to go on. Damage at its
// end is left for the stream to report, which knows the partition.
func (p *printer) chunk(it message.Iterator) (bool, error) {
	for it.Next() {
		if p.end >= 0 && it.Offset() >= p.end {
			return false, nil
		}
		if err := p.message(&it); err != nil {
			return false, err
		}
		p.printed++
		if p.printed == p.max || p.end >= 0 && it.NextOffset() >= p.end {
			return false, nil
		}
	}
	// Compressed messages that hold none may be what the log ends with.
	return p.end < 0 || it.NextOffset() < p.end, nil
}

// printedMessage is a message in JSON.
type printedMessage struct {
	Partition  int32 `json:"partition"`
	Offset     int64 `json:"offset"`
	NextOffset int64 `json:"next_offset"`
	printedPayload
}

func (p *printer) message(it *message.Iterator) error {
	payload := it.Message().Payload
	if p.avro != nil {
		return p.avroMessage(it)
	}
	if !p.json {
		if _, err := p.out.Write(payload); err != nil {
			return err
		}
		return p.out.WriteByte('\n')
	}
	return writeJSON(p.out, printedMessage{p.partition, it.Offset(), it.NextOffset(), printPayload(payload)})
}

// avroMessage prints a message that is Avro.
func (p *printer) avroMessage(it *message.Iterator) error {
	value, id, err := p.avro.value(it.Message().Payload, func() string {
		return fmt.Sprintf("%s-%d at offset %d", p.topic, p.partition, it.Offset())
	})
	if err != nil || value == nil {
		return err
	}
	if p.json {
		where := printedMessage{Partition: p.partition, Offset: it.Offset(), NextOffset: it.NextOffset()}
		return writeJSON(p.out, printedAvro{where, id, value})
	}
	_, err = p.out.Write(append(value, '\n'))
	return err
}

// printedPayload is a payload in JSON.
type printedPayload struct {
	Payload *string `json:"payload,omitempty"`
	// PayloadBase64 stands in for Payload where that is not UTF-8.
	PayloadBase64 []byte `json:"payload_base64,omitempty"`
}

func printPayload(b []byte) printedPayload {
	if !utf8.Valid(b) {
		return printedPayload{PayloadBase64: b}
	}
	s := string(b)
	return printedPayload{Payload: &s}
}
