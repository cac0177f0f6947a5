package producer

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by calls after Close has begun.
	ErrClosed = errors.New("producer is closed")
	// ErrTooLarge says that a payload is larger than Config.MaxMessageBytes, with a
	// codec also when it is compressed, or that the payloads of one Send do not fit
	// a request.
	ErrTooLarge = errors.New("too large to be sent")
	// ErrQueueFull is returned by Send, with QueueError at once and with
	// QueueWaitAtMost after QueueTimeout, when there is no room for its messages.
	// It can be repeated.
	ErrQueueFull = errors.New("queue is full")
)

// NotSentError reports messages that Send had taken and that are not known to
// have reached a broker. Each message is reported once, by the first of Send,
// Flush or Close that is called afterwards. A Send that returns it has not
// taken its own payloads and can be repeated.
type NotSentError struct {
	Messages int64
	Bytes    int64 // of their entries, uncompressed: payloads and 9 bytes each
	// Unconfirmed is how many of Messages may have arrived nevertheless: they
	// were written to a connection that ended before the broker confirmed
	// them. The others certainly have not.
	Unconfirmed int64
	Err         error // the first cause
}

func (e *NotSentError) Error() string {
	s := fmt.Sprintf("%d messages (%d bytes) were not sent", e.Messages, e.Bytes)
	if e.Unconfirmed > 0 {
		s = fmt.Sprintf("%d messages (%d bytes) were not sent, or may not have arrived (%d of them)", e.Messages, e.Bytes, e.Unconfirmed)
	}
	return fmt.Sprintf("%s: %v", s, e.Err)
}

func (e *NotSentError) Unwrap() error { return e.Err }

// count is a number of messages and of the bytes of their entries.
type count struct{ messages, bytes int64 }

func (c *count) add(d count) { c.messages += d.messages; c.bytes += d.bytes }
func (c *count) sub(d count) { c.messages -= d.messages; c.bytes -= d.bytes }

// loss is what has to be reported.
type loss struct {
	count
	unconfirmed int64
	err         error
}

// lose notes that messages were lost for the reason err. mu is held.
func (p *Producer) lose(c count, unconfirmed bool, err error) {
	if c.messages == 0 {
		return
	}
	p.stats.Failed += c.messages
	if p.owner != nil {
		p.owner.cluster.report(c, unconfirmed, err)
		return
	}
	p.loss.note(c, unconfirmed, err)
}

func (l *loss) note(c count, unconfirmed bool, err error) {
	l.add(c)
	if unconfirmed {
		l.unconfirmed += c.messages
	}
	if l.err == nil {
		l.err = err
	}
}

// takeLoss returns what has not been reported yet, or nil. mu is held.
func (p *Producer) takeLoss() error {
	return p.loss.take()
}

// take returns what there is to report, once, or nil.
func (l *loss) take() error {
	if l.messages == 0 {
		return nil
	}
	defer func() { *l = loss{} }()
	return &NotSentError{Messages: l.messages, Bytes: l.bytes, Unconfirmed: l.unconfirmed, Err: l.err}
}
