package resultfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The tags of a latency file: from where a latency counts.
const (
	// TagPlanned counts from the moment at which a message was due. A stall of
	// the system so is in the latency of every message that was due in it, also
	// of those that could be sent only after it.
	TagPlanned = "planned"
	// TagSent counts from the moment at which the message was handed to the
	// driver: what a load generator sees that waits while the system stalls
	// (coordinated omission). It stands beside the other for comparison alone.
	TagSent = "sent"

	// Of a pipeline (NetDB'11 §4), from the making of a message, which its envelope
	// tells, until it was to be had in a tier: from the brokers that it was published
	// to, from the replica cluster, and in the output of the load.
	TagLive    = "live"
	TagReplica = "replica"
	TagLoad    = "load"
)

// Tiers are those of a pipeline, in the order in which a message reaches them.
func Tiers() []string { return []string{TagLive, TagReplica, TagLoad} }

// Values of a latency histogram are nanoseconds, known to three digits, up to
// an hour (inclusive). Below a microsecond they are not told apart.
const (
	LatencyLeast  = time.Microsecond
	LatencyMost   = time.Hour
	latencyDigits = 3
)

// NewLatencyHistogram returns an empty histogram of the only kind that latency
// files hold.
func NewLatencyHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(LatencyLeast), int64(LatencyMost), latencyDigits)
}

// Latency is the latencies of all messages of a stream.
type Latency struct {
	Planned *hdrhistogram.Histogram // from the planned send time
	Sent    *hdrhistogram.Histogram // from the real one; nil: not recorded
	// Tiers are the delays of a pipeline by [Tiers], instead of the two above; nil:
	// it is no pipeline.
	Tiers map[string]*hdrhistogram.Histogram

	// Started is the moment from which intervals count, by the client's clock.
	Started time.Time
	// Intervals are what the histograms were put together from, in the order of
	// their time.
	Intervals []LatencyInterval
}

// LatencyInterval is the latencies of the messages that came in a stretch of
// an attempt.
type LatencyInterval struct {
	Tag     string  `json:"tag"`     // TagPlanned, TagSent, or that of a tier
	Start   float64 `json:"start"`   // seconds since the attempt's clock began
	Seconds float64 `json:"seconds"` // its length
	Max     float64 `json:"max"`     // largest latency, in milliseconds as the format wants it
	// Histogram is in HdrHistogram's encoding V2: compressed, in base 64.
	Histogram string `json:"histogram"`
}

// NewLatencyInterval encodes a histogram that [NewLatencyHistogram] has made.
func NewLatencyInterval(tag string, start, seconds float64, h *hdrhistogram.Histogram) (LatencyInterval, error) {
	i := LatencyInterval{Tag: tag, Start: start, Seconds: seconds, Max: float64(h.Max()) / float64(time.Millisecond)}
	if h.LowestTrackableValue() != int64(LatencyLeast) || h.HighestTrackableValue() != int64(LatencyMost) || h.SignificantFigures() != latencyDigits {
		return i, fmt.Errorf("latencies from %d to %d with %d digits: those of NewLatencyHistogram are wanted", h.LowestTrackableValue(), h.HighestTrackableValue(), h.SignificantFigures())
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	i.Histogram = string(text)
	return i, err
}

// latencyLegend is the line of column names that the format has.
const latencyLegend = `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`

// WriteLatency writes latencies in the log format of HdrHistogram, version
// 1.3 with histograms in encoding V2, which other programs read
// (HistogramLogProcessor, HdrHistogram's plotters). Where l has no intervals
// each of its histograms becomes one.
func WriteLatency(w io.Writer, l *Latency) error {
	intervals := l.Intervals
	if len(intervals) == 0 {
		parts := map[string]*hdrhistogram.Histogram{TagPlanned: l.Planned, TagSent: l.Sent}
		maps.Copy(parts, l.Tiers)
		for _, tag := range latencyTags() {
			if parts[tag] == nil {
				continue
			}
			i, err := NewLatencyInterval(tag, 0, 1, parts[tag])
			if err != nil {
				return err
			}
			intervals = append(intervals, i)
		}
	}
	var b bytes.Buffer
	started := l.Started.UTC()
	if l.Started.IsZero() {
		started = time.Unix(0, 0).UTC()
	}
	epoch := float64(started.UnixMilli()) / 1000
	fmt.Fprintf(&b, "#[Latencies of messages, in nanoseconds: Tag=%s from the planned send time, Tag=%s from the real one]\n", TagPlanned, TagSent)
	if slices.ContainsFunc(intervals, func(i LatencyInterval) bool { return slices.Contains(Tiers(), i.Tag) }) {
		fmt.Fprintf(&b, "#[Of a pipeline: from the making of a message until it was to be had in the tier that is the tag]\n")
	}
	fmt.Fprintf(&b, "#[Histogram log format version 1.3]\n")
	fmt.Fprintf(&b, "#[BaseTime: %.3f (seconds since epoch)]\n", epoch)
	fmt.Fprintf(&b, "#[StartTime: %.3f (seconds since epoch), %s]\n", epoch, started.Format(time.RFC3339))
	fmt.Fprintln(&b, latencyLegend)
	for _, i := range intervals {
		fmt.Fprintf(&b, "Tag=%s,%.3f,%.3f,%.6f,%s\n", i.Tag, i.Start, i.Seconds, i.Max, i.Histogram)
	}
	// What could not be read back is not written.
	if _, err := ReadLatency(bytes.NewReader(b.Bytes())); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// latencyTags are all tags, in the order in which they are written.
func latencyTags() []string { return append([]string{TagPlanned, TagSent}, Tiers()...) }

// Decode returns the histogram of an interval.
func (i LatencyInterval) Decode() (*hdrhistogram.Histogram, error) {
	return decodeLatencies(i.Histogram)
}

// PutLatency writes the latencies of an attempt, before the attempt itself is
// put. Those that are there already are never written over.
func (w *Writer) PutLatency(attemptID string, l *Latency) error {
	if err := CheckName(attemptID); err != nil {
		return err
	}
	path := latencyPath(w.dir, attemptID)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: latencies of attempt %q are there already", path, attemptID), err)
	}
	var b bytes.Buffer
	if err := WriteLatency(&b, l); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return ReplaceFile(path, b.Bytes())
}

// Latency returns the latencies of an attempt, nil if it has none. The caller
// must not change them.
func (r *Result) Latency(attemptID string) *Latency { return r.latencies[attemptID] }

func latencyPath(dir, id string) string { return filepath.Join(dir, "latency", id+".hdr") }

// parseEpoch reads the number of a BaseTime line.
func parseEpoch(line string) (time.Time, error) {
	number, _, _ := strings.Cut(line, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !nonNegative(v) || v > maxEpoch {
		return time.Time{}, fmt.Errorf("base time %q: seconds since 1970 are wanted", number)
	}
	return time.UnixMilli(int64(v*1000 + 0.5)).UTC(), nil
}
