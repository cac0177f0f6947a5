package storage

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
)

// A cleanStop is what the marker of a clean stop says of each partition folder:
// how its last segment was left. The marker is a line for each:
//
//	<end offset> <time of the last write, ns since the epoch> <folder>
//
// A folder that looks otherwise now was changed by somebody else: a tool, a
// restored copy, a repair of the file system. It is recovered as after a crash,
// while the others are trusted. So is every folder beside an empty marker, which
// is what Kafka 0.7 leaves.
type cleanStop map[string]stamp

type stamp struct{ end, writtenNs int64 }

// maxMarkerBytes bounds what is read of a marker.
const maxMarkerBytes = 256 << 20

// stampOf returns how the last segment of a partition folder looks.
func stampOf(last segmentFile) stamp { return stamp{last.end(), last.written.UnixNano()} }

// leftAlone reports whether a partition folder is as the clean stop left it.
// What it cannot find out is left to the opening of the log.
func (m *Manager) leftAlone(stops cleanStop, f partitionFolder) bool {
	want, ok := stops[filepath.Base(f.path)]
	if !ok {
		return false
	}
	files, err := listSegments(m.cfg.FS, f.path)
	if err != nil || len(files) == 0 {
		return false
	}
	got := stampOf(files[len(files)-1])
	if got == want {
		return true
	}
	m.cfg.Logger.Warn("log was changed since the clean stop: its last segment is checked",
		slog.String("topic", f.topic), slog.Int("partition", int(f.partition)), slog.Int64("end", got.end), slog.Int64("end_at_stop", want.end))
	return false
}

// takeCleanMarker reads what the last stop left, nil if it was not clean, and
// removes it for good before anything else is opened: a crash from now on is
// unclean.
func (m *Manager) takeCleanMarker() (cleanStop, error) {
	stops, err := readCleanStop(m.cfg.FS, m.dir)
	if stops == nil || err != nil {
		return nil, err
	}
	if err := m.cfg.FS.Remove(filepath.Join(m.dir, cleanName)); err != nil {
		return nil, err
	}
	return stops, m.cfg.FS.SyncDir(m.dir)
}

// parseCleanStop reads a marker. A line that is none vouches for nothing.
func parseCleanStop(b []byte) cleanStop {
	stops := cleanStop{}
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(line, " ", 3) // a topic may hold blanks
		if len(fields) != 3 || !strings.HasSuffix(line, "\n") {
			continue
		}
		end, err1 := strconv.ParseInt(fields[0], 10, 64)
		written, err2 := strconv.ParseInt(fields[1], 10, 64)
		if err1 == nil && err2 == nil {
			stops[strings.TrimSuffix(fields[2], "\n")] = stamp{end, written}
		}
	}
	return stops
}

// putCleanMarker marks the folder as cleanly stopped, with all logs closed. When
// that fails, as on a full disk, nothing is lost: the next start recovers.
func (m *Manager) putCleanMarker(logs []*Log) {
	b, err := m.cleanMarker(logs)
	if err == nil {
		err = replaceFile(m.cfg.FS, m.dir, cleanName, b)
	}
	if err != nil {
		m.cfg.Logger.Warn("stopped cleanly, but that cannot be noted: the next start checks the last segments",
			slog.String("folder", m.dir), slog.Any("error", err))
	}
}

// cleanMarker returns the marker's content.
func (m *Manager) cleanMarker(logs []*Log) ([]byte, error) {
	var b bytes.Buffer
	for _, l := range logs {
		files, err := listSegments(m.cfg.FS, l.dir)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			continue // was removed by somebody
		}
		s := stampOf(files[len(files)-1])
		// Not flushed is a log whose topic was about to be deleted.
		if s.end == l.logEnd.Load() && s.end == l.flushed.Load() {
			fmt.Fprintf(&b, "%d %d %s\n", s.end, s.writtenNs, filepath.Base(l.dir))
		}
	}
	return b.Bytes(), nil
}
