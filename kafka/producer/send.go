package producer

import (
	"context"
	"fmt"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Send publishes payloads to a partition of a topic; partition -1 lets the
// broker choose, which an acknowledged producer cannot. Synchronously all
// payloads become one message set of one request, compressed if there is a codec,
// and Send returns when it is in the buffer or, with acks, acknowledged.
// Asynchronously each payload joins the open batch of its partition.
//
// Send waits while the buffer is full, unless [Config.QueueFull] says otherwise,
// or, where it writes by itself, while there is no connection. When no broker can
// be reached it gives up at the deadline of ctx or, if there is none, after
// DialTimeout. It does not keep the payloads. After an error none of the payloads
// was taken, with three exceptions: a [*PartialError] tells how many were; when
// an acknowledgement fails or ctx ends while it is awaited, the set may be in the
// log.
func (p *Producer) Send(ctx context.Context, topic string, partition int32, payloads ...[]byte) error {
	if len(payloads) == 0 {
		return nil
	}
	p.mu.Lock()
	if len(payloads) == 1 && p.sendOne(topic, partition, payloads[0]) {
		p.mu.Unlock()
		return nil
	}
	return p.sendAll(ctx, topic, partition, payloads)
}

// sendAll is Send but for the one payload that needs nothing more. mu is held, and
// released.
func (p *Producer) sendAll(ctx context.Context, topic string, partition int32, payloads [][]byte) error {
	defer p.mu.Unlock()
	r := room{ctx: ctx}
	refused, err := p.send(&r, topic, partition, payloads)
	r.close()
	p.stats.Sent += int64(refused)
	p.stats.Failed += int64(refused)
	return err
}

// sendRouted is Send for a cluster, which counts what it refuses: the last ones.
func (p *Producer) sendRouted(r *room, topic string, partition int32, payloads [][]byte) (refused int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.send(r, topic, partition, payloads)
}

// send returns how many of the payloads it has refused, which nothing else counts.
func (p *Producer) send(r *room, topic string, partition int32, payloads [][]byte) (refused int, err error) {
	size, err := p.admit(topic, partition, payloads)
	if err != nil {
		return len(payloads), err
	}
	if r.stale() {
		return len(payloads), errRetired
	}
	if r.try && !p.cfg.Async && !p.hasRoom(wire.ProduceHeaderSize(topic)) {
		return len(payloads), errBusy // before anything is compressed in vain
	}
	set := toSend{payloads: payloads, size: size, bytes: int64(size)}
	if p.cfg.Codec != message.CodecNone && (!p.cfg.Async || size > p.cfg.MaxMessageBytes) {
		k := packers.Get().(*packer)
		defer k.release()
		// This takes long, and needs nothing of the producer.
		p.mu.Unlock()
		set, err = p.compress(k, set)
		p.mu.Lock()
		if err != nil {
			return len(payloads), fmt.Errorf("send to %s-%d: %w", topic, partition, err)
		}
		if err := p.cannotWait(r); err != nil {
			return len(payloads), err
		}
	}
	switch {
	case p.cfg.Async:
		return p.sendAsync(r, topic, partition, payloads)
	case p.cfg.writesInSend():
		return p.sendDirect(r, topic, partition, set)
	}
	switch err := p.waitRoom(r, wire.ProduceHeaderSize(topic)+set.size+r.keySize()); {
	case err == errDrop:
		p.drop(len(payloads))
		return 0, nil
	case err != nil:
		return len(payloads), err
	}
	p.encode(r, topic, partition, set, nil)
	p.signal()
	return 0, nil
}

// toSend is what a synchronous Send makes a message set of.
type toSend struct {
	payloads [][]byte
	packed   []byte // the set itself, if it is compressed
	size     int    // of the set
	bytes    int64  // of its entries, uncompressed
}

// PartialError is returned by an asynchronous Send that had to stop: the first
// Taken payloads were taken, the others were not.
type PartialError struct {
	Taken int
	Err   error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%d payloads were taken: %v", e.Taken, e.Err)
}
func (e *PartialError) Unwrap() error { return e.Err }

// admit checks what Send was given and returns the size of the message set.
func (p *Producer) admit(topic string, partition int32, payloads [][]byte) (int, error) {
	if p.retired {
		return 0, errRetired
	}
	if p.closing {
		return 0, ErrClosed
	}
	if err := p.takeLoss(); err != nil {
		return 0, err
	}
	if topic != p.topic || topic == "" { // "" is that of a producer that was given none yet
		if err := message.CheckTopic(topic); err != nil {
			return 0, fmt.Errorf("send: %w", err)
		}
		p.topic = topic
	}
	if partition < -1 {
		return 0, fmt.Errorf("send to %s: partition %d: give one from 0 on, or -1 for any", topic, partition)
	}
	if partition < 0 && p.cfg.Acks != AcksNone {
		return 0, fmt.Errorf("send to %s: partition -1 cannot be acknowledged: name the partition", topic)
	}
	size := 0
	for i, payload := range payloads {
		if len(payload) > p.cfg.MaxMessageBytes && p.cfg.Codec == message.CodecNone {
			return 0, fmt.Errorf("send to %s-%d: payload %d of %d has %d bytes, at most %d are allowed: %w",
				topic, partition, i+1, len(payloads), len(payload), p.cfg.MaxMessageBytes, ErrTooLarge)
		}
		size += message.EntrySize(len(payload))
	}
	if !p.cfg.Async && size > maxSetBytes {
		return 0, fmt.Errorf("send to %s-%d: %d payloads make a message set of %d bytes, at most %d fit a request: send fewer at a time: %w",
			topic, partition, len(payloads), size, maxSetBytes, ErrTooLarge)
	}
	return size, nil
}

// hasRoom reports whether a request of n bytes fits the buffer. One that is
// larger than the whole buffer fits an empty one.
func (p *Producer) hasRoom(n int) bool {
	if p.cfg.Acks != AcksNone {
		waiting := len(p.fill.requests)
		if p.link != nil {
			waiting += len(p.link.inflight)
		}
		if waiting >= p.cfg.MaxInFlight {
			return false
		}
	}
	return len(p.fill.b) == 0 || len(p.fill.b)+len(p.fill.keys)+n <= p.cfg.MaxBufferBytes
}

// encode appends one request with a set to the buffer.
func (p *Producer) encode(r *room, topic string, partition int32, set toSend, result chan error) {
	p.beginRequest(topic, partition, set.size)
	if set.packed != nil {
		p.fill.b = append(p.fill.b, set.packed...)
	} else {
		for _, payload := range set.payloads {
			p.fill.b = message.Append(p.fill.b, payload)
		}
	}
	c := count{int64(len(set.payloads)), set.bytes}
	p.take(r, c)
	if p.owner != nil {
		start := len(p.fill.keys)
		p.fill.keys = beginKeys(p.fill.keys)
		if r.keyed {
			p.fill.keys = appendKey(p.fill.keys, r.key, len(set.payloads))
		}
		endKeys(p.fill.keys, start)
	}
	p.endRequest(c, set.size, result)
}

// beginRequest puts what precedes a set of a size into the buffer.
func (p *Producer) beginRequest(topic string, partition int32, size int) {
	if p.cfg.Acks == AcksNone {
		p.fill.b = wire.AppendProduceHeader(p.fill.b, topic, partition, size)
	} else {
		p.fill.b = wire.AppendAckedProduceHeader(p.fill.b, topic, partition, size)
	}
}

// endRequest ends the request whose set, of a size, was just put into the buffer.
func (p *Producer) endRequest(c count, size int, result chan error) {
	p.fill.count.add(c)
	p.fill.frames++
	p.stats.Requests++
	p.stats.RequestBytes += int64(size)
	if p.cfg.Acks == AcksNone {
		return
	}
	p.fill.b = wire.AppendAckedProduceTail(p.fill.b, p.cfg.Acks.wire(), client.Millis(p.cfg.AckTimeout))
	p.fill.requests = append(p.fill.requests, request{c, result})
	p.put++
}

// sendDirect writes the request from the caller's own goroutine and, with
// acks, waits for its answer. What fails after it was encoded is counted where
// that is found out.
func (p *Producer) sendDirect(r *room, topic string, partition int32, set toSend) (refused int, err error) {
	ctx := r.ctx
	for !p.canWrite(set.size) {
		if err := p.cannotWait(r); err != nil {
			return len(set.payloads), err
		}
		if !p.writing && p.link == nil {
			err = p.awaitLink(r)
		} else {
			p.signal() // for the barrier that a connection may need before it is left
			err = p.await(ctx)
		}
		if err != nil {
			return len(set.payloads), fmt.Errorf("send to %s-%d: %w", topic, partition, err)
		}
	}
	if err := p.cannotWait(r); err != nil {
		return len(set.payloads), err
	}
	if err := ctx.Err(); err != nil {
		// A write that fails is the end of the connection, and of what others await on it.
		return len(set.payloads), fmt.Errorf("send to %s-%d: %w", topic, partition, err)
	}
	var result chan error
	if p.cfg.Acks != AcksNone {
		result = make(chan error, 1)
	}
	p.encode(r, topic, partition, set, result)
	if refused, err := p.drain(ctx, false); err != nil {
		if refused > 0 {
			err = unwrittenError{err}
		}
		return refused, fmt.Errorf("send to %s-%d: %w", topic, partition, err)
	}
	if result == nil {
		return 0, nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case err := <-result:
		if err != nil {
			return 0, fmt.Errorf("send to %s-%d: %w", topic, partition, err)
		}
		return 0, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("send to %s-%d: no acknowledgement yet, so it may or may not be in the log: %w", topic, partition, ctx.Err())
	}
}

// unwrittenError is that of a write that failed before all of the request was
// written, so that a broker cannot have taken it.
type unwrittenError struct{ error }

func (e unwrittenError) Unwrap() error { return e.error }

// canWrite reports whether a Send can write a request with a set of n bytes now.
func (p *Producer) canWrite(n int) bool {
	if p.writing {
		return false
	}
	p.renew()
	return p.link != nil && !p.link.leaving && p.hasRoom(n)
}
