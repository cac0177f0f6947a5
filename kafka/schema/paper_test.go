package schema_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/schema"
)

// TestPaperR31MessageHoldsSchemaIDAndBytes (NetDB'11 §4): what a message stores is
// the id of its schema and the bytes that were serialised with it, and no more. The
// schema is longer than they are, and goes over the network once.
func TestPaperR31MessageHoldsSchemaIDAndBytes(t *testing.T) {
	registry, _, b := newRegistry(t)
	c := newClient(t, registry.URL)
	e, err := c.Encoder(bounded(t), "views-value", mustParse(t, viewV2))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := e.AppendJSON(nil, []byte(`{"member":-3,"page":"ab"}`))
	if err != nil {
		t.Fatal(err)
	}
	// Avro: -3 is 5 zigzag, and a string of two bytes has the length 2, which is 4.
	want := append(binary.BigEndian.AppendUint32([]byte{0}, e.ID()), 5, 4, 'a', 'b')
	if !bytes.Equal(payload, want) {
		t.Fatalf("the payload is %x, want %x", payload, want)
	}
	publish(t, b, "views", payload)
	s, err := consumer.OpenPartition(bounded(t), consumer.PartitionConfig{Broker: b.HostPort(), Topic: "views"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := s.Next(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := newClient(t, registry.URL).AppendJSON(bounded(t), nil, m.Payload)
	if err != nil || string(text) != `{"member":-3,"page":"ab"}` {
		t.Errorf("a consumer reads %s, %v", text, err)
	}
}

// TestPaperR31RegistryIsInTheCluster (NetDB'11 §4, a light registry): what the
// registry knows stands in a topic of the cluster and nowhere else. Another one, which
// was never told anything, reads it from the broker's folder on a second machine.
func TestPaperR31RegistryIsInTheCluster(t *testing.T) {
	registry, store, b := newRegistry(t)
	registry.want("POST", "/subjects/a/versions", bodyOf(viewV1), 200, `{"id":1}`)
	registry.want("POST", "/subjects/a/versions", bodyOf(viewV2), 200, `{"id":2}`)
	registry.want("POST", "/subjects/b/versions", bodyOf(`"string"`), 200, `{"id":3}`)
	registry.want("PUT", "/config/b", `{"compatibility":"FULL"}`, 200, `{"compatibility":"FULL"}`)
	registry.want("DELETE", "/subjects/a/versions/1", "", 200, `1`)
	before := store.Stats()
	registry.stop()
	store.Close()
	b.Stop()
	if topics, err := filepath.Glob(filepath.Join(b.Config.LogDir, message.SchemasTopic+"-*")); err != nil || len(topics) != 1 {
		t.Fatalf("the broker's folder has %v, %v", topics, err)
	}

	elsewhere := kafkatest.Start(t, withLogDir(t, b.Config.LogDir))
	other := openStore(t, elsewhere)
	if after := other.Stats(); after != before {
		t.Errorf("it knows %+v, and %+v before", after, before)
	}
	again := serve(t, other)
	again.want("GET", "/subjects", "", 200, `["a","b"]`)
	again.want("GET", "/subjects/a/versions", "", 200, `[2]`)
	again.want("GET", "/schemas/ids/1", "", 200, `{"schema":`+quoted(viewV1)+`}`)
	again.want("GET", "/schemas/ids/3", "", 200, `{"schema":"\"string\""}`)
	again.want("GET", "/config/b", "", 200, `{"compatibilityLevel":"FULL"}`)
	again.want("POST", "/subjects/a/versions", bodyOf(viewV2), 200, `{"id":2}`)
	again.want("POST", "/subjects/c/versions", bodyOf(`"long"`), 200, `{"id":4}`)
}

// TestPaperR31ConsumerLooksUpOnce (NetDB'11 §4): a consumer asks the registry once for
// each id, however many messages have it and however many of its goroutines read them,
// and then never again: also when the registry is gone.
func TestPaperR31ConsumerLooksUpOnce(t *testing.T) {
	registry, store, _ := newRegistry(t)
	var payloads [][]byte
	for _, text := range []string{viewV1, viewV2, viewV3} {
		e := schema.NewEncoder(register(t, store, "views-value", text).ID, mustParse(t, text))
		for range 200 {
			p, err := e.AppendJSON(nil, []byte(`{"member":7}`))
			if err != nil {
				t.Fatal(err)
			}
			payloads = append(payloads, p)
		}
	}
	c := newClient(t, registry.URL)
	readAll := func() {
		t.Helper()
		ctx := bounded(t)
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				for _, p := range payloads {
					var v struct {
						Member int64 `avro:"member"`
					}
					if err := c.Decode(ctx, p, &v); err != nil || v.Member != 7 {
						errs <- fmt.Errorf("%x is %+v: %w", p, v, err)
						return
					}
				}
				errs <- nil
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
	readAll()
	if got := c.Stats(); got.Lookups != 3 || got.Cached != 3 {
		t.Errorf("%d messages of 3 schemas, each read 8 times: %+v", len(payloads), got)
	}
	registry.stop()
	slices.Reverse(payloads)
	readAll()
	if got := c.Stats(); got.Lookups != 3 {
		t.Errorf("without the registry: %+v", got)
	}
}

// withLogDir gives a broker a copy of a log folder.
func withLogDir(t testing.TB, dir string) kafkatest.Option {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return withConfig(func(c *brokerConfig) { c.LogDir = copied })
}
