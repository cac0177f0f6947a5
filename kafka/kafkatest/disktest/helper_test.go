package disktest

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// random returns a source of random numbers whose seed is printed, and can be
// given as KAFKALAB_SEED.
func random(t *testing.T) (seed uint64, rng *rand.Rand) {
	t.Helper()
	seed = uint64(time.Now().UnixNano())
	if s := os.Getenv("KAFKALAB_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("KAFKALAB_SEED=%d", seed)
	return seed, rand.New(rand.NewPCG(seed, 1))
}

// number returns a positive number from the environment, or a default.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: give a number from 1 up", variable, s)
	}
	return n
}

// eventually waits until what it asks for holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// web is a client of a broker's metrics server, with one connection that it
// keeps.
type web struct {
	t      *testing.T
	addr   string
	client http.Client
}

func newWeb(t *testing.T, addr string) *web {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &web{t: t, addr: addr, client: http.Client{Transport: transport, Timeout: patience}}
}

// get asks for a page.
func (w *web) get(path string) (status int, body string) {
	w.t.Helper()
	r, err := w.client.Get("http://" + w.addr + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// metric returns the sum of a metric over all its labels.
func (w *web) metric(name string) float64 {
	w.t.Helper()
	status, body := w.get("/metrics")
	sum, found := 0.0, false
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			w.t.Fatalf("metric %q: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		w.t.Fatalf("status %d, and no metric %s: %.1000s", status, name, body)
	}
	return sum
}
