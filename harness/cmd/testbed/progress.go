package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"kafkalab/harness/runner"
	"kafkalab/results/resultfile"
)

// progress shows how a run goes on: a bar for the running attempt on a
// terminal, a line for each phase elsewhere, and a line for each attempt that
// has ended on both.
type progress struct {
	out io.Writer

	bars *mpb.Progress // nil: not on a terminal
	bar  *mpb.Bar      // of the running attempt
	line barLine

	shown string // the last phase that got a line: attempt and phase
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if isTerminal(out) {
		p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(72), mpb.WithRefreshRate(150*time.Millisecond))
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// update is called by the runner, one call at a time.
func (p *progress) update(u runner.Update) {
	switch {
	case u.Note != "":
		p.say("%s  %s: %s", place(u), u.Label, u.Note)
	case u.Ended:
		p.endBar()
		p.say("%s  %s: %s", place(u), u.Label, outcome(u))
	case p.bars != nil:
		p.draw(u)
	default:
		if now := u.Attempt.ID + string(u.Phase); now != p.shown {
			p.shown = now
			p.say("%s  %s: %s (%s)", place(u), u.Label, u.Phase, timeLeft(u.Left, " in all"))
		}
	}
}

// say writes a line, above the bar if there is one.
func (p *progress) say(format string, args ...any) {
	out := p.out
	if p.bars != nil {
		out = p.bars
	}
	// Progress that cannot be shown is no reason to stop measuring.
	_, _ = fmt.Fprintf(out, format+"\n", args...)
}

// timeLeft says about how long it still takes.
func timeLeft(d time.Duration, of string) string {
	if d < time.Second {
		return "longer than estimated"
	}
	return "about " + minutes(d) + " left" + of
}

// place says which attempt it is.
func place(u runner.Update) string {
	return fmt.Sprintf("[%d/%d] %s", u.Number, u.Total, u.Attempt.Scenario)
}

// outcome is an attempt in half a line.
func outcome(u runner.Update) string {
	a := u.Attempt
	text := string(a.Outcome)
	if a.Messages > 0 && a.Seconds > 0 {
		text += fmt.Sprintf(", %s messages/s (%s in %.2f s", thousands(int64(a.MessagesPerSecond()+0.5)), thousands(a.Messages), a.Seconds)
		if a.BrokerCPUSeconds > 0 {
			text += fmt.Sprintf(", broker %.1f µs of processor a message", a.BrokerCPUSeconds/float64(a.Messages)*1e6)
		}
		text += ")"
	}
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	if u.Kept {
		text += ", kept"
	} else if a.Repetition > 0 {
		text += fmt.Sprintf(", repetition %d", a.Repetition)
	}
	if a.Outcome == resultfile.Valid && !a.Verified {
		text += ", contents verified in part"
	}
	return text
}

// barLine is what stands around the bar. It is read by the drawing goroutine,
// so it goes there by a channel of one.
type barLine chan runner.Update

// draw brings the bar up to date.
func (p *progress) draw(u runner.Update) {
	if p.bar == nil {
		p.line = make(barLine, 1)
		line, last := p.line, u
		current := func() runner.Update {
			select {
			case last = <-line:
			default:
			}
			return last
		}
		p.bar = p.bars.AddBar(0, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
				u := current()
				return fmt.Sprintf("%s  %s: %s ", place(u), u.Label, u.Phase)
			})),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
				u := current()
				share := ""
				if u.Of > 0 {
					share = fmt.Sprintf("%3d %%, ", 100*min(u.Done, u.Of)/u.Of)
				}
				return fmt.Sprintf(" %s%s", share, timeLeft(u.Left, ""))
			})))
	}
	select { // the newest replaces one that was not drawn
	case <-p.line:
	default:
	}
	p.line <- u
	// One more than the whole keeps the bar from completing: the phase ends
	// with the next one.
	p.bar.SetTotal(max(u.Of, 1)+1, false)
	p.bar.SetCurrent(min(u.Done, max(u.Of, 1)))
}

func (p *progress) endBar() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar.Wait()
		p.bar = nil
	}
}

// close ends the drawing.
func (p *progress) close() {
	if p.bars != nil {
		p.endBar()
		p.bars.Wait()
	}
}
