package etl

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/client"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/registry"
)

func TestMain(m *testing.M) {
	if hdfsShell() {
		return
	}
	goleak.VerifyTestMain(m)
}

// noon is when loads of tests are planned, unless they say otherwise.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dial(t testing.TB, address string) *client.Conn {
	t.Helper()
	conn, err := client.Dial(testContext(t), address, client.Config{})
	must(t, err)
	return conn
}

// cluster is some brokers, and what was published to them.
type cluster struct {
	t       testing.TB
	brokers []*kafkatest.Broker
	sent    map[string]int // payloads, how often
	made    int
}

func startCluster(t testing.TB, brokers int, options ...kafkatest.Option) *cluster {
	t.Helper()
	c := &cluster{t: t, sent: map[string]int{}}
	for i := range brokers {
		c.brokers = append(c.brokers, kafkatest.Start(t, append(slices.Clone(options), kafkatest.WithID(int32(i)))...))
	}
	return c
}

// registered returns the brokers as they stand in ZooKeeper.
func (c *cluster) registered() []registry.Broker {
	var all []registry.Broker
	for i, b := range c.brokers {
		all = append(all, registered(c.t, int32(i), b.HostPort()))
	}
	return all
}

func registered(t testing.TB, id int32, address string) registry.Broker {
	host, port, found := strings.Cut(address, ":")
	b := registry.Broker{ID: id, Creator: "test", Host: host}
	if _, err := fmt.Sscan(port, &b.Port); err != nil || !found {
		t.Fatalf("address %q: %v", address, err)
	}
	return b
}

func (c *cluster) create(topic string, partitions int32) {
	c.t.Helper()
	for _, b := range c.brokers {
		conn := dial(c.t, b.HostPort())
		must(c.t, conn.CreateTopic(testContext(c.t), topic, partitions))
		must(c.t, conn.Close())
	}
}

// publish publishes n numbered messages to a partition, made at a time, in sets of
// ten; with a codec the sets are compressed.
func (c *cluster) publish(broker int, topic string, partition int32, n int, made time.Time, codec message.Codec) {
	c.t.Helper()
	var payloads [][]byte
	for range n {
		c.made++
		payloads = append(payloads, enveloped(made, c.made))
	}
	c.send(broker, topic, partition, codec, payloads...)
}

// enveloped returns a payload in an envelope.
func enveloped(made time.Time, sequence int) []byte {
	h := envelope.Header{Time: made, Server: "front1", Producer: envelope.ProducerID{1}, Sequence: uint64(sequence)}
	body := fmt.Sprintf("message %d %s", sequence, strings.Repeat("x", sequence%97))
	return envelope.Append(nil, h, []byte(body))
}

func (c *cluster) send(broker int, topic string, partition int32, codec message.Codec, payloads ...[]byte) {
	c.t.Helper()
	p, err := producer.New(testContext(c.t), producer.Config{
		Brokers: []string{c.brokers[broker].HostPort()}, Acks: producer.AcksFlushed, Codec: codec,
	})
	must(c.t, err)
	for some := range slices.Chunk(payloads, 10) {
		must(c.t, p.Send(testContext(c.t), topic, partition, some...))
	}
	must(c.t, p.Close(testContext(c.t)))
	for _, b := range payloads {
		c.sent[string(b)]++
	}
}

func (c *cluster) config(topics ...string) RunConfig {
	return RunConfig{PlanConfig: PlanConfig{Brokers: c.registered(), Topics: topics}}
}

// testFolder returns a folder in a file system, whose clock stands at noon.
func testFolder(fsys vfs.FS, root string) *Folder {
	f := newFolder(newLocal(fsys, root))
	f.now = func() time.Time { return noon }
	return f
}

// output is what a folder holds: of each payload how often.
type output struct {
	payloads map[string]int
	files    map[string]int // messages by name
}

// readOutput reads all files that are laid out in a folder of any file system, as
// [Files] and [ReadFile] do in a local one.
func readOutput(t testing.TB, fsys vfs.FS, root string) output {
	t.Helper()
	out := output{map[string]int{}, map[string]int{}}
	l := newLocal(fsys, root)
	names, err := l.tree(testContext(t), "")
	must(t, err)
	found := 0
	for name, length := range names {
		f, err := parseName(name)
		if err != nil {
			continue
		}
		found++
		r, err := fsys.Open(l.path(name))
		must(t, err)
		last := int64(-1)
		err = readFrom(io.NewSectionReader(r, 0, length), name, func(offset int64, payload []byte) error {
			if !f.Avro && (offset < last || offset < f.Start || offset >= f.End) {
				t.Errorf("%s: offset %d after %d", name, offset, last)
			}
			last = offset
			out.payloads[string(payload)]++
			out.files[name]++
			return nil
		})
		must(t, err)
		must(t, r.Close())
	}
	if _, isMem := fsys.(*vfs.Mem); !isMem {
		files, err := Files(root)
		if err != nil || len(files) != found {
			t.Errorf("Files lists %d files of %d, %v", len(files), found, err)
		}
	}
	return out
}

// holdsEach fails unless each message is there as often as it was published.
func (o output) holdsEach(t testing.TB, sent map[string]int) {
	t.Helper()
	if maps.Equal(o.payloads, sent) {
		return
	}
	missing, doubled := 0, 0
	for p, n := range sent {
		missing += max(n-o.payloads[p], 0)
		doubled += max(o.payloads[p]-n, 0)
	}
	strange := 0
	for p := range o.payloads {
		if sent[p] == 0 {
			strange++
		}
	}
	t.Errorf("of %d messages %d are missing, %d came once more, and %d were never published; files %v", len(sent), missing, doubled, strange, o.files)
}

func sum(sent map[string]int) (n int) {
	for _, k := range sent {
		n += k
	}
	return n
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not say %q", text, p)
		}
	}
}

func segmentName(dir string, begin int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.kafka", begin))
}

func segmentBegin(t testing.TB, name string) (begin int64) {
	t.Helper()
	_, err := fmt.Sscanf(filepath.Base(name), "%d.kafka", &begin)
	must(t, err)
	return begin
}
