package consumer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// TestRangesRestartFromTheTrueOffset: where an answer comes short, at the end of a
// segment or for no reason, what was asked for ahead does not join. It is thrown
// away, and the next range begins with the first byte that is missing.
func TestRangesRestartFromTheTrueOffset(t *testing.T) {
	const n, fetch = 3000, 2000
	rng := testRand(t)
	log := encode(0, n, numbered)
	type answer struct {
		offset    int64
		got, most int
	}
	var answers []answer
	ends := map[int64]bool{} // of segments, each at a message
	for i, at := 0, int64(0); i < n; i++ {
		at += int64(len(encode(i, 1, numbered)))
		ends[at] = i%100 == 99
	}
	beyond := int64(0) // asked for behind the end of the log
	f := newFake(t, func(f *fakeBroker) {
		f.log = log
		f.code = func(offset int64) wire.Code {
			if offset > int64(len(log)) {
				beyond++
			}
			return wire.CodeNone
		}
		f.cut = func(offset int64, n int) int {
			got := n
			for k := int64(1); k < int64(n); k++ {
				if ends[offset+k] {
					got = int(k)
					break
				}
			}
			if rng.IntN(20) == 0 && got > 0 {
				got = 1 + rng.IntN(got)
			}
			answers = append(answers, answer{offset, got, n})
			return got
		}
	})
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = fetch })
	expect(t, s, 0, n, numbered, 0)
	st := s.Stats()
	f.mu.Lock()
	defer f.mu.Unlock()
	// The stream is to take the answers that join, and those alone.
	joined, dropped := int64(0), int64(0)
	for _, a := range answers {
		switch {
		case a.offset == joined:
			joined += int64(a.got)
		case a.offset > joined:
			dropped++
		default:
			t.Errorf("offset %d is asked for when %d is the first that is missing", a.offset, joined)
		}
	}
	if joined != int64(len(log)) || st.Bytes != joined || st.Messages != n {
		t.Errorf("%d bytes of %d join, stats %+v", joined, len(log), st)
	}
	// What was asked for behind the end may not have been looked at yet.
	if dropped == 0 || st.Discarded < dropped || st.Discarded > dropped+beyond {
		t.Errorf("%d answers do not join and %d are from behind the end, %d were thrown away", dropped, beyond, st.Discarded)
	}
}

// TestRangesOverManySegments: fetches that adapt, over segments of a broker that are
// smaller and larger than they are, while the log grows and once it is at rest.
func TestRangesOverManySegments(t *testing.T) {
	const n = 40_000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = 8 + rng.IntN(400)
		if rng.IntN(500) == 0 {
			sizes[i] = 100_000
		}
	}
	payload := func(i int) []byte {
		return append(fmt.Appendf(nil, "%08d", i), make([]byte, sizes[i]-8)...)
	}
	for _, segment := range []int64{50_000, 1 << 20} {
		t.Run(fmt.Sprintf("segments of %d", segment), func(t *testing.T) {
			b := kafkatest.Start(t, func(c *broker.Config) {
				c.Storage.SegmentBytes = segment
				c.Storage.FlushMessages, c.Storage.FlushInterval = 0, 2*time.Millisecond
			})
			p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}})
			if err != nil {
				t.Fatal(err)
			}
			produced := make(chan error, 1)
			go func() {
				for i := range n {
					if err := p.Send(testContext(t), "t", 0, payload(i)); err != nil {
						produced <- err
						return
					}
				}
				produced <- p.Close(testContext(t))
			}()
			s := open(t, b.HostPort(), nil)
			end := expect(t, s, 0, n, payload, 0)
			if err := <-produced; err != nil {
				t.Fatal(err)
			}
			t.Logf("while it grew: %+v", s.Stats())
			for name, change := range map[string]func(*consumer.PartitionConfig){
				"adapted": nil,
				"up and down": func(c *consumer.PartitionConfig) {
					i := 0
					c.AdaptBy(func(int, int) int {
						i++
						return 1000 << (i % 12)
					})
				},
			} {
				s = open(t, b.HostPort(), change)
				if got := expect(t, s, 0, n, payload, 0); got != end {
					t.Errorf("%s: end at %d, then at %d", name, end, got)
				}
				st := s.Stats()
				t.Logf("%s: %+v", name, st)
				if st.Bytes != end || st.Messages != n {
					t.Errorf("%s: of %d bytes: %+v", name, end, st)
				}
				if st.Discarded == 0 {
					t.Errorf("%s: no range that was asked for ahead came after a short one: this test does not test that", name)
				}
			}
		})
	}
}
