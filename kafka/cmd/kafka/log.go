package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"kafkalab/kafka/storage"
)

func logCommand() command {
	return command{name: "log", summary: "dump and verify segment files, offline or beside a running broker", run: runLog}
}

func runLog(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka log dump|verify PATH",
		`PATH is a segment file, a partition's folder, or a whole log folder. Nothing is
changed, and a broker may be running on it.

dump    prints every message: offset, offset behind it, magic, codec, CRC, payload
verify  checks every message's CRC and that segments join, and prints what is
        there, what is damaged, and what a recovery once cut off and kept beside
        the log; it exits with 1 when something is damaged`,
		`  kafka log verify data
  kafka log dump data/clicks-0/00000000000000000000.kafka --max-messages 10
`)
	max := fs.Int64("max-messages", 0, "dump: how many messages at most, 0 for all")
	noPayload := fs.Bool("no-payload", false, "dump: leave the payloads out")
	asJSON := fs.Bool("json", false, "print JSON, one object a line")
	if err := fs.parse(args, 2, 2); err != nil {
		return err
	}
	if *max < 0 {
		return usagef("--max-messages %d: 0 or more is wanted", *max)
	}
	switch fs.Arg(0) {
	case "dump":
		return dumpLog(ctx, fs.Arg(1), std.Out, dumpOptions{*max, *noPayload, *asJSON})
	case "verify":
		return verifyLog(ctx, fs.Arg(1), std.Out, *asJSON)
	}
	return usagef("%q is neither dump nor verify", fs.Arg(0))
}

type dumpOptions struct {
	max       int64
	noPayload bool
	json      bool
}

// dumpedMessage is a message as dump prints it in JSON.
type dumpedMessage struct {
	Topic        string `json:"topic,omitempty"`
	Partition    int32  `json:"partition"`
	Segment      string `json:"segment"`
	Offset       int64  `json:"offset"`
	NextOffset   int64  `json:"next_offset"`
	Magic        byte   `json:"magic"`
	Codec        string `json:"codec"`
	CRC          string `json:"crc"`
	PayloadBytes int64  `json:"payload_bytes"`
	printedPayload
}

func dumpLog(ctx context.Context, path string, out io.Writer, opt dumpOptions) error {
	w := bufio.NewWriter(out)
	segment, n := "", int64(0)
	report, err := storage.Walk(ctx, path, storage.WalkOptions{}, func(e storage.Entry) error {
		if opt.max > 0 && n == opt.max {
			return storage.ErrStopWalk
		}
		n++
		if opt.json {
			return writeJSON(w, dumped(e, opt.noPayload))
		}
		if e.Segment != segment {
			segment = e.Segment
			fmt.Fprintf(w, "segment %s\n", segment)
		}
		fmt.Fprintf(w, "offset %d next %d magic %d codec %s crc %08x bytes %d", e.Offset, e.NextOffset,
			e.Message.Magic, e.Message.Codec(), e.Message.CRC, e.PayloadBytes)
		if !opt.noPayload {
			fmt.Fprintf(w, " payload %q", e.Message.Payload)
			if cut := e.PayloadBytes - int64(len(e.Message.Payload)); cut > 0 {
				fmt.Fprintf(w, " (and %d bytes)", cut)
			}
		}
		_, err := fmt.Fprintln(w)
		return err
	})
	return errors.Join(w.Flush(), err, report.Err())
}

func dumped(e storage.Entry, noPayload bool) dumpedMessage {
	d := dumpedMessage{Topic: e.Topic, Partition: e.Partition, Segment: e.Segment, Offset: e.Offset, NextOffset: e.NextOffset,
		Magic: e.Message.Magic, Codec: e.Message.Codec().String(), CRC: fmt.Sprintf("%08x", e.Message.CRC), PayloadBytes: e.PayloadBytes}
	if !noPayload {
		d.printedPayload = printPayload(e.Message.Payload)
	}
	return d
}

// verifiedSegment is a segment as verify prints it in JSON.
type verifiedSegment struct {
	Topic      string `json:"topic,omitempty"`
	Partition  int32  `json:"partition"`
	Path       string `json:"path"`
	BaseOffset int64  `json:"base_offset"`
	Bytes      int64  `json:"bytes"`
	ValidBytes int64  `json:"valid_bytes"`
	Messages   int64  `json:"messages"`
	Damage     string `json:"damage,omitempty"`
}

func verifyLog(ctx context.Context, path string, out io.Writer, asJSON bool) error {
	report, err := storage.Verify(ctx, path, storage.WalkOptions{})
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

func verifiedJSON(w io.Writer, r storage.Report) error {
	for _, p := range r.Partitions {
		for _, s := range p.Segments {
			v := verifiedSegment{p.Topic, p.Partition, s.Path, s.BaseOffset, s.Size, s.ValidBytes, s.Messages, ""}
			if s.Damage != nil {
				v.Damage = s.Damage.Error()
			}
			if err := writeJSON(w, v); err != nil {
				return err
			}
		}
		for _, c := range p.Cuts {
			if err := writeJSON(w, struct {
				Cut   string `json:"cut_off_by_recovery"`
				Bytes int64  `json:"bytes"`
			}{c.Path, c.Bytes}); err != nil {
				return err
			}
		}
	}
	return nil
}

func verifiedText(w io.Writer, r storage.Report) error {
	var messages, bytes int64
	segments := 0
	for _, p := range r.Partitions {
		name := p.Path
		if p.Topic != "" {
			name = fmt.Sprintf("%s-%d", p.Topic, p.Partition)
		}
		for _, s := range p.Segments {
			verdict := "good"
			if s.Damage != nil {
				verdict = "DAMAGED: " + s.Damage.Error()
			}
			fmt.Fprintf(w, "%s: segment %020d, %d messages, %d of %d bytes, %s\n", name, s.BaseOffset, s.Messages, s.ValidBytes, s.Size, verdict)
			messages, bytes, segments = messages+s.Messages, bytes+s.ValidBytes, segments+1
		}
		for _, c := range p.Cuts {
			fmt.Fprintf(w, "%s: %d bytes were cut off by an earlier recovery and are kept in %s\n", name, c.Bytes, c.Path)
		}
	}
	if r.Running {
		fmt.Fprintf(w, "a broker is running on it: what it was just writing is not counted\n")
	}
	_, err := fmt.Fprintf(w, "%d messages, %d bytes, %d segments, %d partitions\n", messages, bytes, segments, len(r.Partitions))
	return err
}
