package storage

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"kafkalab/kafka/internal/vfs"
)

// overlap mends that a segment goes on where the next one has begun, which is the
// last one or not. taken says that the next one has left the log.
//
// A rewriting leaves an overlap behind its last segment when it is cut off, and
// then the newer one is what is safe: see [Log.rewrite]. Others come from copies
// that were put back.
func (r *repairer) overlap(before *segmentFile, after segmentFile, last bool) (taken bool, err error) {
	twice := min(before.end(), after.end()) - after.base
	m := Mend{Path: before.path, Offset: after.base, End: after.base + twice,
		Problem: fmt.Sprintf("ends at offset %d, but %s begins at %d", before.end(), filepath.Base(after.path), after.base)}
	if twice == 0 {
		m.Path = after.path
		m.Problem = fmt.Sprintf("is empty, and %s goes on beyond offset %d", filepath.Base(before.path), after.base)
		m.Action = "removed"
		return r.found(m, func() (string, error) {
			return "", errors.Join(r.fs.Remove(after.path), r.fs.SyncDir(filepath.Dir(after.path)))
		})
	}
	same, sound, err := r.compare(*before, after, twice)
	if err != nil {
		r.unsettle(*before, after)
		return false, r.left(after.path, err)
	}
	if !last && after.end() <= before.end() {
		if !same {
			r.unsettle(*before, after)
			m.Advice = "they hold different messages for the same offsets: move away the one that is wrong"
			return false, r.leave(m)
		}
		m.Action = fmt.Sprintf("%s put aside: the older segment holds all of it", filepath.Base(after.path))
		return r.found(m, func() (string, error) { return r.aside(after) })
	}
	if !sound {
		r.unsettle(*before, after)
		m.Advice = "the newer one is damaged there: move away the one that is wrong"
		return false, r.leave(m)
	}
	within, err := r.withinMessage(*before, after.base)
	if err != nil {
		r.unsettle(*before, after)
		return false, r.left(before.path, err)
	}
	if within {
		r.unsettle(*before, after)
		m.Advice = "a message of the older one goes across that offset, so one of the two has a wrong name: give it the right one, or move it away"
		return false, r.leave(m)
	}
	// What the newer one holds too needs no other copy.
	same = same && before.end() <= after.end()
	m.Action = fmt.Sprintf("%s cut off the older segment at offset %d", bytesOf(before.end()-after.base), after.base)
	if same {
		m.Action += ", which the newer one holds"
	}
	mended, err := r.found(m, func() (string, error) { return r.cut(*before, after.base, !same) })
	if mended {
		before.size = after.base - before.base
	}
	return false, err
}

// unsettle notes segments of which it is not known which one is right: none of
// them is touched.
func (r *repairer) unsettle(files ...segmentFile) {
	if r.unsettled == nil {
		r.unsettled = map[string]bool{}
	}
	for _, f := range files {
		r.unsettled[f.path] = true
	}
}

// compare looks at the first n bytes of a segment: whether they are in the one
// before it too, and whether they are sound.
func (r *repairer) compare(before, after segmentFile, n int64) (same, sound bool, err error) {
	a, err := r.fs.Open(before.path)
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := r.fs.Open(after.path)
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	same, err = equalRanges(r.ctx, io.NewSectionReader(a, after.base-before.base, n), b, n)
	if err != nil {
		return false, false, err
	}
	s := newScanner(b, after.base, after.size)
	corrupt, err := s.scanAll(r.ctx, func(scanned, []byte) error {
		if s.pos >= n {
			return ErrStopWalk
		}
		return nil
	})
	if errors.Is(err, ErrStopWalk) {
		err = nil
	}
	return same, corrupt == nil, err
}

// withinMessage reports whether an offset lies inside a message of a segment.
func (r *repairer) withinMessage(f segmentFile, offset int64) (within bool, err error) {
	file, err := r.fs.Open(f.path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return withinMessage(r.ctx, file, f, offset-f.base)
}

// aside takes a whole segment out of the log and keeps it.
func (r *repairer) aside(f segmentFile) (string, error) {
	path, err := freeName(r.fs, f.path+staleSuffix)
	if err != nil {
		return "", err
	}
	if err := r.fs.Rename(f.path, path); err != nil {
		return "", err
	}
	return path, r.fs.SyncDir(filepath.Dir(path))
}

// gap mends that bytes are missing between two segments.
func (r *repairer) gap(before *segmentFile, after segmentFile) error {
	if r.opt.AcceptGaps {
		if ok, err := r.tornEnd(before); !ok || err != nil {
			return err
		}
	}
	missing := after.base - before.end()
	name := segmentName(before.end())
	m := Mend{Path: before.path, Offset: before.end(), End: after.base,
		Problem: fmt.Sprintf("ends at offset %d, but %s begins at %d: %s are missing", before.end(), filepath.Base(after.path), after.base, bytesOf(missing))}
	switch {
	case missing < minFiller:
		m.Advice = fmt.Sprintf("too few for a message: put back %s, or move away the segments before offset %d: the log then begins there", name, after.base)
	case missing > MaxGapBytes:
		m.Advice = fmt.Sprintf("more than %s are not filled: put back %s and what follows it, or move away the segments on one side", bytesOf(MaxGapBytes), name)
	case r.opt.AcceptGaps:
		m.Action = fmt.Sprintf("fillers put in their place: %s", seenAs(missing))
	default:
		m.Advice = fmt.Sprintf("put back %s of %s (or several files that make it up), if there is a copy; "+
			"or let fillers stand in for it (--accept-gap), and consumers pass over it; "+
			"or move away the segments before offset %d, and the log begins there", name, bytesOf(missing), after.base)
	}
	_, err := r.found(m, func() (string, error) { return "", r.fillGap(*before, missing) })
	return err
}

// tornEnd cuts what is not sound off the end of a segment with a gap behind it,
// so that the two are filled as one. ok says that the gap can be filled.
func (r *repairer) tornEnd(f *segmentFile) (ok bool, err error) {
	report, err := r.examine(*f)
	if err != nil {
		return false, r.left(f.path, err)
	}
	n := len(report.Damaged)
	if n == 0 || report.Unlisted > 0 {
		return true, nil
	}
	d := report.Damaged[n-1]
	if d.End != f.end() || d.Inside || d.Unsure {
		return true, nil
	}
	m := Mend{Path: f.path, Offset: d.Offset, End: d.End, Problem: d.Err.Error(),
		Action: fmt.Sprintf("%s cut off the end of the segment, behind which bytes are missing", bytesOf(d.Bytes()))}
	ok, err = r.found(m, func() (string, error) { return r.cut(*f, d.Offset, true) })
	if ok {
		f.size = d.Offset - f.base
	}
	return ok, err
}

// fillGap makes a segment of n bytes of fillers behind another one, whose time it
// gets. It takes the place of an empty one, and of nothing else.
func (r *repairer) fillGap(before segmentFile, n int64) error {
	dir := filepath.Dir(before.path)
	path := filepath.Join(dir, segmentName(before.end()))
	if info, err := r.fs.Stat(path); err == nil && info.Size() > 0 {
		return fmt.Errorf("%s %w", path, errInTheWay)
	}
	info, err := r.fs.Stat(before.path)
	if err != nil {
		return err
	}
	temporary := path + temporarySuffix
	if err := removeIfThere(r.fs, temporary); err != nil {
		return err
	}
	file, err := r.fs.Create(temporary)
	if err != nil {
		return err
	}
	err = writeFillers(r.ctx, file, 0, n)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = r.fs.SetTime(temporary, info.ModTime())
	}
	if err == nil {
		err = r.fs.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(r.fs, temporary))
	}
	return r.fs.SyncDir(dir)
}

// examine reads a whole segment, from the disk: after a sync that failed, as one
// of an earlier repair may have, the page cache shows what the disk has not (fault
// B04).
func (r *repairer) examine(f segmentFile) (report SegmentReport, err error) {
	file, err := r.fs.OpenUncached(f.path)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	x := examination{open: &r.open, keep: DefaultWalkPayloadBytes}
	err = x.run(r.ctx, file, f)
	return x.report, err
}

// damage mends what is damaged in a segment. last says that it is the one to
// which a broker appends.
func (r *repairer) damage(f segmentFile, last bool) error {
	report, err := r.examine(f)
	if err != nil {
		if r.ctx.Err() != nil {
			return err
		}
		return r.left(f.path, err)
	}
	if report.Unlisted > 0 && (!last || !r.opt.Cut) {
		return r.leave(Mend{Path: f.path, Offset: report.Damage.Offset, End: f.end(),
			Problem: fmt.Sprintf("is damaged in more than %d places, first: %v", MaxReportedDamage, report.Damage),
			Advice:  "it is hardly a segment any more: put back a copy"})
	}
	for _, d := range report.Damaged {
		m := Mend{Path: f.path, Offset: d.Offset, End: d.End, Problem: d.Err.Error()}
		// Nothing sound is behind the last damage, nor behind the first when all else is damaged too.
		nothing := !d.Unsure && (d.End == f.end() || !r.opt.ReplaceDamaged && report.Damage.Offset == d.Offset && report.BehindMessages == 0)
		tail := last && !d.Inside && (r.opt.Cut || nothing)
		switch {
		case r.unsettled[f.path]:
			m.Advice = "another segment holds the same offsets: decide first which one is right"
		case tail:
			return r.cutTail(f, m, report)
		case last && !d.Inside && !r.opt.ReplaceDamaged:
			m.Advice = leftTail(d, report)
		case !r.opt.ReplaceDamaged:
			m.Advice = fmt.Sprintf("consumers stop there: put back a copy of the file, or let fillers stand in for the %s (--replace-damaged), and they pass over them", bytesOf(d.Bytes()))
		case d.Unsure:
			m.Advice = "the next sound message behind it was not found in reasonable time: put back a copy of the file"
		case d.Bytes() < minFiller:
			m.Advice = fmt.Sprintf("%s are too few for a message: put back a copy of the file", bytesOf(d.Bytes()))
		default:
			m.Action = fmt.Sprintf("%s replaced by fillers: %s", bytesOf(d.Bytes()), seenAs(d.Bytes()))
		}
		if _, err := r.found(m, func() (string, error) { return r.replace(f, d) }); err != nil {
			return err
		}
	}
	return nil
}

// cutTail cuts the last segment where m begins, as recovery does.
func (r *repairer) cutTail(f segmentFile, m Mend, report SegmentReport) error {
	m.End = f.end()
	m.Action = fmt.Sprintf("%s cut off the end of the log", bytesOf(m.End-m.Offset))
	if report.Damage.Offset == m.Offset && report.BehindMessages > 0 {
		m.Advice = soundMessages(report.BehindMessages) + " behind the damage, and in the copy now: kafka log dump --payload-only prints what is in it, a line for each, for kafka produce"
		if r.opt.DryRun {
			m.Advice = soundMessages(report.BehindMessages) + " behind the damage, and would be in the copy: --replace-damaged would keep them in the log"
		}
	}
	_, err := r.found(m, func() (string, error) { return r.cut(f, m.Offset, true) })
	return err
}

// leftTail says what there is to do about damage in the last segment that has, or
// may have, sound messages behind it.
func leftTail(d DamagedRange, report SegmentReport) string {
	behind := "sound messages lie"
	switch {
	case d.Unsure:
		behind = "sound messages may lie"
	case report.Damage.Offset == d.Offset:
		behind = soundMessages(report.BehindMessages)
	}
	return behind + " behind the damage: --replace-damaged keeps them, --cut gives them up, as would the next start of a broker that finds it"
}

// soundMessages begins a sentence about messages behind damage.
func soundMessages(n int64) string {
	if n == 1 {
		return "1 sound message lies"
	}
	return fmt.Sprintf("%d sound messages lie", n)
}

// replace puts fillers in place of what is damaged, with a copy of that.
func (r *repairer) replace(f segmentFile, d DamagedRange) (saved string, err error) {
	err = r.change(f, func(file vfs.File) (err error) {
		if saved, err = saveRange(r.ctx, r.fs, file, f, d.Offset-f.base, d.Bytes(), replacedSuffix); err != nil {
			return err
		}
		return writeFillers(r.ctx, file, d.Offset-f.base, d.Bytes())
	})
	return saved, err
}

// seenAs says what consumers see of n bytes of fillers.
func seenAs(n int64) string {
	if n < int64(minSilentFiller) {
		return fmt.Sprintf("consumers get a message of %s, all zero", bytesOf(n-minFiller))
	}
	return "consumers pass over them"
}

func bytesOf(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
