package workload

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// payloads returns the payloads of run 9 with these sequence numbers.
func payloads(t *testing.T, sequences ...uint64) [][]byte {
	g := newGenerator(t, 9, 40)
	var all [][]byte
	for _, s := range sequences {
		g.Seek(s)
		all = append(all, bytes.Clone(g.Next()))
	}
	return all
}

func TestChecker(t *testing.T) {
	damaged := payloads(t, 2)[0]
	damaged[30]++
	foreign := bytes.Clone(newGenerator(t, 8, 40).Next())
	tests := []struct {
		name     string
		payloads [][]byte
		expected int64
		want     Result
	}{
		{"all in order", payloads(t, 0, 1, 2, 3), 4, Result{Received: 4}},
		{"nothing sent, nothing received", nil, 0, Result{}},
		{"nothing received", nil, 70, Result{Lost: 70}},
		{"two lost, at the end and between", payloads(t, 0, 2), 4, Result{Received: 2, Lost: 2}},
		{"one doubled at once", payloads(t, 0, 0, 1), 2, Result{Received: 3, Doubled: 1}},
		{"redelivered later: doubled, not reordered", payloads(t, 0, 1, 2, 0, 1), 3, Result{Received: 5, Doubled: 2}},
		{"one overtaken by two", payloads(t, 1, 2, 0, 3), 4, Result{Received: 4, Reordered: 1}},
		{"two overtaken by one", payloads(t, 2, 0, 1), 3, Result{Received: 3, Reordered: 2}},
		{"a damaged one is lost too", append(payloads(t, 0, 1), damaged), 3, Result{Received: 3, Lost: 1, Damaged: 1}},
		{"one of another run", append(payloads(t, 0), foreign), 1, Result{Received: 2, Damaged: 1, Foreign: 1}},
		{"one of the wrong size", append(payloads(t, 0), []byte("short")), 1, Result{Received: 2, Damaged: 1}},
		{"more than were sent", payloads(t, 0, 1, 2), 1, Result{Received: 3, Unexpected: 2}},
		{"the border of words and chunks", payloads(t, 63, 64, chunkBits-1, chunkBits), chunkBits, Result{Received: 4, Lost: chunkBits - 3, Unexpected: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewChecker(9)
			for _, p := range tt.payloads {
				if err := c.Check(p); err != nil {
					t.Fatal(err)
				}
			}
			got := c.Result(tt.expected)
			if got != tt.want {
				t.Errorf("Result(%d) = %+v, want %+v", tt.expected, got, tt.want)
			}
			clean := tt.want == Result{Received: tt.want.Received}
			if (got.Err() == nil) != clean {
				t.Errorf("Err = %v", got.Err())
			}
		})
	}
}

// Against a plain model: a slice with a count per sequence number.
func TestCheckerCountsWhatWasDone(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const n = 3000
	times := make([]int64, n)
	var order []uint64
	for range n {
		s := r.Uint64N(n)
		times[s]++
		order = append(order, s)
	}
	c := NewChecker(9)
	for _, p := range payloads(t, order...) {
		if err := c.Check(p); err != nil {
			t.Fatal(err)
		}
	}
	var lost, doubled int64
	for _, k := range times {
		if k == 0 {
			lost++
		} else {
			doubled += k - 1
		}
	}
	if got := c.Result(n); got.Lost != lost || got.Doubled != doubled || got.Received != n {
		t.Errorf("Result = %+v, want %d lost and %d doubled", got, lost, doubled)
	}
}

func TestCheckerMemoryIsBounded(t *testing.T) {
	c := NewChecker(9)
	for _, p := range payloads(t, 0, MaxSequences-1) {
		if err := c.Check(p); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	for _, chunk := range c.seen {
		if chunk != nil {
			made++
		}
	}
	if made != 2 {
		t.Errorf("%d chunks for two far apart messages, want 2", made)
	}
	for _, p := range payloads(t, MaxSequences, 1<<63) {
		if err := c.Check(p); err == nil {
			t.Errorf("sequence number of %x was taken", p[:8])
		}
	}
}
