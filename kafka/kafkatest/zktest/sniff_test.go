package zktest

import (
	"math/rand/v2"
	"testing"
)

// The same requests are counted in whatever pieces they come.
func TestSplitterInPieces(t *testing.T) {
	frame := func(b Fields) Fields { return append(Fields{}.Int(int32(len(b))), b...) }
	var stream Fields
	stream = append(stream, frame(handshakeRequest(0, Session{}))...)
	want := map[Op]int64{}
	for i := range 60 {
		op := []Op{OpCreate, OpPing, OpMulti}[i%3]
		body := Fields{}.Int(int32(i)).Int(int32(op)).Buffer(make([]byte, i*17%1000))
		stream = append(stream, frame(body)...)
		want[op]++
	}
	stream = append(stream, frame(nil)...)                                // no request at all
	stream = append(stream, frame(Fields{}.Int(1))...)                    // nor this
	stream = append(stream, frame(Fields{}.Int(1).Int(int32(OpSync)))...) // the shortest
	want[OpSync]++
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := newLedger()
		s := l.ofClient()
		for rest := []byte(stream); len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 1+rng.IntN(700)))
			s.feed(rest[:n])
			rest = rest[n:]
		}
		for op, n := range want {
			if got := l.counts()[op]; got != n {
				t.Fatalf("seed %d: %v counted %d times, want %d", seed, op, got, n)
			}
		}
		if len(l.counts()) != len(want) {
			t.Fatalf("seed %d: counted %v, want %v", seed, l.counts(), want)
		}
	}
}

// Four letters, read as a length, end the counting and nothing else.
func TestSplitterOfFourLetters(t *testing.T) {
	l := newLedger()
	s := l.ofClient()
	s.feed([]byte("ru"))
	s.feed([]byte("ok and more than one would ever send here"))
	if !s.off || len(l.counts()) != 0 {
		t.Errorf("off %v, counted %v", s.off, l.counts())
	}
}

func TestSniffedHandshake(t *testing.T) {
	l := newLedger()
	s := l.ofServer()
	answer := Fields{}.Int(0).Int(4000).Long(77).Buffer([]byte("0123456789abcdef")).Bool(false)
	s.feed(append(Fields{}.Int(int32(len(answer))), answer...))
	got, ok := l.session(77)
	if !ok || got.Timeout.Milliseconds() != 4000 || string(got.Password) != "0123456789abcdef" {
		t.Errorf("%v, %v", got, ok)
	}
	refused := Fields{}.Int(0).Int(0).Long(0).Buffer(make([]byte, 16)).Bool(false)
	l.ofServer().feed(append(Fields{}.Int(int32(len(refused))), refused...))
	if _, ok := l.session(0); ok {
		t.Error("a refused handshake left a session")
	}
}

// A length that is a lie costs no memory and ends in an error.
func TestReaderOfLies(t *testing.T) {
	for name, b := range map[string]Fields{
		"nothing":               nil,
		"a count alone":         Fields{}.Int(1 << 30),
		"fewer than counted":    Fields{}.Int(2).String("a"),
		"a negative length":     Fields{}.Int(1).Int(-5),
		"longer than the frame": Fields{}.Int(1).Int(100),
	} {
		r := NewReader(b)
		if r.Strings(); r.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
