package broker_test

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// b11Fetches is how many fetches TestB11SystemCalls makes on one connection.
const b11Fetches = 10_000

// TestB11SystemCalls counts, from outside, what a broker asks of the kernel to
// answer fetches of 100 B to 500 KiB on one connection: one message for the
// header, held back until data follows, and sendfile for exactly what is still
// to be sent, never more. Without sendfile the same bytes come. So there is
// nothing that could wait for a timer of TCP.
func TestB11SystemCalls(t *testing.T) {
	torture.NeedStrace(t)
	bin := torture.Build(t)
	seed := random(t).Uint64()
	var sums [2][sha256.Size]byte
	for i, sendfile := range []string{"true", "false"} {
		traces := t.TempDir()
		// -ff: a file for each thread, so that no call is divided over two lines.
		// -D: strace is not between this process and the broker.
		p := torture.Start(t, "strace", "-D", "-ff", "-y", "-s", "0", "-e", "trace=sendfile,sendmsg,sendto,write,writev", "-o", filepath.Join(traces, "thread"),
			bin, "broker", "--log-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--flush-messages", "0", "--visible", "appended", "--sendfile="+sendfile)
		c, err := client.Dial(t.Context(), p.Addr(), client.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ends := b11Sizes(rand.New(rand.NewPCG(seed, 0)))
		last := ends[len(ends)-1]
		set := message.Append(nil, make([]byte, 500_000))
		for end := int64(0); end < last; end += int64(len(set)) {
			fillRandom(rand.New(rand.NewPCG(seed, uint64(end))), set)
			if _, err := c.AckedProduce(t.Context(), "a", 0, set, wire.AcksAppended, patience); err != nil {
				t.Fatal(err)
			}
		}
		whole := sha256.New()
		for k, end := range ends {
			from := int64(0)
			if k > 0 {
				from = ends[k-1]
			}
			got, err := c.Fetch(t.Context(), wire.FetchEntry{Topic: "a", Offset: from, MaxBytes: int32(end - from)})
			if err != nil || int64(len(got)) != end-from {
				t.Fatalf("fetch of %d bytes at %d gave %d: %v", end-from, from, len(got), err)
			}
			whole.Write(got)
		}
		whole.Sum(sums[i][:0])
		c.Close()
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		calls := readB11Traces(t, traces)
		if sendfile == "true" {
			calls.check(t, ends)
		} else if calls.sendfiles != nil {
			t.Errorf("%d calls of sendfile, which was switched off", len(calls.sendfiles))
		}
	}
	if sums[0] != sums[1] {
		t.Error("sendfile and the copy gave different bytes")
	}
}

// b11Sizes returns where fetches end that follow one another in a log: most are
// small, some up to 500 KiB.
func b11Sizes(rnd *rand.Rand) (ends []int64) {
	at := int64(0)
	for i := range b11Fetches {
		most := 20_000 >> rnd.IntN(8)
		if i%100 == 0 {
			most = 500 << 10
		}
		at += int64(100 + rnd.IntN(max(most-99, 1)))
		ends = append(ends, at)
	}
	return ends
}

// fillRandom gives the one message of a set another payload.
func fillRandom(rnd *rand.Rand, set []byte) {
	payload := set[message.Overhead0:]
	for i := 0; i+8 <= len(payload); i += 8 {
		v := rnd.Uint64()
		for k := range 8 {
			payload[i+k] = byte(v >> (8 * k))
		}
	}
	copy(set, message.Append(nil, payload))
}

// b11Calls are the system calls of a broker that matter here.
type b11Calls struct {
	sendfiles []b11Sendfile
	headers   int // sendmsg of a header, with more to follow
	more      int // other calls with more to follow
}

type b11Sendfile struct{ offset, count, sent int64 }

var (
	sendfileLine = regexp.MustCompile(`^sendfile\(\d+<[^>]*>, \d+<[^>]*\.kafka>, \[(\d+)\](?: => \[\d+\])?, (\d+)\)\s+= (-?\d+)`)
	moreLine     = regexp.MustCompile(`^send(?:msg|to)\(.*\bMSG_MORE\b.*\)\s+= (-?\d+)`)
)

func readB11Traces(t *testing.T, dir string) (c b11Calls) {
	t.Helper()
	threads, err := filepath.Glob(filepath.Join(dir, "thread.*"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " = ? ERESTART") {
				continue // a signal came first: the kernel makes the same call anew
			}
			if strings.HasPrefix(line, "sendfile(") {
				m := sendfileLine.FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("what is this: %s", line)
				}
				var s b11Sendfile
				for i, to := range []*int64{&s.offset, &s.count, &s.sent} {
					if *to, err = strconv.ParseInt(m[i+1], 10, 64); err != nil {
						t.Fatal(err)
					}
				}
				c.sendfiles = append(c.sendfiles, s)
			} else if m := moreLine.FindStringSubmatch(line); m != nil {
				if m[1] == strconv.Itoa(wire.ResponseHeaderSize) {
					c.headers++
				} else {
					c.more++
				}
			}
		}
	}
	return c
}

func (c *b11Calls) check(t *testing.T, ends []int64) {
	t.Helper()
	sent, useless := int64(0), 0
	for _, s := range c.sendfiles {
		end := ends[sort.Search(len(ends), func(i int) bool { return ends[i] > s.offset })] // of the fetch that it is for
		if s.count != end-s.offset {
			t.Fatalf("sendfile of %d bytes from offset %d, where the answer has %d left", s.count, s.offset, end-s.offset)
		}
		if s.sent <= 0 {
			useless++
		}
		sent += max(s.sent, 0)
	}
	if last := ends[len(ends)-1]; sent != last {
		t.Errorf("sendfile sent %d bytes, want %d", sent, last)
	}
	if c.headers != len(ends) || c.more != 0 {
		t.Errorf("%d headers were sent with more to follow, and %d other things, want %d and none", c.headers, c.more, len(ends))
	}
	// A full socket makes some calls in vain, each of which is followed by a wait.
	if n := len(c.sendfiles) - useless; n > len(ends)+int(sent>>14) || useless > n {
		t.Errorf("%d calls of sendfile for %d answers of %d bytes, %d of them in vain", len(c.sendfiles), len(ends), sent, useless)
	}
}
