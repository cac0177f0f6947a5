package producer

import (
	"context"
	"errors"
	"fmt"
)

var errClosing = errors.New("producer was closed before a broker confirmed them")

// Flush sends all open batches and waits until a broker has confirmed all that
// was taken before: that it has read it or, with acks, what they say. What was
// lost since the last report is returned as a [*NotSentError]. Any other error
// says that messages are still waiting: when ctx has ended or, if it has no
// deadline, when no broker could be reached for DialTimeout.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrClosed
	}
	err := p.settle(ctx)
	if loss := p.takeLoss(); loss != nil {
		return loss
	}
	if err != nil {
		waiting := p.stats.Sent - p.stats.Delivered - p.stats.Dropped - p.stats.Failed
		return fmt.Errorf("flush: %d messages are still to be confirmed: %w", waiting, err)
	}
	return nil
}

// settle waits until everything taken before it is confirmed or lost. mu is held.
func (p *Producer) settle(ctx context.Context) error {
	wait := func() error {
		p.signal()
		if err := p.await(ctx); err != nil {
			return err
		}
		if p.ended {
			return ErrClosed
		}
		return nil
	}
	for p.closeAll(); p.openBytes > 0; p.closeAll() {
		if err := wait(); err != nil {
			return err
		}
	}
	p.wanted++
	round, put := p.wanted, p.put
	p.settleIfIdle()
	for p.cfg.Acks == AcksNone && p.confirmed < round || p.resolved < put {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

// Close refuses further calls, sends what has gathered, waits until a broker
// has confirmed it, and closes the connection. It gives up when ctx ends or, if
// that has no deadline, when no broker could be reached for DialTimeout. Messages
// that were not sent, or not confirmed, are counted in a [*NotSentError],
// together with those of earlier losses that no call has reported. A Flush that
// is under way then returns [ErrClosed]. A second Close returns what the first
// did.
func (p *Producer) Close(ctx context.Context) error {
	p.closeOnce.Do(func() { p.closeErr = p.close(ctx) })
	return p.closeErr
}

func (p *Producer) close(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	p.broadcast()
	cause := p.settle(ctx)
	if cause == nil {
		cause = errClosing
	}
	if p.link != nil && p.writing {
		// A write that the time limit found under way ends with its connection.
		if err := p.link.conn.Close(); err != nil {
			p.cfg.Logger.Debug("close of a connection in use", "error", err)
		}
	}
	p.cancel()
	p.mu.Unlock()
	<-p.stopped

	p.mu.Lock()
	for p.writing { // a Send of another goroutine, whose connection is closed
		if err := p.wait(context.Background()); err != nil {
			break
		}
	}
	if l := p.link; l != nil {
		p.broke(l, cause)
	}
	if p.owner != nil {
		p.left = append(p.left, p.takeBack(everything)...) // for the cluster to see to
	}
	rest := p.fill.count
	for _, b := range p.batches {
		rest.add(count{int64(b.messages), int64(len(b.set()))})
	}
	p.lose(rest, false, cause)
	p.fill, p.spare, p.batches, p.last = buffer{}, buffer{}, nil, nil
	p.openBytes, p.kept, p.full = 0, 0, 0
	p.ended = true
	p.broadcast() // a Flush that still waits would wait for ever
	err := p.takeLoss()
	p.mu.Unlock()
	p.readers.Wait()
	return err
}
