package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// DefaultWalkPayloadBytes is how much of a payload [Walk] hands out, and how
// large a compressed message may be that it opens.
const DefaultWalkPayloadBytes = 16 << 20

// ErrStopWalk, returned by the function that visits entries, ends a [Walk] early
// without an error. It is named like fs.SkipAll, being no failure.
var ErrStopWalk = errors.New("stop the walk")

// WalkOptions holds the settings of [Walk] and [Verify].
type WalkOptions struct {
	// FS is the file system. Default: the real one.
	FS vfs.FS
	// MaxPayloadBytes bounds how much of a payload is handed out, and so the
	// memory that a walk needs. Default: [DefaultWalkPayloadBytes].
	MaxPayloadBytes int
	// MaxDecompressedBytes bounds what a compressed message may hold that is
	// opened. Default: message.DefaultMaxDecompressed.
	MaxDecompressedBytes int
	// Shallow leaves compressed messages closed: they are handed out as they are
	// stored, and not checked inside.
	Shallow bool
	// From is the offset to begin at; 0 is the first there is. It must be that of
	// a message, as with a fetch, and the path a partition's folder or a segment.
	From int64
}

func (o WalkOptions) withDefaults() WalkOptions {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.MaxPayloadBytes <= 0 {
		o.MaxPayloadBytes = DefaultWalkPayloadBytes
	}
	if o.MaxDecompressedBytes <= 0 {
		o.MaxDecompressedBytes = message.DefaultMaxDecompressed
	}
	return o
}

// Entry is one message in a segment file.
//
// A message inside a compressed one has no offset of its own (Kafka 0.7 §2.3):
// Offset is where the compressed one begins, and so is NextOffset, but for the
// last one inside, whose NextOffset is where the compressed one ends.
type Entry struct {
	Topic     string
	Partition int32
	Segment   string // path of the file
	Offset    int64
	// NextOffset is where a consumer goes on that has handled this message.
	NextOffset int64
	// Inner is the place of the message inside a compressed one, from 1, of
	// InnerOf messages there. Both are 0 for a message that is not inside one.
	Inner, InnerOf int
	// Codec is how the message that holds it is compressed, or, with Shallow, the
	// message itself.
	Codec message.Codec
	// Message is valid until the visit returns. Its payload is cut at
	// MaxPayloadBytes, and as stored where it is compressed and was not opened.
	Message message.Message
	// PayloadBytes is the true length of the payload.
	PayloadBytes int64
	// Unopened says that it is compressed and was not looked into, as it is larger,
	// or holds more, than the walk may take into memory.
	Unopened bool
	// Filler says that a repair has put it in place of lost messages. Consumers
	// pass over it.
	Filler bool
}

// Verify walks over a log, looks into compressed messages too, and reports what
// is there and what is wrong with it. The path is a segment file, a partition's
// folder, or a whole log folder. It changes nothing, and may be used while a
// broker runs.
//
// The error is that of not getting to see the log, or of ctx; damage is in the
// report ([Report.Err]).
func Verify(ctx context.Context, path string, opt WalkOptions) (Report, error) {
	return Walk(ctx, path, opt, nil)
}

// Walk is [Verify] with a visit to every sound message, in the order of
// partitions and offsets, up to the first damage in each segment file; behind it
// [WalkOptions.From] leads. The path may also be a file that holds what a recovery
// or a repair has taken out of a log ([CutFile]), under the name that it got: of
// that every sound message is visited, whatever is damaged in between, with the
// offset that it had in the log. A filler is visited once, by itself. An error from
// visit ends the walk and is returned, with the report so far, unless it is
// [ErrStopWalk].
func Walk(ctx context.Context, path string, opt WalkOptions, visit func(Entry) error) (Report, error) {
	opt = opt.withDefaults()
	path, err := filepath.Abs(path)
	if err != nil {
		return Report{}, err
	}
	w := &walk{ctx: ctx, fs: opt.FS, opt: opt, visit: visit, report: Report{Path: path}}
	w.open.maxDecompressed = opt.MaxDecompressedBytes
	if err := w.start(path); err != nil && !errors.Is(err, ErrStopWalk) {
		return w.report, err
	}
	return w.report, nil
}

// walk is the state of one Walk.
type walk struct {
	ctx    context.Context
	fs     vfs.FS
	opt    WalkOptions
	visit  func(Entry) error
	open   opener
	stops  cleanStop // what a clean stop says of the partitions; nil: there was none
	report Report
}

// start walks over whatever kind of thing path is.
func (w *walk) start(path string) error {
	p, err := findPlace(w.fs, path)
	if err != nil {
		return err
	}
	if err := w.askRunning(p.logDir); err != nil {
		return err
	}
	switch {
	case p.segment != nil && p.kept != "" && w.visit == nil:
		return fmt.Errorf("%s is no segment file, but holds what was taken out of one: verify the log, or dump the messages in this", path)
	case p.segment != nil:
		return w.oneSegment(p)
	case p.partition:
		return w.partition(path)
	}
	if w.opt.From != 0 {
		return fmt.Errorf("%s holds several logs, each with offsets of its own: to begin at offset %d, name a partition's folder or a segment file", path, w.opt.From)
	}
	for _, dir := range p.folders {
		if err := w.partition(filepath.Join(path, dir)); err != nil {
			return err
		}
	}
	return nil
}

// place is what a path leads to.
type place struct {
	path    string
	logDir  string       // the log folder, or where it would be
	segment *segmentFile // of a segment file
	kept    CutKind      // of a file that holds what was taken out of a segment, and then segment is that
	// partition says that it is a partition's folder. Otherwise, with no segment,
	// it is a log folder, and folders are the names of those in it that are to be
	// partitions, and deleted those that a deletion has left.
	partition        bool
	folders, deleted []string
}

// findPlace finds out what kind of thing path is.
func findPlace(fsys vfs.FS, path string) (place, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return place{}, err
	}
	if !info.IsDir() {
		return findFile(path, info.Size())
	}
	entries, err := fsys.ReadDir(path)
	if err != nil {
		return place{}, err
	}
	isLog := func(e fs.DirEntry) bool { return !e.IsDir() && filepath.Ext(e.Name()) == segmentSuffix }
	isPartition := func(e fs.DirEntry) bool {
		_, _, err := parsePartitionName(e.Name())
		return e.IsDir() && err == nil
	}
	_, _, nameErr := parsePartitionName(filepath.Base(path))
	if slices.ContainsFunc(entries, isLog) || nameErr == nil && holdsLog(entries) && !slices.ContainsFunc(entries, isPartition) {
		return place{path: path, logDir: filepath.Dir(path), partition: true}, nil
	}
	return findFolders(fsys, path, entries)
}

// holdsLog reports whether a folder with these entries and the name of a
// partition is one: other folders are named so, too. An empty one is what a crash
// leaves.
func holdsLog(entries []fs.DirEntry) bool {
	return len(entries) == 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), segmentSuffix) })
}

// findFile is findPlace for a file.
func findFile(path string, size int64) (place, error) {
	p := place{path: path, logDir: filepath.Dir(filepath.Dir(path))}
	base, ok, err := parseSegmentName(filepath.Base(path))
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	if !ok {
		if p.kept, base, ok = parseCutName(filepath.Base(path)); !ok {
			return p, fmt.Errorf("%s is no segment file: those end in %s", path, segmentSuffix)
		}
	}
	if size > math.MaxInt64-base {
		return p, fmt.Errorf("%s: offsets do not reach to its end", path)
	}
	p.segment = &segmentFile{base: base, path: path, size: size}
	return p, nil
}

// findFolders lists what is in a log folder.
func findFolders(fsys vfs.FS, path string, entries []fs.DirEntry) (place, error) {
	p, ours := place{path: path, logDir: path}, 0
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockName || name == topicsName || name == cleanName:
			ours++
		case !e.IsDir() || name == lostAndFoundName:
		case isDeleted(name):
			p.deleted = append(p.deleted, name)
			ours++
		default:
			p.folders = append(p.folders, name)
			if _, _, err := parsePartitionName(name); err == nil && ours == 0 {
				// One that cannot be read is no sign that this is a log folder.
				if inside, err := fsys.ReadDir(filepath.Join(path, name)); err == nil && holdsLog(inside) {
					ours++
				}
			}
		}
	}
	if ours == 0 {
		return place{}, fmt.Errorf("%s is no log folder: give a log folder, a partition's folder or a segment file", path)
	}
	return p, nil
}

// askRunning finds out whether a broker has the log folder, and if not, how the
// last one has left it.
func (w *walk) askRunning(logDir string) error {
	running, err := w.fs.Locked(filepath.Join(logDir, lockName))
	if err != nil {
		return err
	}
	w.report.Running = running
	if !running {
		w.stops, err = readCleanStop(w.fs, logDir)
	}
	return err
}

// partition walks over a partition's folder. What is wrong with the folder goes
// into the report, so that the walk goes on with the next one.
func (w *walk) partition(path string) error {
	p := PartitionReport{Path: path}
	p.Topic, p.Partition, p.Err = parsePartitionName(filepath.Base(path))
	files, err := listSegments(w.fs, path)
	for tries := 0; w.vanished(err) && tries < 100; tries++ {
		if _, err := w.fs.Stat(path); w.vanished(err) {
			return nil // its topic was deleted
		}
		files, err = listSegments(w.fs, path)
	}
	w.report.Partitions = append(w.report.Partitions, p)
	r := &w.report.Partitions[len(w.report.Partitions)-1]
	if err != nil {
		r.Err = errors.Join(r.Err, err)
		return nil
	}
	r.Gaps = findGaps(files)
	if len(files) > 0 {
		r.Flushed = files[len(files)-1].base
	}
	if s, ok := w.stops[filepath.Base(path)]; ok {
		r.Flushed, r.CleanStop = max(r.Flushed, s.end), true
	}
	if w.visit == nil {
		r.Unsynced = slices.ContainsFunc(files, func(f segmentFile) bool {
			_, err := w.fs.Stat(f.path + unsyncedSuffix)
			return err == nil
		})
		if r.Cuts, err = w.cuts(path); err != nil && !w.vanished(err) {
			if w.ctx.Err() != nil {
				return err
			}
			r.Err = errors.Join(r.Err, err)
		}
	}
	if err := w.checkFrom(files); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, f := range files {
		if w.opt.From >= f.end() && i < len(files)-1 {
			continue
		}
		if err := w.segment(r, f, i == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}

// vanished reports whether err says that something is not there that was listed,
// with a broker at work that may have removed it.
func (w *walk) vanished(err error) bool { return w.report.Running && errors.Is(err, fs.ErrNotExist) }

// checkFrom makes sure that the walk can begin where it is to.
func (w *walk) checkFrom(files []segmentFile) error {
	if w.opt.From == 0 || len(files) == 0 {
		return nil
	}
	if first, end := files[0].base, files[len(files)-1].end(); w.opt.From < first || w.opt.From > end {
		return fmt.Errorf("%w: %d is not within %d to %d", ErrOffsetOutOfRange, w.opt.From, first, end)
	}
	return nil
}

// oneSegment walks over a segment file that was named alone.
func (w *walk) oneSegment(place place) error {
	dir := filepath.Dir(place.path)
	p := PartitionReport{Path: dir}
	// A segment alone may lie in any folder: without a topic then.
	if topic, partition, err := parsePartitionName(filepath.Base(dir)); err == nil {
		p.Topic, p.Partition = topic, partition
	}
	w.report.Partitions = []PartitionReport{p}
	if err := w.checkFrom([]segmentFile{*place.segment}); err != nil {
		return fmt.Errorf("%s: %w", place.path, err)
	}
	if place.kept != "" {
		return w.keptFile(&w.report.Partitions[0], *place.segment, place.kept)
	}
	return w.segment(&w.report.Partitions[0], *place.segment, isLast(w.fs, *place.segment))
}

// isLast reports whether a segment file is the last one of its folder.
func isLast(fsys vfs.FS, f segmentFile) bool {
	files, err := listSegments(fsys, filepath.Dir(f.path))
	return err != nil || len(files) == 0 || files[len(files)-1].base <= f.base
}

// segment walks over one segment file and adds it to the report. last says that
// it is its partition's last one, to which a broker may be writing.
func (w *walk) segment(p *PartitionReport, f segmentFile, last bool) (err error) {
	file, err := w.fs.Open(f.path)
	if w.vanished(err) {
		return nil // retention has removed it
	}
	if err != nil {
		p.Err = errors.Join(p.Err, err)
		return nil
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	growing := last && w.report.Running
	var r SegmentReport
	var visitErr error
	if w.visit == nil {
		x := examination{open: &w.open, shallow: w.opt.Shallow, keep: w.opt.MaxPayloadBytes, growing: growing, from: w.opt.From}
		err = x.run(w.ctx, file, f)
		r = x.report
	} else {
		r, visitErr, err = w.visitSegment(p, file, f, growing)
	}
	p.Segments = append(p.Segments, r)
	if err != nil && visitErr == nil && w.ctx.Err() == nil {
		// The file cannot be read here; the others perhaps can.
		p.Err, err = errors.Join(p.Err, fmt.Errorf("%s: %w", f.path, err)), nil
	}
	return err
}

// visitSegment visits the messages of a segment file up to the first damage.
// Both errors are set when visit returned one.
func (w *walk) visitSegment(p *PartitionReport, file vfs.File, f segmentFile, growing bool) (r SegmentReport, visitErr, err error) {
	s := newScanner(file, f.base, f.size)
	s.keep = w.opt.MaxPayloadBytes
	s.pos = min(max(w.opt.From-f.base, 0), f.size)
	r = SegmentReport{Path: f.path, BaseOffset: f.base, Size: f.size, ValidBytes: s.pos}
	var inside *message.CorruptError
	r.Damage, err = s.scanAll(w.ctx, func(e scanned, payload []byte) error {
		var n int
		n, inside, visitErr = w.visitEntry(p, f, e, payload)
		if inside != nil {
			return ErrStopWalk
		}
		if visitErr != nil {
			return visitErr
		}
		r.Entries++
		r.Messages += int64(n)
		r.ValidBytes = s.pos
		return nil
	})
	switch {
	case inside != nil:
		r.Damage, err = inside, nil
	case growing && r.Damage != nil && errors.Is(r.Damage, ErrTorn):
		r.Damage = nil // being written
	}
	return r, visitErr, err
}

// keptFile visits every sound message in a file that holds what was taken out of
// a log.
func (w *walk) keptFile(p *PartitionReport, f segmentFile, kind CutKind) (err error) {
	file, err := w.fs.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s := newScanner(file, f.base, f.size)
	s.keep = w.opt.MaxPayloadBytes
	s.pos = min(max(w.opt.From-f.base, 0), f.size)
	r := SegmentReport{Path: f.path, BaseOffset: f.base, Size: f.size, Kept: kind}
	err = s.scanPast(w.ctx, func(e scanned, payload []byte) error {
		n, inside, err := w.visitEntry(p, f, e, payload)
		if inside != nil {
			r.damaged(DamagedRange{Offset: e.offset, End: e.next, Err: inside, Inside: true})
			return nil
		}
		r.Messages += int64(n)
		if err == nil {
			r.Entries++
		}
		return err
	}, func(d DamagedRange) error {
		r.damaged(d)
		return nil
	})
	p.Segments = append(p.Segments, r)
	return err
}

// visitEntry visits an entry, or the messages in it, and returns how many that
// are for a consumer. What is wrong inside a compressed one is found before
// anything of it is visited.
func (w *walk) visitEntry(p *PartitionReport, f segmentFile, e scanned, payload []byte) (messages int, inside *message.CorruptError, err error) {
	entry := Entry{
		Topic: p.Topic, Partition: p.Partition, Segment: f.path, Offset: e.offset, NextOffset: e.next, Codec: e.codec(),
		Message:      message.Message{Magic: e.magic, Attributes: e.attributes, CRC: e.crc, Payload: payload},
		PayloadBytes: e.payloadBytes,
		Filler:       isFiller(e, payload),
	}
	if w.opt.Shallow || entry.Codec == message.CodecNone {
		return 1, nil, w.visit(entry)
	}
	set, n, err := w.open.open(e, payload)
	if errors.Is(err, errUnopened) {
		entry.Unopened = true
		return 1, nil, w.visit(entry)
	}
	if errors.As(err, &inside) {
		return 0, inside, nil
	}
	if n == 0 { // a filler, or what else holds nothing
		return 0, nil, w.visit(entry)
	}
	entry.InnerOf = n
	it := set.Iterate(e.offset)
	it.LimitDecompressed(w.open.maxDecompressed)
	it.ReuseBuffer(&w.open.inner)
	for it.Next() {
		entry.Inner++
		entry.NextOffset = it.NextOffset()
		entry.Message = it.Message()
		entry.PayloadBytes = int64(len(entry.Message.Payload))
		entry.Message.Payload = entry.Message.Payload[:min(len(entry.Message.Payload), w.opt.MaxPayloadBytes)]
		if err := w.visit(entry); err != nil {
			return entry.Inner, nil, err
		}
	}
	errors.As(it.Err(), &inside)
	return n, inside, nil
}
