package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// DefaultWalkPayloadBytes is how much of a payload [Walk] hands out.
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
}

// Entry is one message in a segment file.
type Entry struct {
	Topic     string
	Partition int32
	Segment   string // path of the file
	Offset    int64
	// NextOffset is the offset of the message behind it.
	NextOffset int64
	// Message is valid until the visit returns. Its payload is as stored, not
	// decompressed, and cut at MaxPayloadBytes.
	Message message.Message
	// PayloadBytes is the true length of the payload.
	PayloadBytes int64
}

// Report is what a walk found.
type Report struct {
	Path string
	// Running says that a broker has the folder locked. A message that the end of
	// a partition's last segment cuts off is being written then: it is no damage,
	// and ValidBytes ends before it.
	Running    bool
	Partitions []PartitionReport
}

// PartitionReport is what a walk found in one partition's folder.
type PartitionReport struct {
	Path      string
	Topic     string // "" when the folder is not named like a partition's
	Partition int32
	Segments  []SegmentReport
	Gaps      []Gap
	// Cuts lists what recoveries have cut off and kept.
	Cuts []CutFile
	// Err says why the folder could not be read as a log.
	Err error
}

// SegmentReport is what a walk found in one segment file.
type SegmentReport struct {
	Path       string
	BaseOffset int64
	Size       int64 // of the file in bytes, when the walk came to it
	Messages   int64 // sound ones, compressed sets counted as one
	ValidBytes int64 // up to the end of the last sound message before any damage
	// Damage says where and why the walk of this file ended early, nil if it did
	// not (see [Report.Running]). Nothing behind it can be read.
	Damage *message.CorruptError
}

// CutFile is a file into which a recovery copied what it cut off a segment.
type CutFile struct {
	Path  string
	Bytes int64
}

// Err returns everything that is wrong, or nil. What recovery has cut off
// before is not wrong any more.
func (r Report) Err() error {
	var errs []error
	for _, p := range r.Partitions {
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
		for _, g := range p.Gaps {
			errs = append(errs, g)
		}
		for _, s := range p.Segments {
			if s.Damage != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.Path, s.Damage))
			}
		}
	}
	return errors.Join(errs...)
}

// Verify walks over a log and reports what is there and what is wrong with it.
// The path is a segment file, a partition's folder, or a whole log folder. It
// changes nothing, and may be used while a broker runs.
//
// The error is that of not getting to see the log, or of ctx; damage is in the
// report ([Report.Err]).
func Verify(ctx context.Context, path string, opt WalkOptions) (Report, error) {
	return Walk(ctx, path, opt, nil)
}

// Walk is [Verify] with a visit to every sound message, in the order of
// partitions and offsets. An error from visit ends the walk and is returned,
// with the report so far, unless it is [ErrStopWalk].
func Walk(ctx context.Context, path string, opt WalkOptions, visit func(Entry) error) (Report, error) {
	if opt.FS == nil {
		opt.FS = vfs.OS()
	}
	if opt.MaxPayloadBytes <= 0 {
		opt.MaxPayloadBytes = DefaultWalkPayloadBytes
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return Report{}, err
	}
	w := &walk{ctx: ctx, fs: opt.FS, keep: opt.MaxPayloadBytes, visit: visit, report: Report{Path: path}}
	if err := w.start(path); err != nil && !errors.Is(err, ErrStopWalk) {
		return w.report, err
	}
	return w.report, nil
}

// walk is the state of one Walk.
type walk struct {
	ctx    context.Context
	fs     vfs.FS
	keep   int
	visit  func(Entry) error
	report Report
}

// start finds out what kind of thing path is and walks over it.
func (w *walk) start(path string) error {
	info, err := w.fs.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return w.oneSegment(path, info.Size())
	}
	entries, err := w.fs.ReadDir(path)
	if err != nil {
		return err
	}
	isLog := func(e fs.DirEntry) bool { return !e.IsDir() && strings.HasSuffix(e.Name(), segmentSuffix) }
	isPartition := func(e fs.DirEntry) bool {
		_, _, err := parsePartitionName(e.Name())
		return e.IsDir() && err == nil
	}
	_, _, nameErr := parsePartitionName(filepath.Base(path))
	switch {
	case slices.ContainsFunc(entries, isLog), nameErr == nil && !slices.ContainsFunc(entries, isPartition):
		if err := w.askRunning(filepath.Dir(path)); err != nil {
			return err
		}
		return w.partition(path)
	default:
		return w.folder(path, entries)
	}
}

// folder walks over a log folder.
func (w *walk) folder(path string, entries []fs.DirEntry) error {
	if err := w.askRunning(path); err != nil {
		return err
	}
	ours := 0
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockName || name == topicsName || name == cleanName:
			ours++
		case e.IsDir() && name != lostAndFoundName && !isDeleted(name):
			ours++
			if err := w.partition(filepath.Join(path, name)); err != nil {
				return err
			}
		}
	}
	if ours == 0 {
		return fmt.Errorf("%s is no log folder: give a log folder, a partition's folder or a segment file", path)
	}
	return nil
}

func (w *walk) askRunning(logDir string) error {
	running, err := w.fs.Locked(filepath.Join(logDir, lockName))
	if err == nil {
		w.report.Running = running
	}
	return err
}

// partition walks over a partition's folder. What is wrong with the folder goes
// into the report, so that the walk goes on with the next one.
func (w *walk) partition(path string) error {
	p := PartitionReport{Path: path}
	p.Topic, p.Partition, p.Err = parsePartitionName(filepath.Base(path))
	w.report.Partitions = append(w.report.Partitions, p)
	r := &w.report.Partitions[len(w.report.Partitions)-1]
	files, err := listSegments(w.fs, path)
	if err != nil {
		r.Err = errors.Join(r.Err, err)
		return nil
	}
	r.Gaps = findGaps(files)
	if r.Cuts, err = w.cuts(path); err != nil {
		r.Err = errors.Join(r.Err, err)
	}
	for i, f := range files {
		if err := w.segment(r, f, i == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}

// cuts lists the files beside the segments that hold what was cut off them.
func (w *walk) cuts(path string) ([]CutFile, error) {
	entries, err := w.fs.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var cuts []CutFile
	for _, e := range entries {
		if !strings.Contains(e.Name(), segmentSuffix+cutSuffix) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return cuts, err
		}
		cuts = append(cuts, CutFile{Path: filepath.Join(path, e.Name()), Bytes: info.Size()})
	}
	return cuts, nil
}

// oneSegment walks over a segment file that was named alone.
func (w *walk) oneSegment(path string, size int64) error {
	base, ok, err := parseSegmentName(filepath.Base(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !ok {
		return fmt.Errorf("%s is no segment file: those end in %s", path, segmentSuffix)
	}
	dir := filepath.Dir(path)
	if err := w.askRunning(filepath.Dir(dir)); err != nil {
		return err
	}
	p := PartitionReport{Path: dir}
	// A segment alone may lie in any folder: without a topic then.
	if topic, partition, err := parsePartitionName(filepath.Base(dir)); err == nil {
		p.Topic, p.Partition = topic, partition
	}
	w.report.Partitions = []PartitionReport{p}
	files, err := listSegments(w.fs, dir)
	last := err != nil || len(files) == 0 || files[len(files)-1].base <= base
	return w.segment(&w.report.Partitions[0], segmentFile{base: base, path: path, size: size}, last)
}

// segment walks over one segment file and adds it to the report. last says that
// it is its partition's last one, to which a broker may be writing.
func (w *walk) segment(p *PartitionReport, f segmentFile, last bool) (err error) {
	file, err := w.fs.Open(f.path)
	if err != nil {
		p.Err = errors.Join(p.Err, err)
		return nil
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s := newScanner(file, f.base, f.size)
	if w.visit != nil {
		s.keep = w.keep
	}
	r := SegmentReport{Path: f.path, BaseOffset: f.base, Size: f.size}
	defer func() { p.Segments = append(p.Segments, r) }()
	var visitErr error
	r.Damage, err = s.scanAll(w.ctx, func(e scanned, payload []byte) error {
		r.Messages++
		r.ValidBytes = s.pos
		if w.visit != nil {
			visitErr = w.visit(Entry{
				Topic: p.Topic, Partition: p.Partition, Segment: f.path, Offset: e.offset, NextOffset: e.next,
				Message:      message.Message{Magic: e.magic, Attributes: e.attributes, CRC: e.crc, Payload: payload},
				PayloadBytes: e.payloadBytes,
			})
		}
		return visitErr
	})
	if last && w.report.Running && r.Damage != nil && errors.Is(r.Damage, ErrTorn) {
		r.Damage = nil
	}
	if err != nil && visitErr == nil && w.ctx.Err() == nil {
		// The file cannot be read here; the others perhaps can.
		p.Err, err = errors.Join(p.Err, fmt.Errorf("%s: %w", f.path, err)), nil
	}
	return err
}
