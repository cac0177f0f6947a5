package resultfile

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds on what is read of a latency file.
const (
	maxLatencyLine      = 1 << 20 // bytes of a line; an interval of ours has a few thousand
	maxLatencyIntervals = 100_000
	maxLatencyCount     = 1 << 53 // messages
	maxEpoch            = 1 << 36 // seconds; about the year 4147
)

// latencyHeaderBytes is what stands before the counts of a histogram in
// encoding V2, once it is decompressed.
const latencyHeaderBytes = 40

// ReadLatency reads what WriteLatency wrote, and puts the histograms together.
// It is strict: an unknown tag, a line that is none of the format's, intervals
// that go back, or a histogram of another kind is an error that names the
// line.
func ReadLatency(r io.Reader) (*Latency, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLatencyLine)
	l := &Latency{}
	ends := map[string]float64{}
	legend := false
	n := 0
	fail := func(err error) (*Latency, error) { return nil, fmt.Errorf("line %d: %w", n, err) }
	for lines.Scan() {
		n++
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "#[BaseTime: "):
			started, err := parseEpoch(strings.TrimPrefix(line, "#[BaseTime: "))
			if err != nil {
				return fail(err)
			}
			l.Started = started
		case strings.HasPrefix(line, "#"):
		case line == latencyLegend && !legend:
			legend = true
		case !legend:
			return fail(errors.New("the line of column names is wanted first"))
		default:
			i, h, err := parseLatencyInterval(line)
			if err == nil && i.Start < ends[i.Tag] {
				err = fmt.Errorf("%w: an interval begins at %v, but the one before it ends at %v", errBroken, i.Start, ends[i.Tag])
			}
			if err == nil && len(l.Intervals) == maxLatencyIntervals {
				err = fmt.Errorf("more than %d intervals", maxLatencyIntervals)
			}
			if err == nil {
				err = l.add(i, h)
			}
			if err != nil {
				return fail(err)
			}
			// The format keeps milliseconds: an end is known no closer.
			ends[i.Tag] = i.Start + i.Seconds - 0.002
		}
	}
	if err := lines.Err(); err != nil {
		n++
		return fail(err)
	}
	if l.Planned == nil && l.Tiers == nil {
		return nil, fmt.Errorf("there is no interval with Tag=%s, nor one of a tier", TagPlanned)
	}
	return l, nil
}

// add puts an interval to what it belongs to.
func (l *Latency) add(i LatencyInterval, h *hdrhistogram.Histogram) error {
	all := l.histogram(i.Tag)
	if h.TotalCount() > maxLatencyCount || all.TotalCount()+h.TotalCount() > maxLatencyCount {
		return fmt.Errorf("%w: more than %d messages", errBroken, int64(maxLatencyCount))
	}
	if dropped := all.Merge(h); dropped > 0 {
		return fmt.Errorf("%w: %d values beyond %v", errBroken, dropped, LatencyMost)
	}
	l.Intervals = append(l.Intervals, i)
	return nil
}

// histogram is the one of a tag, which is made if need be.
func (l *Latency) histogram(tag string) *hdrhistogram.Histogram {
	switch tag {
	case TagPlanned:
		if l.Planned == nil {
			l.Planned = NewLatencyHistogram()
		}
		return l.Planned
	case TagSent:
		if l.Sent == nil {
			l.Sent = NewLatencyHistogram()
		}
		return l.Sent
	}
	if l.Tiers == nil {
		l.Tiers = map[string]*hdrhistogram.Histogram{}
	}
	if l.Tiers[tag] == nil {
		l.Tiers[tag] = NewLatencyHistogram()
	}
	return l.Tiers[tag]
}

// parseLatencyInterval reads a line "Tag=…,start,length,max,histogram".
func parseLatencyInterval(line string) (LatencyInterval, *hdrhistogram.Histogram, error) {
	var i LatencyInterval
	fields := strings.Split(line, ",")
	if len(fields) != 5 {
		return i, nil, fmt.Errorf("%d fields: Tag=…, start, length, largest value and histogram are wanted", len(fields))
	}
	var tagged bool
	if i.Tag, tagged = strings.CutPrefix(fields[0], "Tag="); !tagged || !slices.Contains(latencyTags(), i.Tag) {
		return i, nil, fmt.Errorf("%.40q: Tag= and one of %s is wanted", fields[0], strings.Join(latencyTags(), ", "))
	}
	for k, to := range []*float64{&i.Start, &i.Seconds, &i.Max} {
		v, err := strconv.ParseFloat(fields[k+1], 64)
		if err != nil || !nonNegative(v) {
			return i, nil, fmt.Errorf("field %d is %.40q: a number from 0 is wanted", k+2, fields[k+1])
		}
		*to = v
	}
	i.Histogram = fields[4]
	h, err := decodeLatencies(i.Histogram)
	return i, h, err
}

// decodeLatencies decodes a histogram after a look at its header: one of
// another kind could be made to take any amount of memory.
func decodeLatencies(text string) (*hdrhistogram.Histogram, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	if len(raw) < 8 || int64(binary.BigEndian.Uint32(raw[4:])) != int64(len(raw)-8) {
		return nil, fmt.Errorf("histogram of %d bytes: its length does not fit", len(raw))
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[8:]))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	var head [latencyHeaderBytes]byte
	_, err = io.ReadFull(z, head[:])
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("histogram's header: %w", err)
	}
	digits, least, most := binary.BigEndian.Uint32(head[12:]), binary.BigEndian.Uint64(head[16:]), binary.BigEndian.Uint64(head[24:])
	ratio := math.Float64frombits(binary.BigEndian.Uint64(head[32:]))
	if digits != latencyDigits || least != uint64(LatencyLeast) || most != uint64(LatencyMost) || ratio != 1 {
		return nil, fmt.Errorf("histogram from %d to %d with %d digits, ratio %v: from %d to %d nanoseconds with %d digits is wanted",
			least, most, digits, ratio, int64(LatencyLeast), int64(LatencyMost), latencyDigits)
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	return h, nil
}
