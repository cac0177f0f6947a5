package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// publishTimeout bounds one attempt to publish events.
	publishTimeout = 10 * time.Second
	// publishPause is the time between two attempts, of which the first has failed. It
	// doubles up to maxPublishPause.
	publishPause    = time.Second
	maxPublishPause = 30 * time.Second
	// maxEventBatch bounds the bytes of the events that are published together.
	maxEventBatch = MaxEventBytes / 2
)

// publishWindows publishes the events of windows that are over, until Close.
func (p *Producer) publishWindows() {
	defer close(p.ended)
	for pause := publishPause; ; {
		wait := pause
		if err := p.publish(p.life, p.due(false)); err != nil {
			pause = min(2*pause, maxPublishPause)
		} else {
			now := p.cfg.Clock.Now()
			wait = time.UnixMilli(windowStart(now.UnixMilli(), p.cfg.Window.Milliseconds())).Add(p.cfg.Window).Sub(now)
			pause = publishPause
		}
		timer := p.cfg.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-p.life.Done():
			timer.Stop()
			return
		}
	}
}

// errNotSpooled says that events which are not published are not in the spool either.
var errNotSpooled = errors.New("the events are not in the spool")

// publish publishes events. Those that it could not are to be published later; if they
// would be lost with this process, the error is an [errNotSpooled] too.
func (p *Producer) publish(ctx context.Context, events []*Event) error {
	if len(events) == 0 {
		return nil
	}
	slices.SortFunc(events, func(a, b *Event) int {
		return cmp.Or(a.Window.Compare(b.Window), cmp.Compare(a.Topic, b.Topic), bytes.Compare(a.Producer[:], b.Producer[:]), cmp.Compare(a.Part, b.Part))
	})
	payloads := make([][]byte, len(events))
	for i, e := range events {
		var err error
		if payloads[i], err = e.Append(nil); err != nil {
			p.cfg.Logger.Error("monitoring events cannot be written", "error", err)
			p.keepForLater(events)
			return fmt.Errorf("%w: %w", errNotSpooled, err)
		}
	}
	// Events that are in the spool may be published and be there still: they count
	// once.
	spoolErr := p.spool.keep(payloads)
	if spoolErr != nil {
		p.cfg.Logger.Warn("events are not in the spool, and would be lost with this process", "error", spoolErr)
	}
	for done := 0; done < len(events); {
		n, size := 0, 0
		for ; done+n < len(events) && (n == 0 || size+len(payloads[done+n]) <= maxEventBatch); n++ {
			size += len(payloads[done+n])
		}
		sendCtx, cancel := context.WithTimeout(ctx, publishTimeout)
		err := p.cfg.Events.Send(sendCtx, p.cfg.Topic, nil, payloads[done:done+n]...)
		cancel()
		if err != nil {
			err = fmt.Errorf("audit: publish %d monitoring events to topic %s: %w", len(events)-done, p.cfg.Topic, err)
			p.cfg.Logger.Warn("monitoring events are tried again", "error", err)
			p.keepForLater(events[done:])
			if spoolErr != nil {
				err = fmt.Errorf("%w; %w: %w", err, errNotSpooled, spoolErr)
			}
			return err
		}
		done += n
		p.mu.Lock()
		p.stats.Events += int64(n)
		p.mu.Unlock()
	}
	if err := p.spool.keep(nil); err != nil {
		p.cfg.Logger.Warn("events that are published are still in the spool", "error", err)
	}
	return nil
}

// keepForLater lets events that were not published be published again, its own as the
// next revision.
func (p *Producer) keepForLater(events []*Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		if e.Producer != p.id {
			p.waiting = append(p.waiting, e)
			continue
		}
		p.topics[e.Topic].windows[windowKey{e.Window.UnixMilli(), e.Part}].dirty = true
	}
}

// Close refuses further Sends, waits for those under way, and publishes the events of
// all windows. Messages that Messages still holds must have been flushed, and what was
// lost of them told by [Producer.Lost], before: Close leaves Messages and Events to
// their owner. It gives up when ctx ends; events that it could not publish are an
// error, which says whether they are kept in the spool. A second Close returns what the
// first did.
func (p *Producer) Close(ctx context.Context) error {
	p.closeOnce.Do(func() { p.closeErr = p.close(ctx) })
	return p.closeErr
}

func (p *Producer) close(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	if p.sending == 0 {
		close(p.calm)
	}
	p.mu.Unlock()
	p.endLife()
	<-p.ended // its Send ends with its context
	var err error
	select {
	case <-p.calm:
	case <-ctx.Done():
		err = fmt.Errorf("audit: Sends are still under way, their messages are in no event: %w", ctx.Err())
	}
	for {
		events := p.due(true)
		failed := p.publish(ctx, events)
		if failed == nil {
			break
		}
		if ctx.Err() != nil {
			where := "they are lost"
			if p.cfg.Spool != "" && !errors.Is(failed, errNotSpooled) {
				where = "they are kept in " + p.cfg.Spool
			}
			err = errors.Join(err, fmt.Errorf("%w: %s", failed, where))
			break
		}
		select {
		case <-time.After(publishPause):
		case <-ctx.Done():
		}
	}
	return errors.Join(err, p.spool.close())
}
