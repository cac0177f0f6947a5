package main

import (
	"context"
	"encoding/binary"

	"kafkalab/kafka/producer"
)

// perfOut is the way of a producer's messages to one partition.
type perfOut interface {
	send(ctx context.Context, payloads ...[]byte) error
	Flush(ctx context.Context) error
	Close(ctx context.Context) error
	// setBytes returns how much the partitions have grown by, if all has arrived:
	// the size of the message sets that were sent, 0 if that is not known.
	setBytes() int64
}

// open makes the way.
func (p *perfProducer) open(ctx context.Context) (perfOut, error) {
	cfg := producer.Config{
		Async: p.o.acks == producer.AcksNone, BatchMessages: p.o.batch, Acks: p.o.acks, MaxInFlight: p.o.inFlight, Codec: p.o.codec,
	}
	if p.reg == nil {
		cfg.Brokers = []string{p.o.broker}
		out, err := producer.New(ctx, cfg)
		return partitionOut{out, p.o.topic, p.partition}, err
	}
	out, err := producer.OpenCluster(ctx, producer.ClusterConfig{Config: cfg, Registry: p.reg, Partitioner: byNumber{}})
	return clusterOut{out, p.o.topic, binary.BigEndian.AppendUint32(nil, uint32(p.number))}, err
}

type partitionOut struct {
	*producer.Producer
	topic     string
	partition int32
}

func (o partitionOut) send(ctx context.Context, payloads ...[]byte) error {
	return o.Send(ctx, o.topic, o.partition, payloads...)
}

func (o partitionOut) setBytes() int64 { return o.Stats().RequestBytes }

type clusterOut struct {
	*producer.Cluster
	topic string
	key   []byte
}

func (o clusterOut) send(ctx context.Context, payloads ...[]byte) error {
	return o.Send(ctx, o.topic, o.key, payloads...)
}

func (o clusterOut) setBytes() int64 {
	st := o.Stats()
	if st.Moved > 0 {
		return 0 // some were put into requests twice
	}
	return st.RequestBytes
}

// byNumber lets producers take turns over the partitions: a key is a producer's
// number.
type byNumber struct{}

func (byNumber) Partition(_ string, key []byte, n int) int {
	return int(binary.BigEndian.Uint32(key)) % n
}
