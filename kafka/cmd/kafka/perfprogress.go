package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"
)

// perfProgress shows how far a measurement is: a bar on a terminal, a line now
// and then elsewhere.
type perfProgress struct {
	done atomic.Int64 // messages; whoever counts them adds to it

	out   io.Writer
	what  string
	total int64 // 0: not known
	begin time.Time

	end   chan struct{}
	ended chan struct{}
}

// drawInterval is how often a bar is drawn.
const drawInterval = 200 * time.Millisecond

// startProgress shows progress until stop. Lines come at the interval, 0: none.
func startProgress(out io.Writer, what string, total int64, interval time.Duration) *perfProgress {
	p := &perfProgress{out: out, what: what, total: total, begin: time.Now(), end: make(chan struct{}), ended: make(chan struct{})}
	show := func() { p.lines(interval) }
	if isTerminal(out) {
		show = p.bar
	}
	go func() {
		defer close(p.ended)
		show()
	}()
	return p
}

// stop ends the showing.
func (p *perfProgress) stop() {
	select {
	case <-p.end:
	default:
		close(p.end)
	}
	<-p.ended
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// text says how far it is.
func (p *perfProgress) text() string {
	done := p.done.Load()
	of := ""
	if p.total > 0 {
		of = fmt.Sprintf(" of %d", p.total)
	}
	return fmt.Sprintf("%d%s messages %s, %.0f/s", done, of, p.what, float64(done)/time.Since(p.begin).Seconds())
}

func (p *perfProgress) lines(interval time.Duration) {
	if interval == 0 {
		<-p.end
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-p.end:
			return
		case <-tick.C:
			// Progress that cannot be shown is no reason to stop measuring.
			_, _ = fmt.Fprintln(p.out, p.text())
		}
	}
}

func (p *perfProgress) bar() {
	bars := mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(40), mpb.WithRefreshRate(drawInterval))
	bar := bars.AddBar(0, mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + p.text() })))
	tick := time.NewTicker(drawInterval)
	defer tick.Stop()
	for {
		select {
		case <-p.end:
			bar.Abort(true)
			bars.Wait()
			return
		case <-tick.C:
			done := p.done.Load()
			// One more than the whole keeps the bar from completing before the end.
			bar.SetTotal(max(p.total, done)+1, false)
			bar.SetCurrent(done)
		}
	}
}
