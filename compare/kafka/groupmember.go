package kafka

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"kafkalab/harness/workload"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// A consumer of the group that is measured is a process of its own, so that it
// can be killed as consumers are. Its input is a line with a memberSpec, then
// commands, a line each; its output are lines too:
//
//	e {"ready":true}                                 an event, see memberEvent
//	m <broker> <partition> <offset> <sequence>       a message that was handed out
//
// A message is told before the next one is asked for, so that of a process
// that is killed everything is known but the one in its hand.

// The commands.
const (
	cmdJoin  = "join"
	cmdStats = "stats"
	cmdLeave = "leave"
)

// memberSpec is the first line.
type memberSpec struct {
	ZooKeeper      string        `json:"zookeeper"`
	Group          string        `json:"group"`
	Topic          string        `json:"topic"`
	ID             string        `json:"id"`
	RunID          uint64        `json:"run_id"`
	Session        time.Duration `json:"session_ns"`
	CommitInterval time.Duration `json:"commit_interval_ns"`
	FetchBytes     int           `json:"fetch_bytes"`
}

// memberEvent is an answer to a command, or the first sign of life.
type memberEvent struct {
	Ready  bool         `json:"ready,omitempty"`
	Joined bool         `json:"joined,omitempty"`
	Stats  *memberStats `json:"stats,omitempty"`
	Left   bool         `json:"left,omitempty"`
	Failed string       `json:"failed,omitempty"` // what it was told to do has not worked
}

// memberStats are counters since the process began.
type memberStats struct {
	Requests int64 `json:"requests"` // to ZooKeeper, without pings
	Proofs   int64 `json:"proofs"`   // of them, proofs that the session lives
	Commits  int64 `json:"commits"`  // of them, commits of an offset
	Tries    int64 `json:"tries"`    // of rebalances
	Sessions int64 `json:"sessions"` // with ZooKeeper; more than one: the first has expired
}

// damagedSequence is told of a message that is not as it was made.
const damagedSequence = -1

// maxCommandBytes bounds a line of the input.
const maxCommandBytes = 64 << 10

// leaveLimit bounds the leaving of the group.
const leaveLimit = 20 * time.Second

// Help is the life of one consumer of the group.
func (kafka) Help(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4<<10), maxCommandBytes)
	m := groupMember{broken: make(chan error, 1)} // it joins once
	if !lines.Scan() {
		return errors.Join(errors.New("no specification on standard input"), lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &m.spec); err != nil {
		return fmt.Errorf("specification: %w", err)
	}
	m.out = out
	// The end of the input ends everything, also what is under way.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands := make(chan string)
	go func() {
		defer cancel()
		for lines.Scan() {
			select {
			case commands <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	err := m.run(ctx, commands)
	return errors.Join(err, m.leave())
}

// groupMember is the consumer's process.
type groupMember struct {
	spec memberSpec

	outMu sync.Mutex
	out   io.Writer

	client *coord.Client
	group  *consumer.Group
	broken chan error         // why the reading has ended by itself
	stop   context.CancelFunc // ends the reading
	done   chan struct{}      // closed when it has ended
	record []byte
}

func (m *groupMember) run(ctx context.Context, commands <-chan string) error {
	if err := m.tell(memberEvent{Ready: true}); err != nil {
		return err
	}
	for {
		var command string
		select {
		case command = <-commands:
		case err := <-m.broken:
			return err
		case <-ctx.Done():
			return nil
		}
		var answer memberEvent
		switch command {
		case cmdJoin:
			answer = eventOf(memberEvent{Joined: true}, m.join(ctx))
		case cmdStats:
			answer.Stats = m.stats()
		case cmdLeave:
			answer = eventOf(memberEvent{Left: true}, m.leave())
		default:
			answer.Failed = fmt.Sprintf("no command is %q", command)
		}
		if err := m.tell(answer); err != nil {
			return err
		}
	}
}

func eventOf(e memberEvent, err error) memberEvent {
	if err != nil {
		return memberEvent{Failed: err.Error()}
	}
	return e
}

// tell writes an event.
func (m *groupMember) tell(e memberEvent) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return m.write(fmt.Appendf(nil, "e %s\n", text))
}

func (m *groupMember) write(line []byte) error {
	m.outMu.Lock()
	defer m.outMu.Unlock()
	_, err := m.out.Write(line)
	return err
}

// join enters the group and begins to consume.
func (m *groupMember) join(ctx context.Context) error {
	if m.client != nil {
		return errors.New("it has joined already")
	}
	var err error
	m.client, err = coord.Connect(ctx, coord.Config{Servers: m.spec.ZooKeeper, SessionTimeout: m.spec.Session})
	if err != nil {
		return err
	}
	m.group, err = consumer.OpenGroup(ctx, consumer.GroupConfig{
		Registry: registry.New(m.client), Group: m.spec.Group, ConsumerID: m.spec.ID,
		Topics: map[string]int{m.spec.Topic: 1}, AutoCommit: m.spec.CommitInterval,
		Feed: consumer.PartitionConfig{FetchBytes: m.spec.FetchBytes},
	})
	if err != nil {
		return err
	}
	ctx, m.stop = context.WithCancel(ctx)
	m.done = make(chan struct{})
	go func() {
		defer close(m.done)
		m.consume(ctx, m.group.Streams(m.spec.Topic)[0])
	}()
	return nil
}

// consume tells of every message until ctx ends.
func (m *groupMember) consume(ctx context.Context, s *consumer.GroupStream) {
	for {
		msg, err := s.Next(ctx)
		var bad *consumer.PartitionError
		switch {
		case ctx.Err() != nil || errors.Is(err, consumer.ErrClosed):
			s.Done() // what is in hand was told
			return
		case errors.As(err, &bad) && bad.Temporary:
			continue
		case err != nil:
			m.broken <- err
			return
		}
		sequence := int64(damagedSequence)
		if h, err := workload.Parse(msg.Payload, m.spec.RunID); err == nil && h.RunID == m.spec.RunID {
			sequence = int64(h.Sequence)
		}
		m.record = append(m.record[:0], 'm', ' ')
		for i, n := range [...]int64{int64(msg.Broker), int64(msg.Partition), msg.Offset, sequence} {
			if i > 0 {
				m.record = append(m.record, ' ')
			}
			m.record = strconv.AppendInt(m.record, n, 10)
		}
		if m.write(append(m.record, '\n')) != nil {
			return // nobody listens
		}
	}
}

// Times of a count: how long nothing must be under way, and how long is waited
// for such a moment.
const (
	countStays = 5 * time.Millisecond
	countLimit = 5 * time.Second
)

// stats returns the counters at a moment at which no request is under way: one
// that was sent and has not ended is no commit yet.
func (m *groupMember) stats() *memberStats {
	last, quiet := m.count()
	for limit := time.Now().Add(countLimit); time.Now().Before(limit); {
		time.Sleep(countStays)
		now, still := m.count()
		if quiet && still && now == last {
			break
		}
		last, quiet = now, still
	}
	return &last
}

func (m *groupMember) count() (st memberStats, quiet bool) {
	quiet = true
	if m.client != nil {
		zk := m.client.Stats()
		st.Requests, st.Proofs, quiet = zk.Requests, zk.Proofs, zk.Ended == zk.Requests
	}
	if m.group != nil {
		g := m.group.Stats()
		st.Commits, st.Tries, st.Sessions = g.Commits, g.Tries, g.Sessions
	}
	return st, quiet
}

// leave ends the reading and leaves the group cleanly, then ends the session.
func (m *groupMember) leave() error {
	if m.stop != nil {
		m.stop()
		<-m.done
		m.stop = nil
	}
	var errs []error
	if m.group != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
		defer cancel()
		errs = append(errs, m.group.Close(ctx)) // a second time it says the same
	}
	if m.client != nil {
		errs = append(errs, m.client.Close())
	}
	return errors.Join(errs...)
}
