package measure

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// gcMetric is the processor time of garbage collection, as Go's collector for
// Prometheus names it. The runtime brings it up to date with each collection.
const gcMetric = "go_cpu_classes_gc_total_cpu_seconds_total"

const (
	// scrapeEvery keeps the questions from costing what they ask about.
	scrapeEvery = time.Second
	// scrapeLimit is how long the first answer may take, and laterLimit the
	// others, for which the next sample would wait.
	scrapeLimit    = 5 * time.Second
	laterLimit     = 250 * time.Millisecond
	maxMetricsPage = 8 << 20
)

// metricsPage reads one counter of a page of metrics.
type metricsPage struct {
	url    string
	client http.Client
	asked  time.Time
	// ended is what processes before the present one had counted, and last what
	// this one has: a program that was started again counts from 0.
	ended, last float64
}

// newMetricsPage refuses a page that is not there or does not have the counter.
func newMetricsPage(url string) (*metricsPage, error) {
	p := &metricsPage{url: url, client: http.Client{
		Timeout: scrapeLimit,
		// Without the proxies of the environment: the page is on the host itself.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}}
	now, err := p.scrape()
	if err != nil {
		return nil, fmt.Errorf("metrics at %s: %w", url, err)
	}
	p.asked, p.last, p.client.Timeout = time.Now(), now, laterLimit
	return p, nil
}

// read returns the counter. Without an answer it is the last one: a broker that
// has died or stands still is for others to tell of.
func (p *metricsPage) read(now time.Time) float64 {
	if now.Sub(p.asked) >= scrapeEvery {
		p.asked = now
		if v, err := p.scrape(); err == nil {
			if v < p.last {
				p.ended += p.last
			}
			p.last = v
		}
	}
	return p.ended + p.last
}

func (p *metricsPage) scrape() (float64, error) {
	r, err := p.client.Get(p.url)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return 0, errors.New(r.Status)
	}
	lines := bufio.NewScanner(io.LimitReader(r.Body, maxMetricsPage))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), gcMetric+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("there is no %s: a program written in Go with this metric is wanted", gcMetric)
}
