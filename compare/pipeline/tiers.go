package pipeline

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/registry"
)

// Places in resultfile.Tiers.
const (
	liveTier = iota
	replicaTier
	loadTier
)

// came notes a message that was to be had in a tier at a moment.
func (r *run) came(tier int, payload []byte, at time.Time) {
	header, line, err := envelope.Open(payload)
	if err != nil {
		r.ledger.spoil(tier)
		return
	}
	// The envelope has whole milliseconds: a message is made up to one later.
	if r.ledger.take(tier, line) {
		r.plan.Delayed(tier, max(at.Sub(header.Time), 0))
	}
}

// readTier consumes a cluster's topic from its beginning until ctx ends, and
// closes ready when it has joined its group.
func (r *run) readTier(ctx context.Context, tier int, zooKeeper string, ready chan<- struct{}) (err error) {
	zk, err := coord.Connect(ctx, coord.Config{Servers: zooKeeper, SessionTimeout: r.opts.session})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, zk.Close()) }()
	g, err := consumer.OpenGroup(ctx, consumer.GroupConfig{
		Registry: registry.New(zk), Group: "services", Topics: map[string]int{topic: 1}, AutoCommit: time.Second,
	})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		err = errors.Join(err, g.Close(closing))
	}()
	close(ready)
	s := g.Streams(topic)[0]
	for {
		m, err := s.Next(ctx)
		var bad *consumer.PartitionError
		switch {
		case ctx.Err() != nil || errors.Is(err, consumer.ErrClosed):
			s.Done()
			return nil
		case errors.As(err, &bad) && bad.Temporary:
			continue
		case err != nil:
			return err
		}
		r.came(tier, m.Payload, time.Now())
	}
}

// loadPoll is the time between two looks at the output of the load: when a file
// came is known no closer.
const loadPoll = 20 * time.Millisecond

// watchLoad takes in every file of the load's output as it comes, until ctx ends,
// and what is there then.
func (r *run) watchLoad(ctx context.Context) error {
	known := map[string]bool{}
	poll := time.NewTicker(loadPoll)
	defer poll.Stop()
	for {
		over := ctx.Err() != nil
		if err := r.lookAtLoad(known); err != nil {
			return fmt.Errorf("output of the load: %w", err)
		}
		if over {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}

// lookAtLoad takes in the files that are not known yet.
func (r *run) lookAtLoad(known map[string]bool) error {
	var fresh []string
	err := filepath.WalkDir(filepath.Join(r.loadDir(), topic), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // not made yet
		case err != nil:
			return err
		case !d.IsDir() && strings.HasSuffix(path, ".gz") && !strings.HasPrefix(d.Name(), ".") && !known[path]:
			fresh = append(fresh, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	now := time.Now()
	for _, path := range fresh {
		known[path] = true
		if err := readLoaded(path, func(payload []byte) { r.came(loadTier, payload, now) }); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		r.tell()
	}
	return nil
}

// loadedHead is what stands before each payload in a file of the load: its offset
// and its length.
const loadedHead = 8 + 4

// maxLoaded bounds a payload.
const maxLoaded = 16 << 20

// readLoaded reads a file of the load: gzip of payloads behind their heads. This
// reader owes nothing to the load's own.
func readLoaded(path string, each func(payload []byte)) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(z, 64<<10)
	var payload []byte
	for {
		var head [loadedHead]byte
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head[8:])
		if n > maxLoaded {
			return fmt.Errorf("a payload of %d bytes: at most %d are possible", n, maxLoaded)
		}
		if int(n) > cap(payload) {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if _, err := io.ReadFull(in, payload); err != nil {
			return err
		}
		each(payload)
	}
}
