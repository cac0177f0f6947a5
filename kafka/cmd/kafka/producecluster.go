package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"kafkalab/kafka/producer"
)

// toCluster publishes to all brokers that are registered in ZooKeeper.
func (o *produceOptions) toCluster(ctx context.Context, std stdio) error {
	reg, err := o.zk.open(ctx, std.Err)
	if err != nil {
		return err
	}
	defer closeRegistry(reg, std.Err)
	if err := o.avro.open(ctx, o.connect); err != nil {
		return err
	}
	defer o.avro.close()
	if _, err := o.zk.liveBrokers(ctx, reg, std.Err); err != nil {
		return err
	}
	c, err := producer.OpenCluster(ctx, producer.ClusterConfig{Config: o.cfg, Registry: reg})
	if err != nil {
		return err
	}
	if o.audit.on {
		events, err := producer.OpenCluster(ctx, producer.ClusterConfig{Config: o.eventsConfig(), Registry: reg})
		if err != nil {
			return errors.Join(err, c.Close(ctx))
		}
		return o.auditedToCluster(ctx, std, c, events)
	}
	send := func(lines [][]byte) (int, error) {
		return o.avro.sendEncoded(lines, func(payloads [][]byte) error { return c.Send(ctx, o.topic, nil, payloads...) })
	}
	longest := o.longestLine()
	if o.keyed {
		k := &keyedLines{separator: []byte(o.separator), send: func(key []byte, payloads [][]byte) (int, error) {
			return o.avro.sendEncoded(payloads, func(payloads [][]byte) error { return c.Send(ctx, o.topic, key, payloads...) })
		}}
		send = k.sendAll
		longest += maxKeyBytes + len(o.separator)
	}
	err = produceLines(ctx, send, newLineBatches(std.In, o.cfg.BatchMessages, longest))
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, c.Close(closeCtx))
}

// maxKeyBytes is how long a key may be, as the whole of a line must be read before
// it is taken apart.
const maxKeyBytes = 64 << 10

// keyedLines sends lines that are a key and a payload each.
type keyedLines struct {
	separator []byte
	send      func(key []byte, payloads [][]byte) (sent int, err error)
	payloads  [][]byte
}

// sendAll sends lines, those in a row that have the same key together. It returns
// how many of them were sent before an error.
func (k *keyedLines) sendAll(lines [][]byte) (sent int, err error) {
	for sent < len(lines) {
		key, payload, err := k.cut(lines[sent])
		if err != nil {
			return sent, err
		}
		k.payloads = append(k.payloads[:0], payload)
		for _, line := range lines[sent+1:] {
			next, payload, err := k.cut(line)
			if err != nil || !bytes.Equal(next, key) {
				break // an error is told when it is this line's turn
			}
			k.payloads = append(k.payloads, payload)
		}
		if n, err := k.send(key, k.payloads); err != nil {
			return sent + n, err
		}
		sent += len(k.payloads)
	}
	return sent, nil
}

func (k *keyedLines) cut(line []byte) (key, payload []byte, err error) {
	key, payload, found := bytes.Cut(line, k.separator)
	switch {
	case !found:
		return nil, nil, fmt.Errorf("line %.60q has no key: the separator %q is not in it", line, k.separator)
	case len(key) > maxKeyBytes:
		return nil, nil, fmt.Errorf("key %.60q… has %d bytes: at most %d are taken", key, len(key), maxKeyBytes)
	}
	return key, payload, nil
}
