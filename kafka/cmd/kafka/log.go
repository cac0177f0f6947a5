package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
)

func logCommand() command {
	return command{name: "log", summary: "dump, verify and repair segment files", run: runLog}
}

const logAbout = `PATH is a segment file, a partition's folder, or a whole log folder.

dump    prints every message: offset, offset to go on from behind it, magic,
        codec, CRC, payload. Messages inside a compressed one have no offset of
        their own: all have the compressed one's, and only behind the last one a
        consumer goes on after it. It ends at the first damage in a file.
        PATH may also be a file that holds what was taken out of a log, such as
        SEGMENT.kafka.cut-60: of that it prints every sound message, also those
        behind damage, and the way to have them in the topic again is
        kafka log dump FILE.cut-60 --payload-only | kafka produce …
verify  checks every message, those inside compressed ones too, and that segments
        join; prints what is there, what is damaged and where it goes on behind
        that, and what was taken out of the log and kept beside it. It exits with
        1 when something is wrong
repair  mends a log that no broker has open. What it takes out of the log it
        first copies to a file beside the segment. A bad tail of the last segment
        with no sound message in it is cut off; overlaps are cut; left-overs of
        interrupted writes are removed. The rest is left, and said, unless it is
        asked for:
        --replace-damaged puts fillers in place of damage with sound messages
          behind it. Offsets are positions, so nothing can be taken out of a log:
          consumers pass over fillers and are not told that messages are lost.
          Less than 36 bytes cannot be passed over: consumers get a message of
          zeros there
        --cut cuts the last segment at such damage, and gives up in the log what is
          behind it. So does a start of a broker that checks the segment, which it
          does after a stop that was not clean, or if the file has changed since:
          to keep the messages at their offsets, repair before that start
        --accept-gap puts a segment of fillers in place of missing ones
        It exits with 1 when something is left

dump and verify change nothing, and a broker may be running on the log.`

// logFlags are the flags of log, with the actions that take them.
var logFlags = map[string]string{
	"max-messages": "dump", "from-offset": "dump", "shallow": "dump", "no-payload": "dump", "payload-only": "dump",
	"dry-run": "repair", "replace-damaged": "repair", "cut": "repair", "accept-gap": "repair",
}

func runLog(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka log dump|verify|repair PATH", logAbout,
		`  kafka log verify data
  kafka log dump data/clicks-0/00000000000000000000.kafka --max-messages 10
  kafka log dump data/clicks-0 --from-offset 1048 --json
  kafka log repair data/clicks-0 --dry-run
  kafka log dump data/clicks-0/00000000000000000000.kafka.cut-60 --payload-only | kafka produce --broker-list 127.0.0.1:9092 --topic clicks
`)
	var d dumpOptions
	var walk storage.WalkOptions
	fs.Int64Var(&d.max, "max-messages", 0, "dump: how many messages at most, 0 for all")
	fs.Int64Var(&walk.From, "from-offset", 0, "dump: offset of the message to begin with, in a partition's folder or a segment file")
	fs.BoolVar(&walk.Shallow, "shallow", false, "dump: print compressed messages as they are stored, not those inside")
	fs.BoolVar(&d.noPayload, "no-payload", false, "dump: leave the payloads out")
	fs.BoolVar(&d.payloadOnly, "payload-only", false, "dump: print the payloads as they are, a line for each, and nothing else")
	var r storage.RepairOptions
	fs.BoolVar(&r.DryRun, "dry-run", false, "repair: change nothing, only say what would be done")
	fs.BoolVar(&r.ReplaceDamaged, "replace-damaged", false, "repair: put fillers in place of damaged messages")
	fs.BoolVar(&r.Cut, "cut", false, "repair: cut the last segment at damage, also if sound messages lie behind it")
	fs.BoolVar(&r.AcceptGaps, "accept-gap", false, "repair: put fillers in place of missing segments")
	limit := fs.sizeFlag("max-decompressed-size", message.DefaultMaxDecompressed, "what a compressed message may hold; one with more is not looked into")
	asJSON := fs.Bool("json", false, "print JSON, one object a line")
	fs.oneOf("dump", "verify", "repair")
	if err := fs.parse(args, 2, 2); err != nil {
		return err
	}
	action, path := fs.Arg(0), fs.Arg(1)
	for name, of := range logFlags {
		if fs.Changed(name) && action != of {
			return usagef("--%s is for %s", name, of)
		}
	}
	switch {
	case d.max < 0:
		return usagef("--max-messages %d: 0 or more is wanted", d.max)
	case walk.From < 0:
		return usagef("--from-offset %d: 0 or more is wanted", walk.From)
	case r.Cut && r.ReplaceDamaged:
		return usagef("--cut and --replace-damaged are both given: the one gives up what lies behind damage, the other keeps it")
	case d.payloadOnly && (*asJSON || d.noPayload || walk.Shallow):
		return usagef("--payload-only goes with none of --json, --no-payload and --shallow")
	case *limit < 1 || *limit > 1<<31-1:
		return usagef("--max-decompressed-size %d: 1 byte to 2147483647 are wanted", *limit)
	}
	d.json, r.MaxDecompressedBytes, walk.MaxDecompressedBytes = *asJSON, int(*limit), int(*limit)
	switch action {
	case "dump":
		return dumpLog(ctx, path, std.Out, walk, d)
	case "verify":
		return verifyLog(ctx, path, std.Out, walk, *asJSON)
	}
	return repairLog(ctx, path, std.Out, r, *asJSON)
}

type dumpOptions struct {
	max         int64
	noPayload   bool
	payloadOnly bool
	json        bool
}

// dumpedMessage is a message as dump prints it in JSON.
type dumpedMessage struct {
	Topic        string `json:"topic,omitempty"`
	Partition    int32  `json:"partition"`
	Segment      string `json:"segment"`
	Offset       int64  `json:"offset"`
	NextOffset   int64  `json:"next_offset"`
	Inner        int    `json:"inner,omitempty"`
	InnerOf      int    `json:"inner_of,omitempty"`
	Magic        byte   `json:"magic"`
	Codec        string `json:"codec"`
	CRC          string `json:"crc"`
	PayloadBytes int64  `json:"payload_bytes"`
	Filler       bool   `json:"filler,omitempty"`
	printedPayload
}

func dumpLog(ctx context.Context, path string, out io.Writer, walk storage.WalkOptions, opt dumpOptions) error {
	w := bufio.NewWriter(out)
	segment, n := "", int64(0)
	report, err := storage.Walk(ctx, path, walk, func(e storage.Entry) error {
		if opt.max > 0 && n == opt.max {
			return storage.ErrStopWalk
		}
		n++
		if opt.payloadOnly {
			return dumpPayload(w, e)
		}
		if opt.json {
			return writeJSON(w, dumped(e, opt.noPayload))
		}
		if e.Segment != segment {
			segment = e.Segment
			fmt.Fprintf(w, "segment %s\n", segment)
		}
		return dumpText(w, e, opt.noPayload)
	})
	wrong := report.Err()
	if wrong != nil && walk.From > 0 && n == 0 {
		wrong = fmt.Errorf("no sound message begins at offset %d, give one that dump or verify prints: %w", walk.From, wrong)
	}
	if !opt.json && !opt.payloadOnly {
		dumpDamaged(w, report)
	}
	return errors.Join(w.Flush(), err, wrong)
}

// dumpDamaged says what is damaged in a file that was taken out of a log: the
// messages around it were printed, and it is no failure.
func dumpDamaged(w io.Writer, report storage.Report) {
	for _, p := range report.Partitions {
		for _, s := range p.Segments {
			if s.Kept == "" {
				continue
			}
			for _, d := range s.Damaged {
				fmt.Fprintf(w, "damaged from offset %d to %d (%d bytes): %v\n", d.Offset, d.End, d.Bytes(), d.Err)
			}
			if s.Unlisted > 0 {
				fmt.Fprintf(w, "and %d more damaged ranges\n", s.Unlisted)
			}
		}
	}
}

// dumpPayload prints a payload as kafka consume does. It fails rather than print
// something else than the message.
func dumpPayload(w *bufio.Writer, e storage.Entry) error {
	switch {
	case e.Unopened:
		return fmt.Errorf("the compressed message at offset %d holds too much to be looked into: see --max-decompressed-size, or go on from offset %d", e.Offset, e.NextOffset)
	case e.Codec != message.CodecNone && e.InnerOf == 0:
		return nil // a filler, or what else holds no message
	case int64(len(e.Message.Payload)) < e.PayloadBytes:
		return fmt.Errorf("the message at offset %d has %d bytes, too many to be dumped: go on from offset %d", e.Offset, e.PayloadBytes, e.NextOffset)
	}
	if _, err := w.Write(e.Message.Payload); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

func dumpText(w io.Writer, e storage.Entry, noPayload bool) error {
	fmt.Fprintf(w, "offset %d ", e.Offset)
	if e.Inner > 0 {
		fmt.Fprintf(w, "inner %d of %d ", e.Inner, e.InnerOf)
	}
	fmt.Fprintf(w, "next %d magic %d codec %s crc %08x bytes %d", e.NextOffset, e.Message.Magic, e.Codec, e.Message.CRC, e.PayloadBytes)
	switch {
	case e.Filler:
		fmt.Fprint(w, " filler in place of lost messages")
	case !noPayload:
		fmt.Fprintf(w, " payload %q", e.Message.Payload)
		if cut := e.PayloadBytes - int64(len(e.Message.Payload)); cut > 0 {
			fmt.Fprintf(w, " (and %d bytes)", cut)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

func dumped(e storage.Entry, noPayload bool) dumpedMessage {
	d := dumpedMessage{Topic: e.Topic, Partition: e.Partition, Segment: e.Segment, Offset: e.Offset, NextOffset: e.NextOffset,
		Inner: e.Inner, InnerOf: e.InnerOf, Magic: e.Message.Magic, Codec: e.Codec.String(), CRC: fmt.Sprintf("%08x", e.Message.CRC),
		PayloadBytes: e.PayloadBytes, Filler: e.Filler}
	if !noPayload && !e.Filler {
		d.printedPayload = printPayload(e.Message.Payload)
	}
	return d
}
