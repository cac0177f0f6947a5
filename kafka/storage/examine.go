package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"kafkalab/kafka/message"
)

// SegmentReport is what a walk found in one segment file, or in one that holds
// what was taken out of a segment. Of a [Walk] with a visit it ends at the first
// damage in a segment; [Verify], and a walk over what was taken out, read every
// file to its end.
type SegmentReport struct {
	Path       string
	BaseOffset int64
	Size       int64 // of the file in bytes, when the walk came to it
	// Entries counts the sound entries up to the first damage, and Messages the
	// messages in them: a compressed entry holds several.
	Entries, Messages int64
	ValidBytes        int64 // up to the end of the last sound entry before any damage
	// Damage says where and why consumers do not get on in this file, nil if they
	// do (see [Report.Running]).
	Damage *message.CorruptError
	// Damaged lists the damaged ranges, at most [MaxReportedDamage] of them, and
	// Unlisted counts the others.
	Damaged  []DamagedRange
	Unlisted int64
	// Behind counts the sound entries behind the first damage, and BehindMessages
	// the messages in them.
	Behind, BehindMessages int64
	// Fillers counts entries that a repair has put in place of damaged or missing
	// messages, and FillerBytes their bytes. Consumers pass over them.
	Fillers, FillerBytes int64
	// Kept says that the file is none of a log, but holds what was taken out of one;
	// empty: it is a segment.
	Kept CutKind
	// Unopened counts compressed entries that were not looked into, being larger,
	// or holding more, than the walk was allowed to take into memory.
	Unopened int64
}

// MaxReportedDamage is how many damaged ranges of a file a report lists.
const MaxReportedDamage = 1000

// opener looks into compressed messages.
type opener struct {
	maxDecompressed int
	entry           []byte // the compressed message with its header
	inner           []byte // what is in it, for those who visit that
}

// errUnopened says that a compressed message is too large to be looked into.
var errUnopened = errors.New("too large to be opened")

// open returns an entry as a message set, checked inside, and the number of
// messages in it. payload is what the scanner kept of it. The set is valid until
// the next call. The error is errUnopened, or a *message.CorruptError.
func (o *opener) open(e scanned, payload []byte) (message.Set, int, error) {
	if int64(len(payload)) < e.payloadBytes {
		return nil, 0, errUnopened
	}
	o.entry = message.Append1(o.entry[:0], payload, e.codec())
	_, n, err := message.Check(o.entry, message.Limits{MaxDecompressed: o.maxDecompressed})
	var corrupt *message.CorruptError
	switch {
	case errors.Is(err, message.ErrTooLarge):
		return nil, 0, errUnopened
	case errors.As(err, &corrupt):
		return nil, 0, &message.CorruptError{Offset: e.offset, Detail: "inside a compressed message: " + corrupt.Detail, Err: corrupt.Err}
	case err != nil:
		return nil, 0, &message.CorruptError{Offset: e.offset, Detail: fmt.Sprintf("inside a compressed message: %v", err), Err: message.ErrDecompress}
	}
	return o.entry, n, nil
}

func (e scanned) codec() message.Codec { return message.Message{Attributes: e.attributes}.Codec() }

// examination reads a whole segment file.
type examination struct {
	open    *opener // not needed when shallow
	shallow bool    // compressed messages are not looked into
	keep    int     // bytes of a compressed message that may be taken into memory
	// growing says that a broker may be writing to the end of the file.
	growing bool
	from    int64 // offset to begin at, if it is in the file

	report SegmentReport
}

// run reads the file. The error is that of reading it, or of ctx; what was found
// before is in the report.
func (x *examination) run(ctx context.Context, file io.ReaderAt, f segmentFile) error {
	r := &x.report
	*r = SegmentReport{Path: f.path, BaseOffset: f.base, Size: f.size}
	s := newScanner(file, f.base, f.size)
	s.pos = min(max(x.from-f.base, 0), f.size)
	if !x.shallow {
		s.keep = x.keep
	}
	return s.scanPast(ctx, func(e scanned, payload []byte) error {
		messages := 1
		switch {
		case x.shallow || e.codec() == message.CodecNone:
		case isFiller(e, payload):
			r.Fillers++
			r.FillerBytes += e.next - e.offset
			messages = 0
		default:
			_, n, err := x.open.open(e, payload)
			var inside *message.CorruptError
			if errors.As(err, &inside) {
				r.damaged(DamagedRange{Offset: e.offset, End: e.next, Err: inside, Inside: true})
				return nil
			}
			if messages = n; err != nil {
				r.Unopened++
				messages = 1
			}
		}
		if r.Damage != nil {
			r.Behind++
			r.BehindMessages += int64(messages)
			return nil
		}
		r.Entries++
		r.Messages += int64(messages)
		r.ValidBytes = e.next - f.base
		return nil
	}, func(d DamagedRange) error {
		if x.growing && d.End == f.end() && errors.Is(d.Err, ErrTorn) {
			return nil // being written
		}
		r.damaged(d)
		return nil
	})
}

// damaged adds a range.
func (r *SegmentReport) damaged(d DamagedRange) {
	if r.Damage == nil {
		r.Damage = d.Err
	}
	if len(r.Damaged) == MaxReportedDamage {
		r.Unlisted++
		return
	}
	r.Damaged = append(r.Damaged, d)
}
