package schema_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

// payloadOf is a payload of a schema id.
func payloadOf(id uint32, datum ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), datum...)
}

// fakeRegistry answers what f says, and counts requests.
func fakeRegistry(t testing.TB, f func(w http.ResponseWriter, r *http.Request)) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// TestUnknownIDIsAskedOnceAPeriod: an id that the registry does not know is asked for
// once in a period, by many goroutines and messages, and again in the next one: then it
// may be known.
func TestUnknownIDIsAskedOnceAPeriod(t *testing.T) {
	registry, store, _ := newRegistry(t)
	const period = 200 * time.Millisecond
	c := newClient(t, registry.URL, func(c *schema.ClientConfig) { c.UnknownInterval = period })
	ctx := bounded(t)
	begin := time.Now()
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 500 {
				if _, err := c.Schema(ctx, 1); !errors.Is(err, schema.ErrUnknownID) {
					t.Errorf("an unknown id: %v", err)
					return
				}
			}
		})
	}
	readers.Wait()
	// As many as periods have begun, however long this took.
	if most := 1 + int64(time.Since(begin)/period); c.Stats().Lookups > most {
		t.Errorf("%d look-ups, at most %d", c.Stats().Lookups, most)
	}
	v := register(t, store, "s", viewV1)
	eventually(t, "it is known in the next period", func() bool {
		s, err := c.Schema(ctx, v.ID)
		return err == nil && s.String() == viewV1
	})
}

// TestRegistrationMakesAnIDKnown: who has registered a schema does not look it up, even
// if its id was unknown a moment before.
func TestRegistrationMakesAnIDKnown(t *testing.T) {
	registry, _, _ := newRegistry(t)
	c := newClient(t, registry.URL, func(c *schema.ClientConfig) { c.UnknownInterval = time.Hour })
	if _, err := c.Schema(bounded(t), 1); !errors.Is(err, schema.ErrUnknownID) {
		t.Fatal(err)
	}
	id, err := c.Register(bounded(t), "s", mustParse(t, viewV1))
	if err != nil || id != 1 {
		t.Fatalf("id %d, %v", id, err)
	}
	if s, err := c.Schema(bounded(t), 1); err != nil || s.String() != viewV1 {
		t.Errorf("%v, %v", s, err)
	}
	if got := c.Stats(); got.Lookups != 1 || got.Cached != 1 {
		t.Errorf("%+v", got)
	}
}

// TestRegistryDown: while the registry is away ids that are known go on, others are an
// error that says it may pass; when it is back they are read.
func TestRegistryDown(t *testing.T) {
	registry, store, _ := newRegistry(t)
	v1, v2 := register(t, store, "s", viewV1), register(t, store, "s", viewV2)
	c := newClient(t, registry.URL, func(c *schema.ClientConfig) { c.RetryInterval = 10 * time.Millisecond })
	ctx := bounded(t)
	if _, err := c.Schema(ctx, v1.ID); err != nil {
		t.Fatal(err)
	}
	addr := registry.Addr().String()
	registry.stop()
	var value any
	if err := c.Decode(ctx, payloadOf(v1.ID, 2), &value); err != nil {
		t.Errorf("a known id: %v", err)
	}
	_, err := c.AppendJSON(ctx, nil, payloadOf(v2.ID, 2, 0))
	var temporary interface{ Temporary() bool }
	if !errors.Is(err, schema.ErrUnavailable) || !errors.As(err, &temporary) || !temporary.Temporary() {
		t.Errorf("an unknown id: %v", err)
	}
	if _, err := c.Register(ctx, "s", mustParse(t, viewV3)); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a registration: %v", err)
	}
	again, err := schema.Serve(ctx, schema.ServerConfig{Store: store, Listen: addr})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close(ctx)
	eventually(t, "the registry is back", func() bool {
		text, err := c.AppendJSON(ctx, nil, payloadOf(v2.ID, 2, 0))
		return err == nil && string(text) == `{"member":1,"page":""}`
	})
}

// TestRegistryThatHangs: a registry that takes a request and does not answer is an error
// in time; who waits with less time waits less long, and Close ends what is under way.
func TestRegistryThatHangs(t *testing.T) {
	hang := make(chan struct{})
	url, _ := fakeRegistry(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(hang) })
	c := newClient(t, url, func(c *schema.ClientConfig) { c.RequestTimeout = 50 * time.Millisecond })
	if _, err := c.Schema(bounded(t), 1); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a look-up: %v", err)
	}
	slow := newClient(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := slow.Schema(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who waits for less: %v", err)
	}
	slow.Close()
	if _, err := slow.Schema(bounded(t), 1); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := slow.Schema(bounded(t), 2); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("another one after Close: %v", err)
	}
}

// TestNoRegistry: what answers and is no registry is not believed, and costs little.
func TestNoRegistry(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a web page":      func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"not found":       func(w http.ResponseWriter) { http.Error(w, "404 page not found", 404) },
		"an empty answer": func(http.ResponseWriter) {},
		"a failure":       func(w http.ResponseWriter) { w.WriteHeader(500) },
		"its own failure": func(w http.ResponseWriter) { w.WriteHeader(500); fmt.Fprint(w, `{"error_code":50001,"message":"x"}`) },
		"no right to ask": func(w http.ResponseWriter) {
			w.WriteHeader(401)
			fmt.Fprint(w, `{"error_code":401,"message":"Unauthorized"}`)
		},
		"no such path": func(w http.ResponseWriter) {
			w.WriteHeader(404)
			fmt.Fprint(w, `{"error_code":404,"message":"HTTP 404 Not Found"}`)
		},
		"a bad request": func(w http.ResponseWriter) { w.WriteHeader(400); fmt.Fprint(w, `{"error_code":40001,"message":"x"}`) },
		"endless":       func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(endless{}, 64<<20)) },
		"a redirect in circles": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/")
			w.WriteHeader(302)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := fakeRegistry(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
			if _, err := newClient(t, url).Schema(bounded(t), 1); !errors.Is(err, schema.ErrUnavailable) || len(err.Error()) > 4000 {
				t.Errorf("%v", err)
			}
		})
	}
	for name, text := range map[string]string{
		"no schema":         `{"schema":"{"}`,
		"none at all":       `{}`,
		"another kind":      `{"schema":"{}","schemaType":"PROTOBUF"}`,
		"one that is large": `{"schema":"\"` + strings.Repeat("x", schema.MaxSchemaBytes) + `\""}`,
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := fakeRegistry(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
			if _, err := newClient(t, url).Schema(bounded(t), 1); !errors.Is(err, schema.ErrUnknownID) || len(err.Error()) > 4000 {
				t.Errorf("%v", err)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte{0, 0, 0, 2, 0, 0})
			c.Close()
		}
	}()
	if _, err := newClient(t, "http://"+l.Addr().String()).Schema(bounded(t), 1); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a broker: %v", err)
	}
}

// TestManyUnknownIDs: whatever ids payloads hold, the registry is asked for a bounded
// number of them in a period, and the client keeps no more.
func TestManyUnknownIDs(t *testing.T) {
	url, asked := fakeRegistry(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		fmt.Fprint(w, `{"error_code":40403,"message":"Schema not found"}`)
	})
	c := newClient(t, url, func(c *schema.ClientConfig) { c.UnknownInterval = time.Hour })
	ctx := bounded(t)
	var unknown, refused int
	for id := uint32(1); id <= 3000; id++ {
		switch _, err := c.Schema(ctx, id); {
		case errors.Is(err, schema.ErrUnknownID):
			unknown++
		case errors.Is(err, schema.ErrUnavailable):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if got := c.Stats(); unknown != 1000 || refused != 2000 || asked.Load() != 1000 || got.Refused != 2000 || got.Unknown != 1000 {
		t.Errorf("%d unknown, %d refused, asked %d times, %+v", unknown, refused, asked.Load(), got)
	}
	for _, id := range []uint32{0, schema.MaxID + 1, 1<<32 - 1} {
		if _, err := c.Schema(ctx, id); !errors.Is(err, schema.ErrUnknownID) {
			t.Errorf("id %d: %v", id, err)
		}
	}
	if asked.Load() != 1000 {
		t.Error("it has asked for what is no id")
	}
}

// TestManyUnknownIDsInTurn: who has to come to the end of payloads with any number of ids
// gets an answer for each, and waits for it no longer than it is to.
func TestManyUnknownIDsInTurn(t *testing.T) {
	url, _ := fakeRegistry(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		fmt.Fprint(w, `{"error_code":40403,"message":"Schema not found"}`)
	})
	c := newClient(t, url, func(c *schema.ClientConfig) { c.UnknownInterval, c.AwaitTurn = time.Second, true })
	ctx := bounded(t)
	for id := uint32(1); id <= 2500; id++ {
		if _, err := c.Schema(ctx, id); !errors.Is(err, schema.ErrUnknownID) {
			t.Fatalf("id %d: %v", id, err)
		}
	}
	for name, end := range map[string]func(*schema.Client, context.CancelFunc){
		"told to end": func(_ *schema.Client, cancel context.CancelFunc) { cancel() },
		"closed":      func(c *schema.Client, _ context.CancelFunc) { c.Close() },
	} {
		c := newClient(t, url, func(c *schema.ClientConfig) { c.UnknownInterval, c.AwaitTurn = time.Hour, true })
		for id := uint32(1); id <= 1000; id++ {
			if _, err := c.Schema(ctx, id); !errors.Is(err, schema.ErrUnknownID) {
				t.Fatalf("%s, id %d: %v", name, id, err)
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Schema(ctx, 1001)
			ended <- err
		}()
		eventually(t, "it waits", func() bool { return c.Stats().Refused > 0 })
		end(c, cancel)
		if err := <-ended; !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestCacheIsBounded: beyond the bound a schema is forgotten, and looked up again.
func TestCacheIsBounded(t *testing.T) {
	url, asked := fakeRegistry(t, func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		fmt.Fprintf(w, `{"schema":"{\"type\":\"fixed\",\"name\":\"F\",\"size\":%s}"}`, id)
	})
	c := newClient(t, url, func(c *schema.ClientConfig) { c.MaxCacheBytes = 100 << 10 })
	for range 2 {
		for id := uint32(1); id <= 200; id++ {
			s, err := c.Schema(bounded(t), id)
			if want := fmt.Sprintf(`"size":%d}`, id); err != nil || !strings.HasSuffix(s.String(), want) {
				t.Fatalf("schema %d is %v, %v", id, s, err)
			}
		}
	}
	if got := c.Stats(); got.Cached > 25 || got.Cached < 1 || asked.Load() <= 200 || got.Forgotten != got.Lookups-int64(got.Cached) {
		t.Errorf("%+v, asked %d times", got, asked.Load())
	}
}

// TestPayloadsThatOnlyLookRight: each is an error of itself, short, and the next one is
// read.
func TestPayloadsThatOnlyLookRight(t *testing.T) {
	registry, store, _ := newRegistry(t)
	good := register(t, store, "s", `{"type":"record","name":"R","fields":[{"name":"s","type":"string"},{"name":"a","type":{"type":"array","items":"null"}}]}`)
	recursive := register(t, store, "list", `{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}`)
	c := newClient(t, registry.URL)
	huge := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01} // 2^63-1
	for name, payload := range map[string][]byte{
		"nothing":                    {},
		"text":                       []byte("hello"),
		"a zero byte":                {0},
		"a part of an id":            {0, 0, 0, 1},
		"an id alone":                payloadOf(good.ID),
		"a string without its end":   payloadOf(good.ID, 20, 'x'),
		"a string of 2^63 bytes":     payloadOf(good.ID, huge...),
		"a negative length":          payloadOf(good.ID, 1),
		"an array of 2^63 nulls":     payloadOf(good.ID, append([]byte{0}, huge...)...),
		"a tail":                     payloadOf(good.ID, 0, 0, 0),
		"a number without end":       payloadOf(good.ID, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"another branch of a union":  payloadOf(recursive.ID, 4),
		"a list of a million levels": payloadOf(recursive.ID, append([]byte(strings.Repeat("\x02", 1_000_000)), 0)...),
		"an id that nobody knows":    payloadOf(77, 0),
	} {
		var v any
		decodeErr := c.Decode(bounded(t), payload, &v)
		text, err := c.AppendJSON(bounded(t), []byte("before"), payload)
		if decodeErr == nil || err == nil || string(text) != "before" || len(err.Error()) > 3000 {
			t.Errorf("%s: %v, %.100s, %.3000v", name, decodeErr, text, err)
		}
		var bad *schema.PayloadError
		var malformed *envelope.MalformedError
		if !errors.As(err, &bad) && !errors.As(err, &malformed) && !errors.Is(err, envelope.ErrNotEnvelope) && !errors.Is(err, schema.ErrUnknownID) {
			t.Errorf("%s: an error of no kind: %v", name, err)
		}
		if bad != nil && (bad.Size != len(payload) || bad.ID == 0) {
			t.Errorf("%s: %+v", name, bad)
		}
	}
	if text, err := c.AppendJSON(bounded(t), nil, payloadOf(good.ID, 4, 'o', 'k', 0)); err != nil || string(text) != `{"s":"ok","a":[]}` {
		t.Errorf("a good one after them: %s, %v", text, err)
	}
}

// TestPayloadsOfNothing: types without bytes make any number of values out of few bytes, by
// what a datum claims or by its schema alone. They are refused before they are made; as many
// as their bytes account for are read.
func TestPayloadsOfNothing(t *testing.T) {
	registry, store, _ := newRegistry(t)
	c := newClient(t, registry.URL)
	doubling := `{"type":"record","name":"All","fields":[{"name":"f0","type":{"type":"record","name":"N0","fields":[]}}`
	for i := range 60 {
		doubling += fmt.Sprintf(`,{"name":"f%d","type":{"type":"record","name":"N%[1]d","fields":[{"name":"a","type":"N%d"},{"name":"b","type":"N%[2]d"}]}}`, i+1, i)
	}
	doubling += "]}"
	wide := `{"type":"record","name":"W","fields":[{"name":"x","type":"int"}`
	for i := range 3000 {
		wide += fmt.Sprintf(`,{"name":"n%d","type":"null"}`, i)
	}
	wide += "]}"
	claim := binary.AppendVarint(nil, 4000)
	nulls := bytes.Repeat(append(claim, 0), 5000)
	for name, bomb := range map[string]struct {
		schema string
		datum  []byte
	}{
		"2^60 records":          {doubling, nil},
		"three thousand fields": {`{"type":"array","items":` + wide + `}`, append(append(binary.AppendVarint(nil, 100_000), make([]byte, 100_000)...), 0)},
		"arrays of arrays":      {`{"type":"array","items":{"type":"array","items":"null"}}`, append(append(binary.AppendVarint(nil, 5000), nulls...), 0)},
	} {
		payload := payloadOf(register(t, store, name, bomb.schema).ID, bomb.datum...)
		var v any
		var bad *schema.PayloadError
		if err := c.Decode(bounded(t), payload, &v); !errors.As(err, &bad) || !strings.Contains(err.Error(), "too many values") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.AppendJSON(bounded(t), nil, payload); !errors.As(err, &bad) {
			t.Errorf("%s, as JSON: %v", name, err)
		}
	}
	for _, row := range []struct{ schema, datum, want string }{
		{`{"type":"array","items":"null"}`, string(binary.AppendVarint(nil, 3)) + "\x00", `[null,null,null]`},
		{`{"type":"record","name":"E","fields":[]}`, "", `{}`},
		{`{"type":"record","name":"L","fields":[{"name":"v","type":"long","Type":"string"},{"name":"n","type":"null"}]}`, "\x02", `{"v":1,"n":null}`},
	} {
		payload := payloadOf(register(t, store, row.schema, row.schema).ID, []byte(row.datum)...)
		if text, err := c.AppendJSON(bounded(t), nil, payload); err != nil || string(text) != row.want {
			t.Errorf("%s: %s, %v", row.schema, text, err)
		}
	}
}

// TestEncoder: values that fit the schema, and those that do not.
func TestEncoder(t *testing.T) {
	e := schema.NewEncoder(9, mustParse(t, viewV3))
	for _, row := range []struct{ value, datum string }{
		{`{"member":1,"page":"p","from":{"string":"f"}}`, "\x02\x02p\x02\x02f"},
		{`{"member":1,"page":"p","from":"f"}`, "\x02\x02p\x02\x02f"},
		{`{"member":1}`, "\x02\x00\x00"},
		{` { "from" : null , "member" : 9007199254740993 } `, "\x82\x80\x80\x80\x80\x80\x80\x20\x00\x00"},
	} {
		if got, err := e.AppendJSON([]byte("x"), []byte(row.value)); err != nil || string(got) != "x\x00\x00\x00\x00\x09"+row.datum {
			t.Errorf("%s: %q, %v", row.value, got, err)
		}
	}
	for _, value := range []string{``, `{`, `[]`, `{}`, `5`, `null`, `{"member":"1"}`, `{"member":1.5}`, `{"member":1e30}`, `{"member":null}`, `{"member":1,"page":5}`, `{"member":1} x`, `{"member":1,"pgae":""}`, `{"Member":1}`, strings.Repeat("[", 100_000)} {
		if got, err := e.AppendJSON([]byte("x"), []byte(value)); err == nil || string(got) != "x" || len(err.Error()) > 3000 {
			t.Errorf("%.50s: %q, %v", value, got, err)
		}
	}
	type view struct {
		Member int64   `avro:"member"`
		Page   string  `avro:"page"`
		From   *string `avro:"from"`
	}
	if got, err := e.Append(nil, view{Member: 1, Page: "p"}); err != nil || string(got) != "\x00\x00\x00\x00\x09\x02\x02p\x00" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := e.Append([]byte("x"), 5); err == nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if e.ID() != 9 {
		t.Errorf("id %d", e.ID())
	}
}

func TestClientConfig(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8081", "ftp://x", "http://", "http://x?y", "http://x#y", "http://\x00"} {
		if _, err := schema.NewClient(schema.ClientConfig{URL: url}); err == nil {
			t.Errorf("%q is taken for an address", url)
		}
	}
	if _, err := schema.NewClient(schema.ClientConfig{URL: "http://x", RetryInterval: -1}); err == nil {
		t.Error("a time below 0")
	}
	if _, err := schema.NewClient(schema.ClientConfig{URL: "http://x", MaxCacheBytes: -1}); err == nil {
		t.Error("a size below 0")
	}
}
