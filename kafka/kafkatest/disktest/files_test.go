package disktest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

const (
	fewFiles       = 128
	manyPartitions = 100
	manyConns      = 200
	// limitedSegment is enough for all that is sent, but for what is to roll.
	limitedSegment = 64 << 10
	// holdTime is how long the broker is kept at its limit at least.
	holdTime = 3 * time.Second
)

// TestB05FewFiles (fault B05): a broker that may open 128 files serves 100
// partitions, and then meets 200 connections. It warned at its start; those for
// whom there is no descriptor wait, while it does not spin, and leave it enough to
// roll segments, to make partitions and topics, and to say how it is; no file of a
// partition is renamed, cut or removed; and when the connections are gone, all
// partitions work.
func TestB05FewFiles(t *testing.T) {
	l := &limited{t: t, bin: torture.Build(t), dir: filepath.Join(t.TempDir(), "log"), logs: map[torture.TopicPartition][]byte{}}
	l.start()
	if !strings.Contains(l.broker.Log(), "limit of open files is low") {
		t.Errorf("no warning at the start:\n%s", l.broker.Log())
	}
	if err := l.conn.CreateTopic(t.Context(), "many", manyPartitions); err != nil {
		t.Fatal(err)
	}
	l.serveAll()
	if err := l.write(rolling, []byte("first")); err != nil {
		t.Fatal(err)
	}
	before := segmentsIn(t, l.dir)

	tries := l.web.metric(failedAccepts)
	began := time.Now()
	crowd := l.crowd()
	eventually(t, "the broker meets its limit", func() bool { return strings.Contains(l.broker.Log(), "connection not accepted") })
	l.made("a segment", l.roll)
	l.made("a partition", l.makePartition)
	l.made("a topic", l.makeTopic)
	l.healthy()
	for rounds := 0; rounds < 2 || time.Since(began) < holdTime; rounds++ {
		l.serveAll() // who is in is served
	}
	compareSegments(t, before, segmentsIn(t, l.dir))
	// It tries again after 5 ms, then after twice that, and so on, at last once a
	// second.
	held := time.Since(began)
	tries = l.web.metric(failedAccepts) - tries
	if most := 10 + held.Seconds(); tries < 1 || tries > most {
		t.Errorf("%v attempts to accept failed in %v, 1 to %.0f were expected: it spins", tries, held, most)
	}

	for _, c := range crowd {
		c.Close()
	}
	eventually(t, "the broker is rid of the crowd", func() bool { return l.web.metric("kafka_broker_connections") <= 1 })
	l.made("a segment", l.roll)
	l.healthy()
	l.serveAll()
	compareSegments(t, before, segmentsIn(t, l.dir))

	l.stop()
	l.start()
	l.serveAll()
	l.stop()
}

const failedAccepts = "kafka_broker_accept_errors_total"

// rolling is a partition that gets so much that it needs new segments.
var rolling = torture.TopicPartition{Topic: "rolling"}

// limited is a broker with few descriptors, and a client that knows what it has
// written to it.
type limited struct {
	t        *testing.T
	bin, dir string
	broker   *torture.Process
	web      *web
	conn     *client.Conn
	logs     map[torture.TopicPartition][]byte // what was acknowledged
	sent     int
}

func (l *limited) start() {
	l.t.Helper()
	l.broker = torture.Start(l.t, "sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, fewFiles), "sh",
		l.bin, "broker", "--log-dir", l.dir, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
		"--flush-messages", "0", "--flush-interval", "100ms", "--segment-size", fmt.Sprint(limitedSegment))
	m := regexp.MustCompile(`serving metrics" listen=(\S+)`).FindStringSubmatch(l.broker.Log())
	if m == nil {
		l.t.Fatalf("the log does not tell the address of the metrics:\n%s", l.broker.Log())
	}
	l.web = newWeb(l.t, m[1])
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, l.broker.Addr(), client.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	l.conn = c
}

func (l *limited) stop() {
	l.t.Helper()
	l.conn.Close()
	if err := l.broker.Stop(); err != nil {
		l.t.Fatal(err)
	}
}

// crowd makes many connections. They stand in the queue of the listener as long
// as the broker does not take them.
func (l *limited) crowd() []net.Conn {
	l.t.Helper()
	var conns []net.Conn
	for range manyConns {
		c, err := net.DialTimeout("tcp", l.broker.Addr(), patience)
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
	}
	return conns
}

// write writes a message and waits until it is flushed. After an error it must
// not be in the log.
func (l *limited) write(p torture.TopicPartition, payload []byte) error {
	set := message.Append(nil, payload)
	_, err := l.conn.AckedProduce(l.t.Context(), p.Topic, p.Partition, set, wire.AcksFlushed, patience/2)
	if err == nil {
		l.logs[p] = append(l.logs[p], set...)
	}
	return err
}

// serveAll writes a message to each of the many partitions, and reads all there
// is of all partitions.
func (l *limited) serveAll() {
	l.t.Helper()
	for n := range int32(manyPartitions) {
		l.sent++
		if err := l.write(torture.TopicPartition{Topic: "many", Partition: n}, fmt.Appendf(nil, "message %d", l.sent)); err != nil {
			l.t.Fatal(err)
		}
	}
	for p, want := range l.logs {
		var got []byte
		for {
			set, err := l.conn.Fetch(l.t.Context(), wire.FetchEntry{Topic: p.Topic, Partition: p.Partition, Offset: int64(len(got)), MaxBytes: 1 << 20})
			if err != nil {
				l.t.Fatal(err)
			}
			if len(set) == 0 {
				break
			}
			got = append(got, set...)
		}
		if !bytes.Equal(got, want) {
			l.t.Fatalf("%v has %d bytes, %d were acknowledged: %.200q", p, len(got), len(want), got)
		}
	}
}

// roll writes as much as makes a log begin a new segment.
func (l *limited) roll() error {
	for end := len(l.logs[rolling]) + 2*limitedSegment; len(l.logs[rolling]) < end; {
		if err := l.write(rolling, bytes.Repeat([]byte("x"), limitedSegment/4)); err != nil {
			return err
		}
	}
	return nil
}

func (l *limited) makePartition() error {
	return l.write(torture.TopicPartition{Topic: "new"}, []byte("first"))
}

func (l *limited) makeTopic() error { return l.conn.CreateTopic(l.t.Context(), "later", 2) }

// made wants something that takes descriptors to succeed.
func (l *limited) made(what string, do func() error) {
	l.t.Helper()
	if err := do(); err != nil {
		l.t.Fatalf("%s: %v\n%s", what, err, l.broker.Log())
	}
}

// healthy asks the broker how it is, over a new connection.
func (l *limited) healthy() {
	l.t.Helper()
	l.web.client.CloseIdleConnections()
	if status, body := l.web.get("/healthz"); status != 200 {
		l.t.Errorf("/healthz says %d: %s", status, body)
	}
}

// segmentsIn returns the content of all segments in a log folder.
func segmentsIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".kafka" {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// compareSegments looks whether all segments are still there and begin as they
// did.
func compareSegments(t *testing.T, before, after map[string][]byte) {
	t.Helper()
	if len(before) <= manyPartitions {
		t.Fatalf("%d segments only", len(before))
	}
	for path, content := range before {
		if now, there := after[path]; !there {
			t.Errorf("%s is gone", path)
		} else if !bytes.HasPrefix(now, content) {
			t.Errorf("%s had %d bytes, and now has %d that do not begin with them", path, len(content), len(now))
		}
	}
}
