package measure

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// gcPage serves a page of metrics with the text for the counter.
func gcPage(t *testing.T) (url string, value *atomic.Value, asked *atomic.Int64) {
	t.Helper()
	value, asked = new(atomic.Value), new(atomic.Int64)
	value.Store("1.5")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if value.Load() == "" {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "# TYPE %[1]s counter\n%[1]s_other 7\n%[1]s %[2]s\nmore 3\n", gcMetric, value.Load())
	}))
	t.Cleanup(s.Close)
	return s.URL, value, asked
}

func TestGarbageCollectionIsCounted(t *testing.T) {
	url, value, _ := gcPage(t)
	s := newSampler(t, SamplerConfig{MetricsURL: url})
	s.metrics.asked = time.Time{}
	value.Store("1.75")
	sample, err := s.Sample()
	if err != nil || sample.GCSeconds != 0.25 {
		t.Errorf("%v s of garbage collection, %v; want 0.25 since the sampler was made", sample.GCSeconds, err)
	}
}

// A broker that was started again counts from 0, and one that does not answer
// is for others to tell of.
func TestGarbageCollectionNeverGoesBack(t *testing.T) {
	url, value, _ := gcPage(t)
	p, err := newMetricsPage(url)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, step := range []struct {
		text string
		want float64
	}{{"2", 2}, {"", 2}, {"0.5", 2.5}, {"0.75", 2.75}, {"what", 2.75}, {"3e+00", 5}} {
		value.Store(step.text)
		now = now.Add(time.Minute)
		if got := p.read(now); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

func TestMetricsAreAskedOnceASecond(t *testing.T) {
	url, _, asked := gcPage(t)
	p, err := newMetricsPage(url)
	if err != nil {
		t.Fatal(err)
	}
	now := p.asked
	for range 100 { // every 100 ms
		now = now.Add(100 * time.Millisecond)
		p.read(now)
	}
	if got := asked.Load(); got != 11 {
		t.Errorf("asked %d times in 10 seconds, want once at first and 10 times after", got)
	}
}

func TestMetricsWithoutGarbageCollectionAreRefused(t *testing.T) {
	for name, text := range map[string]string{"another program": "up 1\n", "no number": gcMetric + " x\n"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
		if _, err := NewSampler(SamplerConfig{MetricsURL: s.URL}); err == nil || !strings.Contains(err.Error(), s.URL) {
			t.Errorf("%s: %v, want an error that names the page", name, err)
		}
		s.Close()
	}
}
