package etl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Settings are the same for all splits of a plan. They travel with each split, so
// that tasks need no flags and repeated attempts agree in everything.
type Settings struct {
	By By `json:"by"`
	// ArrivalMs is when the plan was made, milliseconds since 1970 UTC: the arrival
	// of all messages that it is the first to see.
	ArrivalMs int64 `json:"arrival_ms"`
	// MaxLateMs and MaxAheadMs bound how long before, and after, its arrival a message
	// may say that it was made (inclusive).
	MaxLateMs  int64 `json:"max_late_ms"`
	MaxAheadMs int64 `json:"max_ahead_ms"`
	// SchemaRegistry is where the schemas of payloads are, a URL; "": payloads have none.
	SchemaRegistry string `json:"schema_registry,omitempty"`
}

func (s Settings) check() error {
	if err := s.By.check(); err != nil {
		return err
	}
	if s.ArrivalMs < 0 || s.ArrivalMs >= maxArrivalMs || s.MaxLateMs < 0 || s.MaxAheadMs < 0 {
		return fmt.Errorf("arrival %d ms, at most %d ms late and %d ms ahead: these are times from 1970 to 9999", s.ArrivalMs, s.MaxLateMs, s.MaxAheadMs)
	}
	return nil
}

// maxArrivalMs is the beginning of the year 10000: the names of folders have four digits.
const maxArrivalMs = 253402300800000

// Split is the work of one task: a part of a partition's log that begins and ends
// with a message.
type Split struct {
	Plan   string `json:"plan"`
	Number int    `json:"split"` // from 0
	Partition
	Address string `json:"address"` // host:port of the broker
	Start   int64  `json:"start"`
	End     int64  `json:"end"` // exclusive
	Settings
}

func (s Split) String() string {
	return fmt.Sprintf("split %d: %v offsets %d to %d", s.Number, s.Partition, s.Start, s.End)
}

func (s Split) check() error {
	if _, err := planNumber(s.Plan); err != nil {
		return err
	}
	if err := s.Partition.check(); err != nil {
		return err
	}
	if s.Number < 0 || s.Address == "" || s.Start < 0 || s.End <= s.Start {
		return fmt.Errorf("%v at broker %q makes no sense", s, s.Address)
	}
	return s.Settings.check()
}

// Line returns the split as one line, without its end: what a plan hands to a task.
func (s Split) Line() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

// ParseSplit reads what [Split.Line] has written, also behind the key that Hadoop
// Streaming puts before a line of its input: digits and a tab.
func ParseSplit(line string) (Split, error) {
	if key, rest, found := strings.Cut(line, "\t"); found && strings.Trim(key, "0123456789") == "" {
		line = rest
	}
	var s Split
	if err := parseStrictly([]byte(line), &s); err != nil {
		return Split{}, fmt.Errorf("line %.200q is not a split: %w", line, err)
	}
	if err := s.check(); err != nil {
		return Split{}, fmt.Errorf("line %.200q is not a split: %w", line, err)
	}
	return s, nil
}

// parseStrictly reads one JSON value that has the fields of v and no others.
func parseStrictly(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(b[dec.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%.40q follows its end", rest)
	}
	return nil
}

// Plan is what a load is to do.
type Plan struct {
	ID       string   `json:"plan"`
	Splits   []Split  `json:"splits"`
	Gaps     []Gap    `json:"gaps,omitempty"`     // found while planning
	Problems []string `json:"problems,omitempty"` // why partitions are left out, one a line
	// Offsets are those of the output folder once the plan is carried out, of all
	// partitions that were ever loaded.
	Offsets []Offset `json:"offsets"`
}

// Empty reports whether there is nothing to be done.
func (p *Plan) Empty() bool { return len(p.Splits) == 0 && len(p.Gaps) == 0 }

// Bytes returns how many bytes of logs the splits cover.
func (p *Plan) Bytes() int64 {
	var n int64
	for _, s := range p.Splits {
		n += s.End - s.Start
	}
	return n
}

// check checks a plan against the offsets that it says it goes on from: in each
// partition gap and splits follow each other without a hole, from there to the new
// offset.
func (p *Plan) check(base []Offset) error {
	at := map[Partition]int64{}
	for _, o := range base {
		at[o.Partition] = o.Next
	}
	begin := func(q Partition, start, end int64) error {
		if next, known := at[q]; known && next != start {
			return fmt.Errorf("plan %s: %v goes on at offset %d, and is loaded up to %d", p.ID, q, start, next)
		}
		if start < 0 || end <= start {
			return fmt.Errorf("plan %s: %v from offset %d to %d makes no sense", p.ID, q, start, end)
		}
		at[q] = end
		return nil
	}
	for _, g := range p.Gaps {
		if err := errors.Join(g.Partition.check(), begin(g.Partition, g.Start, g.End)); err != nil {
			return err
		}
	}
	for i, s := range p.Splits {
		if s.Plan != p.ID || s.Number != i {
			return fmt.Errorf("plan %s: in the place of split %d is %d of plan %s", p.ID, i, s.Number, s.Plan)
		}
		if err := errors.Join(s.check(), begin(s.Partition, s.Start, s.End)); err != nil {
			return err
		}
	}
	for _, o := range p.Offsets {
		// One that is new may have nothing to load yet.
		if next, known := at[o.Partition]; known && next != o.Next || o.Next < 0 {
			return fmt.Errorf("plan %s: %v would be loaded up to offset %d, and its splits end at %d", p.ID, o.Partition, o.Next, next)
		}
		delete(at, o.Partition)
	}
	for q := range at {
		return fmt.Errorf("plan %s: it has no new offset of %v", p.ID, q)
	}
	return nil
}

// day returns the beginning of a day, UTC, in days since 1970.
func day(ms int64) int64 {
	const msADay = int64(24 * time.Hour / time.Millisecond)
	if ms < 0 {
		return -((-ms + msADay - 1) / msADay)
	}
	return ms / msADay
}
