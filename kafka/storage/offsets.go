package storage

import (
	"errors"
	"io/fs"
	"log/slog"
)

// Special times of [Log.OffsetsBefore] (Kafka 0.7 §1.5).
const (
	timeLatest   = -1
	timeEarliest = -2
)

// OffsetsBefore returns at most maxCount offsets, newest first, from which
// everything was written at or before timeMs, in milliseconds since the epoch.
// It knows no more than when each segment was last written to, so the answer is
// starts of segments, and the watermark when that time is reached; it errs to
// the side of older offsets. -1 stands for the latest: the watermark and all
// segments before it; -2 for the earliest: the first segment alone (Kafka 0.7
// §1.5).
func (l *Log) OffsetsBefore(timeMs int64, maxCount int) []int64 {
	end := l.visible.Load() // before the list: see Log
	list := *l.segments.Load()
	for len(list) > 1 && list[len(list)-1].base > end {
		list = list[:len(list)-1] // rolled since
	}
	if len(list) == 0 || maxCount <= 0 {
		return nil
	}
	starts := make([]int64, 0, len(list)+1)
	for _, s := range list {
		starts = append(starts, s.base)
	}
	if end > list[len(list)-1].base {
		starts = append(starts, end)
	}
	var from int // index of the newest offset to return
	switch timeMs {
	case timeLatest:
		from = len(starts) - 1
	case timeEarliest:
		from = 0
	default:
		from = l.lastBefore(list, len(starts), timeMs)
	}
	var offsets []int64
	for i := from; i >= 0 && len(offsets) < maxCount; i-- {
		offsets = append(offsets, starts[i])
	}
	return offsets
}

// lastBefore returns the largest index of the n starts whose time is not after
// timeMs, or -1. A segment's time is that of its last write; the time of the
// end, if it is among the starts, is now.
func (l *Log) lastBefore(list segments, n int, timeMs int64) int {
	now := l.cfg.Clock.Now().UnixMilli()
	if n > len(list) && now <= timeMs {
		return n - 1
	}
	for i := len(list) - 1; i >= 0; i-- {
		info, err := l.cfg.FS.Stat(list[i].path)
		if err != nil {
			// Without its time a segment does not qualify: older ones are the
			// careful answer.
			if errors.Is(err, fs.ErrNotExist) {
				continue // beyond its retention since
			}
			l.cfg.Logger.Warn("segment left out of an offsets answer", l.where(), slog.String("segment", list[i].path), slog.Any("error", err))
			continue
		}
		if info.ModTime().UnixMilli() <= timeMs {
			return i
		}
	}
	return -1
}
