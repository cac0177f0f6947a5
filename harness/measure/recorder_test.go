package measure

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kafkalab/results/resultfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRecorder(t *testing.T, work resultfile.Work, interval time.Duration) (*Recorder, *[]resultfile.Point) {
	t.Helper()
	points := new([]resultfile.Point)
	r, err := NewRecorder(work, 200, interval, func(p resultfile.Point) { *points = append(*points, p) })
	if err != nil {
		t.Fatal(err)
	}
	return r, points
}

func TestRecorderPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, points := newRecorder(t, resultfile.Produce, 50*time.Millisecond)
		r.Start()
		r.Add(10)
		r.Arrived(4)
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		r.Add(5)
		r.Arrived(3) // an older answer: not taken
		time.Sleep(25 * time.Millisecond)
		mark := r.Mark()
		time.Sleep(25 * time.Millisecond)
		synctest.Wait() // the interval's own point would be too close to the marked one
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		r.Add(1)
		r.Arrived(16)
		time.Sleep(10 * time.Millisecond)
		final := r.Stop()

		want := []resultfile.Point{
			{},
			{Seconds: 0.05, Messages: 10, Bytes: 2000, Arrived: 4},
			{Seconds: 0.075, Messages: 15, Bytes: 3000, Arrived: 4},
			{Seconds: 0.15, Messages: 15, Bytes: 3000, Arrived: 4},
			{Seconds: 0.16, Messages: 16, Bytes: 3200, Arrived: 16},
		}
		if len(*points) != len(want) {
			t.Fatalf("points %+v, want %+v", *points, want)
		}
		for i, p := range *points {
			if p != want[i] {
				t.Errorf("point %d = %+v, want %+v", i, p, want[i])
			}
		}
		if mark != want[2] || final != want[4] {
			t.Errorf("Mark = %+v, Stop = %+v", mark, final)
		}
		r.Add(100)
		time.Sleep(time.Second)
		if again := r.Stop(); again != final || r.Mark() != final || len(*points) != len(want) {
			t.Errorf("after Stop: Stop = %+v, %d points", again, len(*points))
		}
	})
}

func TestConsumedMessagesHaveArrived(t *testing.T) {
	r, points := newRecorder(t, resultfile.Consume, DefaultInterval)
	r.Start()
	r.Add(3)
	if final := r.Stop(); final.Arrived != 3 || final.Messages != 3 {
		t.Errorf("final point %+v, want 3 messages arrived", final)
	}
	if first := (*points)[0]; first != (resultfile.Point{}) {
		t.Errorf("first point %+v is not at zero", first)
	}
}

func TestStopBeforeStart(t *testing.T) {
	r, points := newRecorder(t, resultfile.Produce, DefaultInterval)
	if p := r.Mark(); p != (resultfile.Point{}) {
		t.Errorf("Mark before Start = %+v", p)
	}
	if p := r.Stop(); p != (resultfile.Point{}) || len(*points) != 0 {
		t.Errorf("Stop before Start = %+v and %d points", p, len(*points))
	}
}

// Under the race detector: counted from many goroutines, nothing is missing at
// the end and no point goes back.
func TestRecorderCountsFromManyGoroutines(t *testing.T) {
	r, points := newRecorder(t, resultfile.Produce, time.Millisecond)
	r.Start()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range int64(20_000) {
				r.Add(1)
				r.Arrived(i)
			}
			r.Mark()
		})
	}
	wg.Wait()
	if final := r.Stop(); final.Messages != 80_000 || final.Arrived != 19_999 {
		t.Errorf("final point %+v, want 80000 messages, 19999 arrived", final)
	}
	last := resultfile.Point{}
	for _, p := range *points {
		if p.Seconds < last.Seconds || p.Messages < last.Messages || p.Arrived < last.Arrived {
			t.Fatalf("point %+v goes back behind %+v", p, last)
		}
		last = p
	}
}

func TestRecorderRefuses(t *testing.T) {
	for _, tt := range []struct {
		payloadBytes int
		interval     time.Duration
	}{{0, DefaultInterval}, {200, 0}, {200, -1}, {200, MaxInterval + 1}} {
		if _, err := NewRecorder(resultfile.Produce, tt.payloadBytes, tt.interval, nil); err == nil {
			t.Errorf("a recorder of %+v was made", tt)
		}
	}
}
