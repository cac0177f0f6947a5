package schema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/schema"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something that should come at once.
const patience = 30 * time.Second

// bounded returns a context that ends before the test's patience does.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// logger writes warnings into the output of the test.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openStore opens a store whose topic is at a broker, and closes it after the test.
func openStore(t testing.TB, b *kafkatest.Broker, options ...func(*schema.StoreConfig)) *schema.Store {
	t.Helper()
	cfg := schema.StoreConfig{Locate: schema.AtBroker(b.HostPort()), Logger: logger(t)}
	for _, o := range options {
		o(&cfg)
	}
	s, err := schema.Open(bounded(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// server is a registry of a test.
type server struct {
	*schema.Server
	t   testing.TB
	URL string
}

func serve(t testing.TB, store *schema.Store) *server {
	t.Helper()
	s, err := schema.Serve(bounded(t), schema.ServerConfig{Store: store, Listen: "127.0.0.1:0", Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	r := &server{s, t, "http://" + s.Addr().String()}
	t.Cleanup(r.stop)
	return r
}

// stop ends the registry.
func (s *server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		s.t.Error(err)
	}
}

// newRegistry is a registry on a broker of its own.
func newRegistry(t testing.TB) (*server, *schema.Store, *kafkatest.Broker) {
	t.Helper()
	b := kafkatest.Start(t)
	store := openStore(t, b)
	return serve(t, store), store, b
}

// newClient returns a client of a registry.
func newClient(t testing.TB, url string, options ...func(*schema.ClientConfig)) *schema.Client {
	t.Helper()
	cfg := schema.ClientConfig{URL: url, Logger: logger(t)}
	for _, o := range options {
		o(&cfg)
	}
	c, err := schema.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// httpClient keeps no connection, so that nothing of it outlives a test.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// call sends a request, with a body unless it is "", and returns the answer.
func (s *server) call(method, path, body string) (status int, answer string) {
	s.t.Helper()
	return s.callAs(method, path, schema.ContentType, strings.NewReader(body))
}

func (s *server) callAs(method, path, contentType string, body io.Reader) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	a, err := httpClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, strings.TrimRight(string(text), "\n")
}

// want sends a request and fails unless the answer is that.
func (s *server) want(method, path, body string, status int, answer string) {
	s.t.Helper()
	if gotStatus, got := s.call(method, path, body); gotStatus != status || got != answer {
		s.t.Errorf("%s %s %.200s: %d %s\nwant %d %s", method, path, body, gotStatus, got, status, answer)
	}
}

// wantCode sends a request and fails unless the answer is an error with that code.
func (s *server) wantCode(method, path, body string, status, code int) {
	s.t.Helper()
	gotStatus, got := s.call(method, path, body)
	var e struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(got), &e); err != nil || gotStatus != status || e.Code != code || e.Message == "" {
		s.t.Errorf("%s %s %.200s: %d %.500s, want status %d and code %d", method, path, body, gotStatus, got, status, code)
	}
}

// bodyOf is the body that registers, looks up or compares a schema.
func bodyOf(text string) string {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(map[string]string{"schema": text}); err != nil {
		panic(err)
	}
	return b.String()
}

// Schemas of tests, each of which can read what the one before it has written.
const (
	viewV1 = `{"type":"record","name":"View","fields":[{"name":"member","type":"long"}]}`
	viewV2 = `{"type":"record","name":"View","fields":[{"name":"member","type":"long"},{"name":"page","type":"string","default":""}]}`
	viewV3 = `{"type":"record","name":"View","fields":[{"name":"member","type":"long"},{"name":"page","type":"string","default":""},{"name":"from","type":["null","string"],"default":null}]}`
	// viewBad can read nothing that the others have written.
	viewBad = `{"type":"record","name":"View","fields":[{"name":"member","type":"long"},{"name":"needed","type":"string"}]}`
)

func mustParse(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// register registers a schema and returns its version.
func register(t testing.TB, s *schema.Store, subject, text string) schema.SubjectVersion {
	t.Helper()
	v, err := s.Register(bounded(t), schema.Registration{Subject: subject, Schema: mustParse(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// publish appends payloads to a topic, and returns once they are flushed.
func publish(t testing.TB, b *kafkatest.Broker, topic string, payloads ...[]byte) {
	t.Helper()
	c, err := client.Dial(bounded(t), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var set []byte
	for _, p := range payloads {
		set = message.Append(set, p)
	}
	if _, err := c.AckedProduce(bounded(t), topic, 0, set, wire.AcksFlushed, patience); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

type (
	brokerConfig = broker.Config
	topicConfig  = storage.TopicConfig
)

// withConfig changes the settings of a broker.
func withConfig(f func(*brokerConfig)) kafkatest.Option { return f }

// quoted returns a text as JSON writes it.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// header is an audit header.
func header() envelope.Header {
	return envelope.Header{
		Time: time.UnixMilli(1_790_000_000_123).UTC(), Server: "front \"1\" é", Sequence: 1<<63 - 1,
		Producer: envelope.ProducerID{0, 1, 2, 0x22, 0x5c, 0x7f, 0x80, 0xff, 8, 9, 10, 11, 12, 13, 14, 15},
	}
}
