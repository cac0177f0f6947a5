package etl

import (
	"context"
	"fmt"
	"slices"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
)

// maxSegments bounds how many beginnings of segments are asked for: a partition hardly
// has as many. Of more, the newest count, and older ones are found by reading.
const maxSegments = 100_000

// cut returns the ends of the splits of a partition from start to its watermark, none
// if there is nothing, and fewer if the plan is full. Each is the offset of a message, or
// the watermark.
//
// Offsets are places in the log, and a message can only be read from its beginning.
// Where segments begin the broker tells for nothing; within a segment only reading it
// tells, so that is done where a split would be too large otherwise.
func (p *planner) cut(ctx context.Context, conn *client.Conn, h held, start int64) (ends []int64, err error) {
	if h.watermark == start {
		return nil, nil
	}
	var begins []int64
	if h.watermark-start > p.cfg.SplitBytes {
		newestFirst, err := conn.Offsets(ctx, h.Topic, h.Number, consumer.Latest, maxSegments)
		if err != nil {
			return nil, err
		}
		for _, o := range newestFirst {
			if o > start && o < h.watermark {
				begins = append(begins, o)
			}
		}
		slices.Sort(begins)
	}
	begins = append(begins, h.watermark)
	w := walker{cfg: consumer.PartitionConfig{
		Broker: conn.Addr(), Topic: h.Topic, Partition: h.Number, Reset: consumer.ResetFail, Shallow: true,
		FetchBytes: fetchBytes, MaxFetchBytes: maxFetchBytes, DialTimeout: p.cfg.Client.DialTimeout, RequestTimeout: p.cfg.Client.RequestTimeout,
	}}
	defer w.close()
	for start < h.watermark && len(p.plan.Splits)+len(ends) < p.maxSplits {
		limit := start + p.cfg.SplitBytes
		end := int64(-1)
		for len(begins) > 0 && begins[0] <= limit {
			end, begins = begins[0], begins[1:]
		}
		if end < 0 {
			if end, err = w.walk(ctx, start, limit, begins[0]); err != nil {
				return nil, fmt.Errorf("look for a message to begin a split with, from offset %d: %w", start, err)
			}
			if end == begins[0] {
				begins = begins[1:]
			}
		}
		ends = append(ends, end)
		start = end
	}
	return ends, nil
}

// walker reads a partition to find where its messages begin.
type walker struct {
	cfg    consumer.PartitionConfig
	stream *consumer.Stream // nil until it is needed
	at     int64            // where the next chunk begins
	// begins are the offsets of messages that were read and are not below a limit yet,
	// growing.
	begins []int64
}

// walk returns the last offset at which a message begins, from behind start up to
// limit (inclusive), or the first one beyond; stop at most, where one is known to
// begin or the log to end.
func (w *walker) walk(ctx context.Context, start, limit, stop int64) (int64, error) {
	end := int64(-1)
	for {
		for len(w.begins) > 0 {
			b := w.begins[0]
			switch {
			case b <= start:
			case end >= 0 && b > limit:
				return end, nil
			case b > limit:
				w.begins = w.begins[1:]
				return min(b, stop), nil
			default:
				end = b
			}
			w.begins = w.begins[1:]
		}
		if err := w.read(ctx, start, stop); err != nil {
			return 0, err
		}
	}
}

// read reads one chunk and remembers where its messages end, and the next ones begin.
func (w *walker) read(ctx context.Context, start, stop int64) error {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	var err error
	switch {
	case w.stream == nil:
		w.cfg.Start = start
		w.stream, err = consumer.OpenPartition(ctx, w.cfg)
		w.at = start
	case w.at < start: // the segments between were passed over
		err = w.stream.SeekTo(start)
		w.at = start
	}
	if err != nil {
		return err
	}
	if w.at >= stop {
		return fmt.Errorf("the messages up to offset %d end at %d", stop, w.at)
	}
	chunk, err := w.stream.NextChunk(ctx)
	if err != nil {
		return err
	}
	for chunk.Next() {
		w.begins = append(w.begins, chunk.NextOffset())
	}
	w.at = chunk.NextOffset()
	return chunk.Err()
}

func (w *walker) close() {
	if w.stream != nil {
		_ = w.stream.Close() // what it was for is done
	}
}
