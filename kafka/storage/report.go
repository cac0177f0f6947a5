package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kafkalab/kafka/internal/vfs"
)

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
	// Flushed is the offset below which everything is known to have been flushed:
	// where the last segment begins, as the ones before it were flushed when they
	// were full, or, with CleanStop, where the broker's clean stop left the log.
	// There may be more above it.
	Flushed   int64
	CleanStop bool
	// Unsynced says that a sync of the log has failed, and that the next start of a
	// broker will write its last segment anew.
	Unsynced bool
	// Cuts lists what recoveries and repairs have taken out of the log and kept.
	// A [Walk] with a visit does not look for it.
	Cuts []CutFile
	// Err says why the folder could not be read as a log.
	Err error
}

// CutKind says why a file that is kept beside a segment is there.
type CutKind string

// The kinds of [CutFile].
const (
	// CutTail: a recovery or repair has cut it off the end of the segment.
	CutTail CutKind = "cut"
	// CutReplaced: a repair has put fillers in its place, see [Repair].
	CutReplaced CutKind = "replaced"
	// CutStale: a whole file that was in the way of a roll and not the log's, or
	// that a repair has put aside, as another segment holds all of it.
	CutStale CutKind = "stale"
)

// replacedSuffix stands in the names of files that hold what a repair has put
// fillers in place of: <segment>.replaced-<offset>, and a number behind it when
// that name is taken. Beside those there are cutSuffix and staleSuffix.
const replacedSuffix = ".replaced-"

// CutFile is a file that holds what was taken out of a log.
type CutFile struct {
	Path   string
	Kind   CutKind
	Offset int64 // where its first byte stood in the log
	Bytes  int64
	// Messages counts the sound messages in it.
	Messages int64
}

// parseCutName reads the name of a file that holds what was taken out of a log.
func parseCutName(name string) (kind CutKind, offset int64, ok bool) {
	segment, rest, ok := strings.Cut(name, segmentSuffix)
	base, _, err := parseSegmentName(segment + segmentSuffix)
	if !ok || err != nil || strings.HasSuffix(rest, temporarySuffix) {
		return "", 0, false
	}
	if strings.HasPrefix(rest, staleSuffix) {
		return CutStale, base, true
	}
	for _, k := range []struct {
		suffix string
		kind   CutKind
	}{{cutSuffix, CutTail}, {replacedSuffix, CutReplaced}} {
		if number, ok := strings.CutPrefix(rest, k.suffix); ok {
			number, _, _ = strings.Cut(number, ".")
			offset, err := strconv.ParseInt(number, 10, 64)
			return k.kind, offset, err == nil && offset >= 0
		}
	}
	return "", 0, false
}

// Err returns everything that is wrong, or nil. What was taken out of the log
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
			if s.Damage != nil && s.Kept == "" {
				errs = append(errs, fmt.Errorf("%s: %w", s.Path, s.Damage))
			}
		}
	}
	return errors.Join(errs...)
}

// cuts lists the files beside the segments that hold what was taken out of them.
func (w *walk) cuts(path string) ([]CutFile, error) {
	entries, err := w.fs.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var cuts []CutFile
	for _, e := range entries {
		kind, offset, ok := parseCutName(e.Name())
		if !ok || e.IsDir() {
			continue
		}
		cut := CutFile{Path: filepath.Join(path, e.Name()), Kind: kind, Offset: offset}
		if err := w.readCut(&cut); err != nil {
			return cuts, fmt.Errorf("%s: %w", cut.Path, err)
		}
		cuts = append(cuts, cut)
	}
	return cuts, nil
}

// readCut finds out what a file holds that was taken out of a log.
func (w *walk) readCut(cut *CutFile) (err error) {
	info, err := w.fs.Stat(cut.Path)
	if err != nil {
		return err
	}
	file, err := w.fs.Open(cut.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cut.Bytes = info.Size()
	x := examination{shallow: true}
	err = x.run(w.ctx, file, segmentFile{base: cut.Offset, path: cut.Path, size: cut.Bytes})
	cut.Messages = x.report.Messages + x.report.Behind
	return err
}

// readCleanStop reads what the last clean stop says of the partitions, nil if
// the folder was not stopped cleanly, or a broker has been started on it since.
func readCleanStop(fsys vfs.FS, logDir string) (cleanStop, error) {
	file, err := fsys.Open(filepath.Join(logDir, cleanName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(file, 0, maxMarkerBytes))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(logDir, cleanName), err)
	}
	return parseCleanStop(b), nil
}
