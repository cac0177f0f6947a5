package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"kafkalab/kafka/storage"
)

func verifyLog(ctx context.Context, path string, out io.Writer, walk storage.WalkOptions, asJSON bool) error {
	report, err := storage.Verify(ctx, path, walk)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	if asJSON {
		err = verifiedJSON(w, report)
	} else {
		err = verifiedText(w, report)
	}
	return errors.Join(err, w.Flush(), report.Err())
}

// verified is what verify prints in JSON, one object a line: first a partition,
// then what is in it. kind says which fields are there.
type verified struct {
	Kind      string `json:"kind"` // partition, segment, gap or kept
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Path      string `json:"path"`
	Error     string `json:"error,omitempty"`

	*verifiedPartition
	*verifiedSegment
	*verifiedGap
	*verifiedKept
}

type verifiedPartition struct {
	BrokerRunning bool  `json:"broker_running"`
	Flushed       int64 `json:"flushed_at_least"`
	CleanStop     bool  `json:"clean_stop"`
	Unsynced      bool  `json:"unsynced,omitempty"` // a sync has failed
}

type verifiedSegment struct {
	BaseOffset int64           `json:"base_offset"`
	Bytes      int64           `json:"bytes"`
	ValidBytes int64           `json:"valid_bytes"`
	Entries    int64           `json:"entries"`
	Messages   int64           `json:"messages"`
	Fillers    int64           `json:"fillers"`
	Unopened   int64           `json:"unopened"`
	Damaged    []verifiedRange `json:"damaged,omitempty"`
	Unlisted   int64           `json:"damaged_ranges_not_listed,omitempty"`
	Behind     int64           `json:"sound_entries_behind_damage"`
}

type verifiedRange struct {
	Offset int64  `json:"offset"`
	End    int64  `json:"end"`
	Inside bool   `json:"inside_compressed,omitempty"`
	Error  string `json:"error"`
}

type verifiedGap struct {
	End  int64 `json:"segment_end"`
	Next int64 `json:"next_base_offset"`
}

type verifiedKept struct {
	Why      storage.CutKind `json:"why"`
	Offset   int64           `json:"offset"`
	Bytes    int64           `json:"kept_bytes"`
	Messages int64           `json:"kept_messages"`
}

func verifiedJSON(w io.Writer, r storage.Report) error {
	for _, p := range r.Partitions {
		put := func(v verified) error {
			v.Topic, v.Partition = p.Topic, p.Partition
			return writeJSON(w, v)
		}
		v := verified{Kind: "partition", Path: p.Path, verifiedPartition: &verifiedPartition{r.Running, p.Flushed, p.CleanStop, p.Unsynced}}
		if p.Err != nil {
			v.Error = p.Err.Error()
		}
		if err := put(v); err != nil {
			return err
		}
		for _, s := range p.Segments {
			if err := put(segmentJSON(s)); err != nil {
				return err
			}
		}
		for _, g := range p.Gaps {
			if err := put(verified{Kind: "gap", Path: g.After, Error: g.Error(), verifiedGap: &verifiedGap{g.End, g.Next}}); err != nil {
				return err
			}
		}
		for _, c := range p.Cuts {
			if err := put(verified{Kind: "kept", Path: c.Path, verifiedKept: &verifiedKept{c.Kind, c.Offset, c.Bytes, c.Messages}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func segmentJSON(s storage.SegmentReport) verified {
	v := verified{Kind: "segment", Path: s.Path, verifiedSegment: &verifiedSegment{
		BaseOffset: s.BaseOffset, Bytes: s.Size, ValidBytes: s.ValidBytes, Entries: s.Entries, Messages: s.Messages,
		Fillers: s.Fillers, Unopened: s.Unopened, Unlisted: s.Unlisted, Behind: s.Behind,
	}}
	if s.Damage != nil {
		v.Error = s.Damage.Error()
	}
	for _, d := range s.Damaged {
		v.Damaged = append(v.Damaged, verifiedRange{d.Offset, d.End, d.Inside, d.Err.Error()})
	}
	return v
}

// whyNothingIsGone is what an operator wants to know of what recovery cut off.
const whyNothingIsGone = `What was cut off was never promised: recovery cuts the last segment alone, from
the first bad message on. What had been flushed was whole on the disk, so unless
the disk has lost it since, only what had not been flushed was bad or behind it.
None of that was acknowledged as flushed, nor had a consumer seen it, unless the
broker ran with --visible appended.
`

// whatMayBeGone is that when sound messages were cut off with what was bad.
const whatMayBeGone = `Sound messages were cut off too, as they lay behind bad ones. The crash of a machine
leaves that of messages that had not been flushed. A disk that has lost something
leaves it of any, and then messages that were acknowledged, or seen by consumers,
are in what was cut off.
`

func verifiedText(w io.Writer, r storage.Report) error {
	var messages, bytes int64
	segments, partitions, cut, soundCut := 0, 0, false, false
	for _, p := range r.Partitions {
		name := logName(p.Topic, p.Partition, p.Path)
		if p.Topic != "" || len(p.Segments) > 0 { // else it is a folder that has no business there
			partitions++
		}
		for i, s := range p.Segments {
			fmt.Fprintf(w, "%s: segment %020d, %s, %d of %d bytes, %s\n", name, s.BaseOffset, contents(s), s.ValidBytes, s.Size, verdict(s))
			for _, d := range s.Damaged {
				fmt.Fprintf(w, "%s: %s\n", name, damageText(d, s))
			}
			if s.Unlisted > 0 {
				fmt.Fprintf(w, "%s: and %d more damaged ranges\n", name, s.Unlisted)
			}
			if s.Damage != nil {
				fmt.Fprintf(w, "%s: %s\n", name, promiseText(p, s, i == len(p.Segments)-1, r.Running))
			}
			messages, bytes, segments = messages+s.Messages, bytes+s.ValidBytes, segments+1
		}
		for _, g := range p.Gaps {
			fmt.Fprintf(w, "%s: GAP: %v\n", name, g)
		}
		if p.Unsynced {
			fmt.Fprintf(w, "%s: a sync of it has failed: the next start of a broker writes its last segment anew\n", name)
		}
		for _, c := range p.Cuts {
			fmt.Fprintf(w, "%s: %s\n", name, keptText(c))
		}
		if end, less := shorter(p, r.Running); less {
			fmt.Fprintf(w, "%s: a clean stop left the log at offset %d, and it ends at offset %d now: what was flushed and is missing is in what was cut off, or gone\n", name, p.Flushed, end)
		} else {
			for _, c := range p.Cuts {
				cut = cut || c.Kind == storage.CutTail
				soundCut = soundCut || c.Kind == storage.CutTail && c.Messages > 0
			}
		}
	}
	switch {
	case soundCut:
		fmt.Fprint(w, whatMayBeGone)
	case cut:
		fmt.Fprint(w, whyNothingIsGone)
	}
	if r.Running {
		fmt.Fprintf(w, "a broker is running on it: what it was just writing is not counted\n")
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s, %s\n", count(messages, "message"), count(bytes, "byte"), count(segments, "segment"), count(partitions, "partition"))
	return err
}

// shorter reports whether a log ends before the end that a clean stop has left it
// with, and where.
func shorter(p storage.PartitionReport, running bool) (end int64, less bool) {
	if n := len(p.Segments); n > 0 {
		end = p.Segments[n-1].BaseOffset + p.Segments[n-1].Size
	}
	return end, p.CleanStop && !running && end < p.Flushed
}

// logName names a log as its folder is named.
func logName(topic string, partition int32, path string) string {
	if topic == "" {
		return path
	}
	return fmt.Sprintf("%s-%d", topic, partition)
}

func contents(s storage.SegmentReport) string {
	text := count(s.Messages, "message")
	if s.Entries != s.Messages {
		text += fmt.Sprintf(" in %d entries", s.Entries)
	}
	if s.Fillers > 0 {
		text += fmt.Sprintf(", %d bytes of fillers in place of lost ones", s.FillerBytes)
	}
	if s.Unopened > 0 {
		text += fmt.Sprintf(", %d compressed ones not looked into: they hold too much, see --max-decompressed-size", s.Unopened)
	}
	return text
}

func verdict(s storage.SegmentReport) string {
	if s.Damage == nil {
		return "good"
	}
	return fmt.Sprintf("DAMAGED: %v", s.Damage)
}

func damageText(d storage.DamagedRange, s storage.SegmentReport) string {
	text := fmt.Sprintf("  damaged from offset %d to %d (%d bytes)", d.Offset, d.End, d.Bytes())
	end := s.BaseOffset + s.Size
	switch {
	case d.Inside:
		text += ", a compressed message that is sound as it is stored, and not inside"
	case d.Unsure:
		text += ", the end of the file; there may be sound messages in between, the search took too long"
	case d.End == end:
		text += ", the end of the file"
	}
	if d.End < end {
		text += fmt.Sprintf("; the next sound message is at offset %d: dump --from-offset shows what is behind", d.End)
	}
	return text
}

// promiseText says whether damage may hit what was promised.
func promiseText(p storage.PartitionReport, s storage.SegmentReport, last, running bool) string {
	switch {
	case !last:
		return "  the segment was flushed whole when it was full: messages that were acknowledged, or seen by consumers, are damaged. Put back a copy, or see kafka log repair --replace-damaged"
	case running:
		return "  consumers stop there; it is in the segment that a running broker writes to"
	case s.Damage.Offset < p.Flushed:
		text := fmt.Sprintf("  all up to offset %d was flushed, by a clean stop: messages that were acknowledged, or seen by consumers, are damaged. "+
			"A start that finds the file changed since then cuts it there and keeps a copy", p.Flushed)
		if s.BehindMessages > 0 {
			text += fmt.Sprintf("; kafka log repair --replace-damaged, before that, keeps the sound messages behind it: %d", s.BehindMessages)
		}
		return text
	case s.BehindMessages > 0:
		return fmt.Sprintf("  all up to offset %d is known to have been flushed, and this lies above it, with %d sound messages behind it. The crash of a machine leaves that of messages that were not flushed, "+
			"and a bad disk of any. The next start of a broker cuts it off with all that is behind it, and keeps a copy; kafka log repair --replace-damaged, before that, keeps what is sound", p.Flushed, s.BehindMessages)
	}
	return fmt.Sprintf("  all up to offset %d is known to have been flushed, and this lies above it. It is what a crash leaves of messages that were not flushed: "+
		"the next start of a broker, or kafka log repair, cuts it off and keeps a copy", p.Flushed)
}

func keptText(c storage.CutFile) string {
	switch c.Kind {
	case storage.CutReplaced:
		return fmt.Sprintf("%d bytes at offset %d were replaced by fillers when somebody asked for it, and are kept in %s; %d sound messages are in them", c.Bytes, c.Offset, c.Path, c.Messages)
	case storage.CutStale:
		return fmt.Sprintf("%s with %d bytes was in the way and is not part of the log; %d sound messages are in it", c.Path, c.Bytes, c.Messages)
	}
	text := fmt.Sprintf("%d bytes were cut off at offset %d by a recovery or repair and are kept in %s; %d sound messages are in them", c.Bytes, c.Offset, c.Path, c.Messages)
	if c.Messages > 0 {
		text += ": kafka log dump --payload-only prints them for kafka produce"
	}
	return text
}
