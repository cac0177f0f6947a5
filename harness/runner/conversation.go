package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kafkalab/harness/host"
)

const (
	// silenceLimit is how long a client may say nothing. It reports at least
	// four times a second while it works.
	silenceLimit = 20 * time.Second
	// clientGrace is how long a client that is told to end may take for it.
	clientGrace = 1500 * time.Millisecond
	// eventsAhead bounds the events that wait to be looked at.
	eventsAhead = 256
)

// conversation is a client process and the talk with it.
type conversation struct {
	process host.Process
	// patience is how long a client that gives up may take to say what it has
	// found: its driver may not return.
	patience time.Duration
	events   chan Event
	over     chan struct{} // closed when nobody listens any more
	proceed  *os.File      // the client's input, our end
	input    *os.File      // and its end
	errors   *os.File      // what it writes to standard error
	lastLine string        // of that, when it has ended
}

// converse starts a client process on the client host and tells it what to do.
func (s *session) converse(ctx context.Context, t *trial, spec Spec) (*conversation, error) {
	binary, err := s.Client.Binary(ctx, "testbed")
	if err != nil {
		return nil, err
	}
	dir, err := s.Results.LogDir(t.attempt.ID)
	if err != nil {
		return nil, err
	}
	c := &conversation{patience: max(spec.Stall/2, 2*time.Second), events: make(chan Event, eventsAhead), over: make(chan struct{})}
	name := "client-" + string(spec.Work) + ".log"
	if spec.Fill {
		name = "client-fill.log"
	}
	if c.errors, err = os.Create(filepath.Join(dir, name)); err != nil {
		return nil, err
	}
	if c.input, c.proceed, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, c.errors.Close())
	}
	c.process, err = s.Client.Start(ctx, host.Command{
		Name: "testbed client", Args: []string{binary, "client"},
		In: c.input, Out: &lines{handle: c.hear}, Err: c.errors,
	})
	if err == nil {
		err = json.NewEncoder(c.proceed).Encode(spec)
	}
	if err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

// hear takes a line of the client. It waits until the event is looked at, so
// that none is lost, but no longer than somebody looks.
func (c *conversation) hear(line []byte) error {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("the client said %q, which is no event: %w", line[:min(len(line), 200)], err)
	}
	select {
	case c.events <- e:
	case <-c.over:
	}
	return nil
}

// goOn lets a client go on that waits.
func (c *conversation) goOn() error {
	if _, err := c.proceed.WriteString("go\n"); err != nil {
		return fmt.Errorf("the client no longer listens: %w", err)
	}
	return nil
}

// close ends the client if it has not ended, and lets go of everything.
func (c *conversation) close(ctx context.Context) error {
	errs := []error{c.proceed.Close()}
	if c.process != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*clientGrace)
		defer cancel()
		errs = append(errs, c.process.Stop(stopping, clientGrace))
	}
	close(c.over)
	c.lastLine = lastLine(c.errors)
	return errors.Join(append(errs, c.input.Close(), c.errors.Close())...)
}

// lastLineBytes bounds what a failure shows of a client's complaint.
const lastLineBytes = 2 << 10

// lastLine is the end of a file's last line, "" if it cannot be read: what it
// says only adds to what is known.
func lastLine(f *os.File) string {
	tail := make([]byte, lastLineBytes)
	size, _ := f.Seek(0, io.SeekEnd)
	n, _ := f.ReadAt(tail, max(size-lastLineBytes, 0))
	text := strings.TrimSpace(string(tail[:n]))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// listen passes the client's events on until it has ended, or until something
// here is a reason to end it, which is returned. What a client says while it
// is being ended is still heard: it may be the result.
func (c *conversation) listen(ctx context.Context, died <-chan struct{}, heed func(Event) error) (why error) {
	silence := time.NewTimer(silenceLimit)
	defer silence.Stop()
	givenUp := false
	for {
		select {
		case e := <-c.events:
			if why = heed(e); why != nil {
				return errors.Join(why, c.end(heed))
			}
			switch {
			case e.GivingUp != "":
				givenUp = true
				silence.Reset(c.patience)
			case !givenUp: // whatever else it says then is no sign of life
				silence.Reset(silenceLimit)
			}
			if e.Result != nil {
				return c.end(heed)
			}
		case <-c.process.Done():
			return c.end(heed)
		case <-died:
			why = errServerDied
		case <-ctx.Done():
			why = ErrInterrupted
		case <-silence.C:
			why = errSilent
		}
		if why != nil {
			return errors.Join(why, c.end(heed))
		}
	}
}

var (
	errServerDied = errors.New("the server ended by itself")
	errSilent     = errors.New("the client says nothing any more")
)

// end asks the client to end, hears what it still says and waits until it is
// gone.
func (c *conversation) end(heed func(Event) error) error {
	var err error
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*clientGrace)
		defer cancel()
		stopped <- c.process.Stop(ctx, clientGrace)
	}()
	for {
		select {
		case e := <-c.events:
			if e.Wait {
				continue // it goes nowhere any more
			}
			err = errors.Join(err, heed(e))
		case stopErr := <-stopped:
			for {
				select {
				case e := <-c.events:
					if !e.Wait {
						err = errors.Join(err, heed(e))
					}
					continue
				default:
				}
				return errors.Join(err, stopErr)
			}
		}
	}
}
