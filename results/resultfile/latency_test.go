package resultfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies makes ten intervals of both tags: in each a thousand values from
// 1 ms, and in the last one a minute.
func latencies(t testing.TB) *Latency {
	t.Helper()
	l := &Latency{Started: time.Unix(1_764_500_000, 250_000_000).UTC()}
	for i := range 10 {
		for _, tag := range []string{TagPlanned, TagSent} {
			h := NewLatencyHistogram()
			for v := range 1000 {
				if err := h.RecordValue(int64(v+1) * int64(time.Millisecond)); err != nil {
					t.Fatal(err)
				}
			}
			if i == 9 {
				if err := h.RecordValue(int64(time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			in, err := NewLatencyInterval(tag, float64(i), 1, h)
			if err != nil {
				t.Fatal(err)
			}
			l.Intervals = append(l.Intervals, in)
		}
	}
	return l
}

func written(t testing.TB, l *Latency) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteLatency(&b, l); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLatencyThereAndBack(t *testing.T) {
	text := written(t, latencies(t))
	l, err := ReadLatency(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !l.Started.Equal(time.Unix(1_764_500_000, 250_000_000)) || len(l.Intervals) != 20 {
		t.Errorf("started %v, %d intervals", l.Started, len(l.Intervals))
	}
	for _, h := range []*hdrhistogram.Histogram{l.Planned, l.Sent} {
		if n := h.TotalCount(); n != 10_001 {
			t.Errorf("%d messages", n)
		}
		for q, want := range map[float64]time.Duration{50: 501 * time.Millisecond, 99: 991 * time.Millisecond, 100: time.Minute} {
			got := time.Duration(h.ValueAtPercentile(q))
			if got < want-want/1000 || got > want+want/1000 {
				t.Errorf("percentile %v is %v, want %v", q, got, want)
			}
		}
	}
	if again := written(t, l); !bytes.Equal(again, text) {
		t.Error("what was read is written in another way")
	}
}

// The log reader of HdrHistogram reads the file.
func TestLatencyIsReadByTheLibrary(t *testing.T) {
	r := hdrhistogram.NewHistogramLogReader(bytes.NewReader(written(t, latencies(t))))
	count := map[string]int64{}
	for n := 0; ; n++ {
		h, err := r.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			if n != 20 {
				t.Errorf("%d intervals", n)
			}
			break
		}
		count[h.Tag()] += h.TotalCount()
		if want := int64(1_764_500_000_250 + n/2*1000); h.StartTimeMs() < want-1 || h.StartTimeMs() > want+1 {
			t.Errorf("interval %d begins at %d, want %d", n, h.StartTimeMs(), want)
		}
	}
	if count[TagPlanned] != 10_001 || count[TagSent] != 10_001 {
		t.Errorf("messages %v", count)
	}
}

// A histogram without intervals becomes one.
func TestLatencyOfOneHistogram(t *testing.T) {
	h := NewLatencyHistogram()
	if err := h.RecordValues(int64(3*time.Millisecond), 7); err != nil {
		t.Fatal(err)
	}
	l, err := ReadLatency(bytes.NewReader(written(t, &Latency{Planned: h})))
	if err != nil {
		t.Fatal(err)
	}
	if l.Sent != nil || l.Planned.TotalCount() != 7 || !l.Started.Equal(time.Unix(0, 0)) {
		t.Errorf("%+v", l)
	}
	if err := WriteLatency(new(bytes.Buffer), &Latency{Planned: hdrhistogram.New(1, 1000, 2)}); err == nil {
		t.Error("a histogram of another kind was written")
	}
	if err := WriteLatency(new(bytes.Buffer), &Latency{Sent: h}); err == nil {
		t.Error("latencies without planned ones were written")
	}
}

func TestLatencyOfAttempt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, Run{Started: time.Now(), Scenarios: []Scenario{{
		Name: "s", Work: Stream, PayloadBytes: 200, Systems: []System{{ID: "x", Role: RoleSystem}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a, err := w.Begin(Attempt{Scenario: "s", System: "x", Repetition: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.PutLatency(a.ID, latencies(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PutLatency(a.ID, latencies(t)); err == nil {
		t.Error("latencies were written over")
	}
	if err := w.PutLatency("../x", latencies(t)); err == nil {
		t.Error("a path was taken for an attempt")
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Latency(a.ID); l == nil || l.Planned.TotalCount() != 10_001 {
		t.Errorf("%+v", l)
	}
	if r.Latency("other") != nil {
		t.Error("another attempt has latencies")
	}
	// A damaged file is named, and the attempt says so.
	path := filepath.Join(dir, "latency", a.ID+".hdr")
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "latency/"+a.ID+".hdr: line 1") {
		t.Errorf("a damaged file: %v", err)
	}
	r, err = Salvage(dir)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Run.Attempts[0].Notes, " "); len(r.Faults()) != 1 || !strings.Contains(notes, "its latencies cannot be read: latency/") || r.Latency(a.ID) != nil {
		t.Errorf("faults %v, notes %q", r.Faults(), notes)
	}
}

func TestLatencyIsReadStrictly(t *testing.T) {
	good := string(written(t, latencies(t)))
	lines := strings.SplitAfter(good, "\n")
	head, first := strings.Join(lines[:5], ""), lines[5]
	other, err := hdrhistogram.New(1, 1<<50, 5).Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	payload := func(text string) string { return head + first[:strings.LastIndex(first, ",")+1] + text + "\n" }
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "no interval with Tag=planned"},
		"head alone":       {head, "no interval with Tag=planned"},
		"no legend":        {first, "line 1: the line of column names"},
		"two legends":      {head + latencyLegend + "\n" + first, "line 6"},
		"unknown tag":      {head + strings.Replace(first, "planned", "real", 1), "line 6: \"Tag=real\""},
		"no tag":           {head + strings.TrimPrefix(first, "Tag=planned,"), "line 6: 4 fields"},
		"negative start":   {head + strings.Replace(first, ",0.000,", ",-1.000,", 1), "line 6: field 2"},
		"no number":        {head + strings.Replace(first, ",1.000,", ",NaN,", 1), "line 6: field 3"},
		"goes back":        {head + lines[9] + first, "begins at 0, but the one before it ends at"},
		"only sent":        {head + lines[6], "no interval with Tag=planned"},
		"no base 64":       {payload("?"), "line 6: histogram"},
		"short":            {payload("AAAA"), "its length does not fit"},
		"other kind":       {payload(string(other)), "with 5 digits"},
		"cut":              {good[:len(good)-20], "line 25"},
		"base time":        {strings.Replace(good, "#[BaseTime: 1", "#[BaseTime: x", 1), "line 3: base time"},
		"far future":       {strings.Replace(good, "#[BaseTime: 1", "#[BaseTime: 1000000000000", 1), "line 3: base time"},
		"too long a line":  {head + "#" + strings.Repeat("x", maxLatencyLine+1), "line 6"},
		"something behind": {good + "end\n", "line 26"},
	} {
		if _, err := ReadLatency(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// More messages than can be counted are refused before they are added up.
func TestLatencyCountIsBounded(t *testing.T) {
	h := NewLatencyHistogram()
	if err := h.RecordValues(int64(time.Second), maxLatencyCount-1); err != nil {
		t.Fatal(err)
	}
	i, err := NewLatencyInterval(TagPlanned, 0, 1, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteLatency(new(bytes.Buffer), &Latency{Intervals: []LatencyInterval{i, {TagPlanned, 1, 1, i.Max, i.Histogram}}}); err == nil {
		t.Error("more than 2^53 messages were taken")
	}
}

func FuzzReadLatency(f *testing.F) {
	good := written(f, latencies(f))
	f.Add(good)
	lines := bytes.SplitAfter(good, []byte("\n"))
	head := bytes.Join(lines[:5], nil)
	f.Add(head)
	f.Add(append(bytes.Clone(head), lines[5]...))
	f.Add([]byte(fmt.Sprintf("%sTag=planned,0.000,1.000,0.000,HISTFAAAAB542pNpmSzMwMDAxAABzFCaEUoz2X+AsAA/WwWC\n", head)))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ReadLatency(bytes.NewReader(text))
		if err != nil {
			return
		}
		// What was read can be written, and is the same then.
		again, err := ReadLatency(bytes.NewReader(written(t, l)))
		if err != nil {
			t.Fatal(err)
		}
		if again.Planned.TotalCount() != l.Planned.TotalCount() || (again.Sent == nil) != (l.Sent == nil) {
			t.Errorf("%d messages, %d before", again.Planned.TotalCount(), l.Planned.TotalCount())
		}
	})
}
