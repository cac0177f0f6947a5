package consumer

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAdaptedFetch(t *testing.T) {
	const kib, mib, us, ms = 1 << 10, 1 << 20, time.Microsecond, time.Millisecond
	for _, c := range []struct {
		what string
		size fetchSize
		a    answered
		want fetchSize
	}{
		{"memory of this machine", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 90 * us, 50 * us, 30 * us}, fetchSize{400 * kib, 0, 4 * mib}},
		{"fast enough", fetchSize{1600 * kib, 0, 4 * mib}, answered{1600 * kib, 1600 * kib, 700 * us, 600 * us, 300 * us}, fetchSize{1600 * kib, 0, 4 * mib}},
		{"1 Gb/s", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 1700 * us, 1600 * us, 100 * us}, fetchSize{200 * kib, 0, 4 * mib}},
		{"a slow link that is full", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 200 * ms, 199 * ms, 1 * ms}, fetchSize{200 * kib, 0, 4 * mib}},
		{"up to the most", fetchSize{3 * mib, 0, 4 * mib}, answered{3 * mib, 3 * mib, 400 * us, 300 * us, 0}, fetchSize{4 * mib, 0, 4 * mib}},
		{"no further", fetchSize{4 * mib, 0, 4 * mib}, answered{4 * mib, 4 * mib, 400 * us, 300 * us, 0}, fetchSize{4 * mib, 0, 4 * mib}},
		{"a most below the least", fetchSize{1000, 0, 1000}, answered{1000, 1000, 10 * us, 5 * us, 0}, fetchSize{1000, 0, 1000}},
		{"a slow application", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 20 * ms, 1 * ms, 0}, fetchSize{100 * kib, 0, 4 * mib}},
		{"no further down", fetchSize{100 * kib, 0, 4 * mib}, answered{100 * kib, 100 * kib, 20 * ms, 1 * ms, 0}, fetchSize{64 * kib, 0, 4 * mib}},
		{"a slow application and a broker far away", fetchSize{400 * kib, 400 * kib, 4 * mib}, answered{400 * kib, 400 * kib, 20 * ms, 1 * ms, 0}, fetchSize{400 * kib, 400 * kib, 4 * mib}},
		{"a broker far away", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 50 * ms, 45 * ms, 40 * ms}, fetchSize{400 * kib, 400 * kib, 4 * mib}},
		{"as far as it goes", fetchSize{3 * mib, 2 * mib, 4 * mib}, answered{3 * mib, 3 * mib, 50 * ms, 45 * ms, 40 * ms}, fetchSize{4 * mib, 4 * mib, 4 * mib}},
		{"far away, but the link is full", fetchSize{2 * mib, 2 * mib, 4 * mib}, answered{2 * mib, 2 * mib, 18 * ms, 17 * ms, 3 * ms}, fetchSize{2 * mib, 2 * mib, 4 * mib}},
		{"a slow disk", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 3 * ms, 2900 * us, 2 * ms}, fetchSize{400 * kib, 400 * kib, 4 * mib}},
		{"the log's end, nothing came", fetchSize{4 * mib, 2 * mib, 4 * mib}, answered{4 * mib, 0, 5000 * ms, 5000 * ms, 5000 * ms}, fetchSize{64 * kib, 0, 4 * mib}},
		{"nothing came, and the most is less than the least", fetchSize{1000, 0, 1000}, answered{1000, 0, 5000 * ms, 5000 * ms, 5000 * ms}, fetchSize{1000, 0, 1000}},
		{"the log's end, a little", fetchSize{200 * kib, 200 * kib, 4 * mib}, answered{200 * kib, 50 * kib, 100 * ms, 99 * ms, 99 * ms}, fetchSize{100 * kib, 0, 4 * mib}},
		{"the log's end, a lot", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 51 * kib, 10 * us, 0, 0}, fetchSize{200 * kib, 0, 4 * mib}},
		{"waited for at the log's end, and then it was a lot", fetchSize{200 * kib, 0, 4 * mib}, answered{200 * kib, 200 * kib, 900 * ms, 899 * ms, 899 * ms}, fetchSize{400 * kib, 400 * kib, 4 * mib}},
	} {
		if got := c.size.after(c.a); got != c.want {
			t.Errorf("%s: after %+v with %d: %d, want %d", c.what, c.a, c.size, got, c.want)
		}
	}
}

// TestAdaptedFetchSettles: at a steady rate, whatever it is and however far away the
// broker, the size comes to rest within its bounds.
func TestAdaptedFetchSettles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bytesPerSecond := rapid.Float64Range(1e4, 1e10).Draw(rt, "bytes/s")
		trip := time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(rt, "round trip"))
		busy := time.Duration(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(rt, "application's time for 200 KiB"))
		size := fetchSize{now: rapid.IntRange(MinAdaptedFetchBytes, MaxAdaptedFetchBytes).Draw(rt, "size"), most: MaxAdaptedFetchBytes}
		var last []int
		for range 60 {
			if size.now < MinAdaptedFetchBytes || size.now > MaxAdaptedFetchBytes {
				rt.Fatalf("size %d", size)
			}
			// Two ranges are on their way: one travels while the other is handled.
			a := answered{asked: size.now, got: size.now}
			transfer := time.Duration(float64(size.now) / bytesPerSecond * 1e9)
			work := time.Duration(float64(busy) * float64(size.now) / DefaultFetchBytes)
			a.waited = max(0, trip-transfer-work)
			a.received = max(0, transfer-work) + a.waited
			a.took = work + a.received
			size = size.after(a)
			last = append(last, size.now)
		}
		last = last[40:]
		if slices.Min(last) != slices.Max(last) {
			rt.Fatalf("it does not come to rest: %d", last)
		}
	})
}

func TestFetchMemory(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	m := newFetchMemory(8 * mib)
	a, n := m.join(200 * kib)
	if n != 200*kib {
		t.Errorf("the first begins with %d", n)
	}
	if n := a.resize(4 * mib); n != 4*mib {
		t.Errorf("alone it gets %d", n)
	}
	b, _ := m.join(200 * kib)
	if n := b.resize(4 * mib); n != 4*mib {
		t.Errorf("two get %d, there is enough for both", n)
	}
	c, n := m.join(200 * kib)
	if n != 64*kib+8*mib-2*(4*mib-64*kib) {
		t.Errorf("the third begins with %d: what is left", n)
	}
	if n := a.resize(4 * mib); n != 4*mib {
		t.Errorf("that a third has come takes it down to %d, though it wants no more", n)
	}
	c.resize(400 * kib)
	if n, want := a.resize(4*mib), 64*kib+8*mib/3; n != want {
		t.Errorf("once the third wants more it goes down to %d, want %d", n, want)
	}
	if n := c.resize(400 * kib); n != 400*kib {
		t.Errorf("the third gets %d", n)
	}
	if n := a.resize(4 * mib); n <= 64*kib+8*mib/3 {
		t.Errorf("with the third content it stays at %d", n)
	}
	b.leave()
	b.leave()
	if n := a.resize(4 * mib); n != 4*mib {
		t.Errorf("with one gone it gets %d", n)
	}
	if n := b.resize(4 * mib); n != MinAdaptedFetchBytes {
		t.Errorf("what has left gets %d", n)
	}
	if n := c.resize(1000); n != 1000 {
		t.Errorf("less than the smallest: %d", n)
	}
}

// TestFetchMemoryIsBounded: whatever streams ask for, together they get no more than
// there is, none less than the smallest fetch, and who has asked for more than there
// is gets an even share once the others have come round.
func TestFetchMemoryIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		total := rapid.IntRange(1, 64<<20).Draw(rt, "total")
		m := newFetchMemory(total)
		var shares []*fetchShare
		check := func() {
			used, short := 0, 0
			for _, s := range shares {
				used += s.extra
				if s.short {
					short++
				}
			}
			if used != m.used || used > total || m.shares != len(shares) || m.short != short {
				rt.Fatalf("of %d bytes %d are used, %d are counted; %d shares of %d; %d short of %d", total, used, m.used, m.shares, len(shares), m.short, short)
			}
		}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			switch i := rapid.IntRange(0, 2).Draw(rt, "step"); {
			case i == 0 || len(shares) == 0:
				s, n := m.join(DefaultFetchBytes)
				if shares = append(shares, s); n < MinAdaptedFetchBytes || n > DefaultFetchBytes {
					rt.Fatalf("begins with %d", n)
				}
			case i == 1:
				at := rapid.IntRange(0, len(shares)-1).Draw(rt, "who leaves")
				shares[at].leave()
				shares = slices.Delete(shares, at, at+1)
			default:
				want := rapid.IntRange(1, MaxAdaptedFetchBytes).Draw(rt, "want")
				n := shares[rapid.IntRange(0, len(shares)-1).Draw(rt, "who asks")].resize(want)
				if n > want || n < min(want, MinAdaptedFetchBytes) {
					rt.Fatalf("wanted %d, got %d", want, n)
				}
			}
			check()
		}
		if len(shares) == 0 {
			return
		}
		even := MinAdaptedFetchBytes + total/len(shares)
		for range 3 {
			for _, s := range shares {
				s.resize(MaxAdaptedFetchBytes)
				check()
			}
		}
		for i, s := range shares {
			if n := MinAdaptedFetchBytes + s.extra; n < min(even, MaxAdaptedFetchBytes) {
				rt.Fatalf("share %d of %d has %d, less than the even %d", i, len(shares), n, even)
			}
		}
	})
}
