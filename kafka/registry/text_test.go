package registry_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kafkalab/kafka/registry"
)

// Values are byte for byte those of Kafka 0.7.
func TestBrokerText(t *testing.T) {
	b := registry.Broker{ID: 3, Creator: "10.0.0.1-1312242084000", Host: "10.0.0.1", Port: 9092}
	const text = "10.0.0.1-1312242084000:10.0.0.1:9092"
	if b.String() != text || b.Addr() != "10.0.0.1:9092" {
		t.Errorf("%q, %q", b, b.Addr())
	}
	if got, err := registry.ParseBroker(3, text); err != nil || got != b {
		t.Errorf("%+v, %v", got, err)
	}
	// Readers use the second and third field: the creator may be anything else.
	if got, err := registry.ParseBroker(0, "x:kafka-1.example.org:1"); err != nil || got.Host != "kafka-1.example.org" || got.Port != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBrokerRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                     "creator:host:port",
		"host:9092":                            "creator:host:port",
		"a:b:c:9092":                           "creator:host:port",
		"::1-1:::1:9092":                       "IPv6",
		"c:h:":                                 "port",
		"c:h:0":                                "port 0",
		"c:h:65536":                            "65535",
		"c:h:-1":                               "port",
		"c:h:09092":                            "port",
		"c:h:9092\n":                           "port",
		"c::9092":                              "no host",
		":h:9092":                              "creator",
		"c:h i:9092":                           "neither a name",
		"c:h/i:9092":                           "neither a name",
		"c:h\x00:9092":                         "neither a name",
		"c\xff:h:9092":                         "creator",
		"c:" + strings.Repeat("h", 256):        "creator:host:port",
		"c:" + strings.Repeat("h", 256) + ":1": "neither a name",
		strings.Repeat("x", 1<<20):             "bytes",
	} {
		if b, err := registry.ParseBroker(0, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %+v, %v, want %q", text, b, err, says)
		}
	}
	for _, b := range []registry.Broker{
		{ID: -1, Creator: "c", Host: "h", Port: 1},
		{Creator: "c", Host: "h"},
		{Creator: "c", Host: "2001:db8::1", Port: 1},
		{Creator: "c:d", Host: "h", Port: 1},
		{Host: "h", Port: 1},
	} {
		if err := b.Check(); err == nil {
			t.Errorf("%+v is taken", b)
		}
	}
	if err := registry.CheckHost("fe80::1"); err == nil || !strings.Contains(err.Error(), "give a host name") {
		t.Errorf("IPv6: %v", err)
	}
}

func TestPartitionNames(t *testing.T) {
	for name, want := range map[string]registry.Partition{
		"0-0":           {},
		"12-3":          {Broker: 12, Partition: 3},
		"2147483647-99": {Broker: 2147483647, Partition: 99},
	} {
		if got, err := registry.ParsePartition(name); err != nil || got != want || got.String() != name {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "-", "1", "1-", "-1", "1--1", "+1-1", "01-1", "1-2-3", "1 -2", "2147483648-0", "0-2147483648", "a-b"} {
		if p, err := registry.ParsePartition(name); err == nil {
			t.Errorf("%q is taken for %v", name, p)
		}
	}
}

// Partitions are in the order of their numbers, not of their names.
func TestPartitionsOf(t *testing.T) {
	got := registry.PartitionsOf(map[int32]int32{10: 1, 2: 11})
	if len(got) != 12 || got[2] != (registry.Partition{Broker: 2, Partition: 2}) || got[10] != (registry.Partition{Broker: 2, Partition: 10}) || got[11] != (registry.Partition{Broker: 10}) {
		t.Errorf("%v", got)
	}
	if !slices.IsSortedFunc(got, registry.Partition.Compare) {
		t.Errorf("not sorted: %v", got)
	}
	if got := registry.PartitionsOf(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestThreadNames(t *testing.T) {
	if got := registry.ThreadID(registry.ConsumerID("g", "host-1-ab"), 3); got != "g_host-1-ab-3" {
		t.Errorf("%q", got)
	}
	if id, n, err := registry.ParseThreadID("g_host-1-ab-3"); id != "g_host-1-ab" || n != 3 || err != nil {
		t.Errorf("%q, %d, %v", id, n, err)
	}
	for _, thread := range []string{"", "-1", "abc", "abc-", "abc-x", "abc-10000", "abc-01"} {
		if id, n, err := registry.ParseThreadID(thread); err == nil {
			t.Errorf("%q is %q, %d", thread, id, n)
		}
	}
}

func TestSubscriptionText(t *testing.T) {
	static := func(topics map[string]int) registry.Subscription {
		s, err := registry.Static(topics)
		must(t, err)
		return s
	}
	white, err := registry.WhiteList("white.*", 4)
	must(t, err)
	black, err := registry.BlackList("black.*", 1)
	must(t, err)
	for _, row := range []struct {
		s    registry.Subscription
		text string
	}{
		{static(map[string]int{"topic1": 2}), `{ "topic1": 2 }`},
		{static(map[string]int{"topic2": 1, "topic1": 2}), `{ "topic1": 2,"topic2": 1 }`},
		{static(map[string]int{`a"b\c<é>`: 1}), `{ "a\"b\\c<é>": 1 }`},
		{white, "*4*white.*"},
		{black, "!1!black.*"},
	} {
		if got := row.s.Text(); got != row.text {
			t.Errorf("%q, want %q", got, row.text)
		}
		got, err := registry.ParseSubscription(row.text)
		if err != nil || got.Text() != row.text || got.Wildcard() != row.s.Wildcard() || !slices.Equal(got.Topics(), row.s.Topics()) {
			t.Errorf("%q is read as %q, %v", row.text, got, err)
		}
	}
}

// Readers take any JSON object of numbers, and what a consumer of 0.7 may have.
func TestSubscriptionRead(t *testing.T) {
	for text, want := range map[string]map[string]int{
		`{"a":1}`:                        {"a": 1},
		"{\n \"a\" : 1 ,\t\"b\":10000 }": {"a": 1, "b": 10000},
		`{ "\u0061\"": 3 }`:              {`a"`: 3},
		`{  }`:                           {},
		"*2*a|b":                         {"a": 2, "b": 2},
		"*2*":                            {},
		"*1**":                           nil, // no expression
		"!3!b|c|d":                       {"a": 3, `a"`: 3},
		"!1!":                            {"a": 1, "b": 1, "c": 1, "d": 1, `a"`: 1},
		"!1!!":                           {"a": 1, "b": 1, "c": 1, "d": 1, `a"`: 1},
	} {
		s, err := registry.ParseSubscription(text)
		if want == nil {
			if err == nil {
				t.Errorf("%q is taken", text)
			}
			continue
		}
		must(t, err)
		got := map[string]int{}
		for _, topic := range []string{"a", "b", "c", "d", `a"`} {
			if n := s.Streams(topic); n > 0 {
				got[topic] = n
			}
			if s.Matches(topic) != (s.Streams(topic) > 0) {
				t.Errorf("%q: %q matches %v, with %d streams", text, topic, s.Matches(topic), s.Streams(topic))
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSubscriptionRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                       "neither a JSON object",
		"[]":                     "neither a JSON object",
		"{":                      "neither a JSON object",
		`{"a":1`:                 "neither a JSON object",
		`{"a":1}}`:               "something follows",
		`{"a":1} x`:              "something follows",
		`{"a"}`:                  "no number",
		`{"a":"1"}`:              "no number",
		`{"a":{"b":1}}`:          "no number",
		`{"a":null}`:             "no number",
		`{"a":1.0}`:              "not a number",
		`{"a":1e2}`:              "not a number",
		`{"a":-1}`:               "not a number",
		`{"a":0}`:                "0 streams",
		`{"a":10001}`:            "not a number from 0 to 10000",
		`{"a":99999999999}`:      "not a number",
		`{"a":1,"a":1}`:          "twice",
		`{"":1}`:                 "empty",
		`{"a/b":1}`:              "U+002F",
		`{"..":1}`:               "cannot be the name",
		"{\"\xff\":1}":           "U+FFFD",
		"*":                      "streams",
		"**":                     "streams",
		"*x*a":                   "streams",
		"*0*a":                   "streams",
		"*-1*a":                  "streams",
		"*01*a":                  "streams",
		"*10001*a":               "streams",
		"*1!a":                   "streams",
		"!1*a":                   "streams",
		"*1*(":                   "missing",
		"*1*a\x00b":              "control character",
		strings.Repeat(" ", 2e6): "bytes",
	} {
		if s, err := registry.ParseSubscription(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, %v, want %q", text, s, err, says)
		}
	}
	many := map[string]int{}
	for i := range registry.MaxTopics + 1 {
		many[strings.Repeat("x", i%200)+string(rune('a'+i%26))+strings.Repeat("y", i/200)] = 1
	}
	for name, topics := range map[string]map[string]int{
		"none": {}, "zero": {"a": 0}, "too many streams": {"a": registry.MaxStreams + 1}, "name": {"a/b": 1}, "too many topics": many,
	} {
		if s, err := registry.Static(topics); err == nil {
			t.Errorf("%s: %.60q is taken", name, s.Text())
		}
	}
	for _, list := range []func(string, int) (registry.Subscription, error){registry.WhiteList, registry.BlackList} {
		if _, err := list("", 1); err == nil || !strings.Contains(err.Error(), ".*") {
			t.Errorf("no pattern: %v", err)
		}
		if _, err := list("a", 0); err == nil {
			t.Error("no streams are taken")
		}
	}
}

// The caller's map is not the subscription's.
func TestSubscriptionKeepsItsTopics(t *testing.T) {
	topics := map[string]int{"a": 1}
	s, err := registry.Static(topics)
	must(t, err)
	topics["b"] = 1
	if s.Matches("b") {
		t.Error("changed from outside")
	}
	var zero registry.Subscription
	if zero.Matches("a") || zero.Wildcard() || zero.Text() != "{  }" {
		t.Errorf("the zero value is %q", zero)
	}
}
