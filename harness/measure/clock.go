package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// Bounds of a measurement of clocks.
const (
	// clockExchanges is how often each host is asked at most, and clockLeast how
	// often in any case.
	clockExchanges = 40
	clockLeast     = 5
	// clockWait bounds the start of the helper and each of its answers.
	clockWait = 10 * time.Second
	// maxClockLine bounds an answer, which is a number.
	maxClockLine = 64
)

// bootID is of the kernel, which has one clock.
const bootID = "/proc/sys/kernel/random/boot_id"

// Clocks measures how the clock of the broker host stands to that of the client
// host, for about the time limit. Two hosts that are one machine share a clock.
// Otherwise each is asked for its time again and again by "testbed clock", over
// a connection that is open already; of each, the answer that took the shortest
// way counts, and half of that way is how far it may be off.
func Clocks(ctx context.Context, client, broker host.Host, limit time.Duration) (resultfile.Clock, error) {
	same, err := oneMachine(ctx, client, broker)
	if err != nil {
		return resultfile.Clock{}, err
	}
	if same {
		return resultfile.Clock{Same: true}, nil
	}
	var asked [2]reading
	for i, h := range []host.Host{client, broker} {
		if asked[i], err = askClock(ctx, h, limit/2); err != nil {
			return resultfile.Clock{}, fmt.Errorf("clock of %s: %w", h.Name(), err)
		}
	}
	return difference(asked[0], asked[1]), nil
}

func oneMachine(ctx context.Context, a, b host.Host) (bool, error) {
	var boots [2]string
	for i, h := range []host.Host{a, b} {
		out, err := host.Ask(ctx, h, "cat", bootID)
		if err != nil {
			return false, fmt.Errorf("whether %s and %s are one machine: %w", a.Name(), b.Name(), err)
		}
		boots[i] = strings.TrimSpace(string(out))
	}
	return boots[0] != "" && boots[0] == boots[1], nil
}

// reading is how a clock stands to that of this machine.
type reading struct {
	ahead time.Duration
	off   time.Duration // ahead is at most so far from the truth
}

// difference is broker minus client: what is not known of both adds up.
func difference(client, broker reading) resultfile.Clock {
	return resultfile.Clock{
		OffsetSeconds: (broker.ahead - client.ahead).Seconds(),
		ErrorSeconds:  (broker.off + client.off).Seconds(),
	}
}

// askClock asks one host.
func askClock(ctx context.Context, h host.Host, limit time.Duration) (best reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit+2*clockWait)
	defer cancel()
	program, err := h.Binary(ctx, "testbed")
	if err != nil {
		return best, err
	}
	in, questions, err := os.Pipe()
	if err != nil {
		return best, err
	}
	answers, out := io.Pipe()
	defer func() { err = errors.Join(err, in.Close(), answers.Close()) }()
	stderr := host.NewTail(maxClockLine * 8)
	p, err := h.Start(ctx, host.Command{Name: "testbed clock", Args: []string{program, "clock"}, In: in, Out: out, Err: stderr})
	if err != nil {
		return best, errors.Join(err, questions.Close())
	}
	// What waits for an answer ends with the helper, and with ctx.
	go func() {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
		out.Close()
	}()
	best, err = exchange(questions, bufio.NewReaderSize(answers, maxClockLine), limit)
	if err != nil {
		err = fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), stderr)
	}
	return best, errors.Join(err, questions.Close(), p.Stop(ctx, time.Second))
}

// exchange asks for limit, but at least some times, and keeps the best answer.
// The first ones also wait for the helper's start, and so are never the best.
func exchange(questions io.Writer, answers *bufio.Reader, limit time.Duration) (best reading, err error) {
	end := time.Now().Add(limit)
	for n := 0; n < clockLeast || n < clockExchanges && time.Now().Before(end); n++ {
		asked := time.Now()
		if _, err := io.WriteString(questions, "\n"); err != nil {
			return best, err
		}
		line, err := answers.ReadSlice('\n')
		way := time.Since(asked)
		if err != nil {
			return best, err
		}
		nano, err := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64)
		if err != nil {
			return best, fmt.Errorf("answer %q: a time in nanoseconds is wanted", line)
		}
		if r := (reading{ahead: time.Unix(0, nano).Sub(asked.Round(0)) - way/2, off: way / 2}); n == 0 || r.off < best.off {
			best = r
		}
	}
	return best, nil
}

// AnswerClock answers each line of in with this host's time, in nanoseconds
// since 1970, until in ends: the helper that [Clocks] talks to.
func AnswerClock(in io.Reader, out io.Writer) error {
	for lines := bufio.NewReaderSize(in, maxClockLine); ; {
		if _, err := lines.ReadSlice('\n'); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if _, err := fmt.Fprintln(out, time.Now().UnixNano()); err != nil {
			return err
		}
	}
}
