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

// get asks a broker's metrics server for a page.
func get(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	// Without keep-alive nothing of the client outlives the test.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// metric returns the sum of a metric over all its labels.
func metric(t *testing.T, addr, name string) float64 {
	t.Helper()
	_, body := get(t, addr, "/metrics")
	sum, found := 0.0, false
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("no metric %s", name)
	}
	return sum
}
