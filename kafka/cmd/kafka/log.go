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
        consumer goes on after it. It ends at the first damage in a file
verify  checks every message, those inside compressed ones too, and that segments
        join; prints what is there, what is damaged and where it goes on behind
        that, and what was taken out of the log and kept beside it. It exits with
        1 when something is wrong
repair  mends a log that no broker has open. What it takes out of the log it
        first copies to a file beside the segment. A bad tail of the last segment
        is cut off, as the next start of a broker would do; overlaps are cut;
        left-overs of interrupted writes are removed. The rest is left, and said,
        unless it is asked for:
        --replace-damaged puts fillers in place of damage with sound messages
          behind it. Offsets are positions, so nothing can be taken out of a log:
          consumers pass over fillers and are not told that messages are lost.
          Less than 36 bytes cannot be passed over: consumers get a message of
          zeros there
        --accept-gap puts a segment of fillers in place of missing ones
        It exits with 1 when something is left

dump and verify change nothing, and a broker may be running on the log.`

// logFlags are the flags of log, with the actions that take them.
var logFlags = map[string]string{
	"max-messages": "dump", "from-offset": "dump", "shallow": "dump", "no-payload": "dump",
	"dry-run": "repair", "replace-damaged": "repair", "accept-gap": "repair",
}

func runLog(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka log dump|verify|repair PATH", logAbout,
		`  kafka log verify data
  kafka log dump data/clicks-0/00000000000000000000.kafka --max-messages 10
  kafka log dump data/clicks-0 --from-offset 1048 --json
  kafka log repair data/clicks-0 --dry-run
`)
	var d dumpOptions
	var walk storage.WalkOptions
	fs.Int64Var(&d.max, "max-messages", 0, "dump: how many messages at most, 0 for all")
	fs.Int64Var(&walk.From, "from-offset", 0, "dump: offset of the message to begin with, in a partition's folder or a segment file")
	fs.BoolVar(&walk.Shallow, "shallow", false, "dump: print compressed messages as they are stored, not those inside")
	fs.BoolVar(&d.noPayload, "no-payload", false, "dump: leave the payloads out")
	var r storage.RepairOptions
	fs.BoolVar(&r.DryRun, "dry-run", false, "repair: change nothing, only say what would be done")
	fs.BoolVar(&r.ReplaceDamaged, "replace-damaged", false, "repair: put fillers in place of damaged messages")
	fs.BoolVar(&r.AcceptGaps, "accept-gap", false, "repair: put fillers in place of missing segments")
	limit := fs.sizeFlag("max-decompressed-size", message.DefaultMaxDecompressed, "what a compressed message may hold; one with more is not looked into")
	asJSON := fs.Bool("json", false, "print JSON, one object a line")
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
	case *limit < 1 || *limit > 1<<31-1:
		return usagef("--max-decompressed-size %d: 1 byte to 2147483647 are wanted", *limit)
	}
	d.json, r.MaxDecompressedBytes, walk.MaxDecompressedBytes = *asJSON, int(*limit), int(*limit)
	switch action {
	case "dump":
		return dumpLog(ctx, path, std.Out, walk, d)
	case "verify":
		return verifyLog(ctx, path, std.Out, walk, *asJSON)
	case "repair":
		return repairLog(ctx, path, std.Out, r, *asJSON)
	}
	return usagef("%q is none of dump, verify, repair", action)
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
	return errors.Join(w.Flush(), err, wrong)
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
