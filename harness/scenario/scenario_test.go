package scenario

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"kafkalab/scenarios"
)

const good = `
name = "a"
title = "A"
purpose = "to test"
work = "produce"
limit = "none"
[[system]]
id = "x"
label = "X"
driver = "null"
expected_rate = 100
stored_bytes = 209
options = { batch = 50, quick = true, mode = "m" }
`

func library(files ...string) Library {
	m := fstest.MapFS{}
	for i := 0; i+1 < len(files); i += 2 {
		m[files[i]+".toml"] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return NewLibrary(m)
}

func TestLoad(t *testing.T) {
	sel, err := library("a", good).Select([]string{"a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := sel.Scenarios[0]
	if s.PayloadBytes != 200 || s.Queue != "bench" || sel.Messages != DefaultMessages || sel.Repeat != DefaultRepeat || sel.Cap != DefaultCap {
		t.Errorf("defaults: %+v", sel)
	}
	x := s.Systems[0]
	if x.Role != RoleSystem || x.Options["batch"] != "50" || x.Options["quick"] != "true" || x.Options["mode"] != "m" {
		t.Errorf("system: %+v", x)
	}
	if string(sel.Files["a"]) != good {
		t.Error("the text is not the file's")
	}
}

func TestStrict(t *testing.T) {
	consume := strings.Replace(good, `work = "produce"`, `work = "consume"`, 1)
	second := good[strings.Index(good, "[["):]
	for _, c := range []struct{ name, text, want string }{
		{"nothing but on request", good + "on_request = true\n", "nothing is measured unless one is named"},
		{"several consumers of nothing", good + "consumers = 2\n", "consumers = 2: several consume a backlog that is made for them"},
		{"misspelt key", strings.Replace(good, "title", "titel", 1), `a.toml:3: unknown key "titel"; did you mean "title"?`},
		{"misspelt key of a system", strings.Replace(good, "label", "lable", 1), `a.toml:9: unknown key "system.lable"; did you mean "label"?`},
		{"misspelt key of the second system", good + strings.Replace(strings.Replace(second, `"x"`, `"y"`, 1), "driver", "drivre", 1), `a.toml:17: unknown key "system.drivre"; did you mean "driver"?`},
		{"key like no other", good + "\nzzzzzzzz = 1\n", `a.toml:15: unknown key "system.zzzzzzzz"; known here are backlog, before,`},
		{"unknown table", good + "[broker]\nport = 1\n", `a.toml:14: unknown key "broker"`},
		{"syntax", strings.Replace(good, `"A"`, `A"`, 1), "a.toml:3: "},
		{"wrong type", strings.Replace(good, `title = "A"`, `title = 5`, 1), "title"},
		{"name of the file", strings.Replace(good, `name = "a"`, `name = "b"`, 1), `name = "b": the name of the file, "a", is wanted`},
		{"name", strings.Replace(good, `name = "a"`, `name = "A b"`, 1), `name = "A b": small letters`},
		{"work", strings.Replace(good, `"produce"`, `"both"`, 1), `work = "both"`},
		{"payload", "payload_bytes = 9\n" + good, "payload_bytes = 9: from 10 to"},
		{"queue", "queue = \"benchmark\"\n" + good, `queue = "benchmark": at most 8`},
		{"queue of a warm-up", "queue = \"warmc\"\n" + good, `queue = "warmc": warm-ups go through`},
		{"limit", strings.Replace(good, `limit = "none"`, "", 1), "limit is wanted"},
		{"cap", "cap = \"soon\"\n" + good, `cap = "soon": a duration such as 45s`},
		{"negative", "messages = -1\n" + good, "messages = -1"},
		{"more messages than can be reckoned with", "messages = 9_223_372_036_854_775_807\n" + good, "nor more than 1000000000000 and 1000"},
		{"more repetitions", "repeat = 2_000_000_000\n" + good, "nor more than 1000000000000 and 1000"},
		{"more warm-up", good + "warm_up = 9_223_372_036_854_775_807\n", "up to 1000000000000"},
		{"warm-up of a size, but of none", good + "warm_up_bytes = 200\n", "they do nothing without warm_up"},
		{"size of a warm-up", good + "warm_up = 5\nwarm_up_bytes = 9\n", "warm_up_bytes = 9: from 10 to"},
		{"rate of a warm-up", good + "warm_up = 5\nwarm_up_rate = -1\n", "warm_up_rate = -1: 0 or more"},
		{"option of a warm-up", good + "warm_up = 5\nwarm_up_options = { a = [1] }\n", "option a = [1]"},
		{"more to fill with", good + "fill_messages = 9_223_372_036_854_775_807\n", "no more than 1000000000000 messages"},
		{"larger messages", strings.Replace(good, "= 209", "= 9_223_372_036_854_775_807", 1), "up to 1000000000 and 4294967296"},
		{"x", good + "x = nan\n", "x = NaN: a number is wanted"},
		{"x on a logarithmic axis", strings.Replace(good, "[[", "chart = \"sweep\"\naxis = { label = \"x\", log = true }\n[[", 1) + "x = -1\n", "none below 0 on a logarithmic axis"},
		{"a group of one", strings.Replace(good, `"produce"`, `"rebalance"`, 1), "a group of at least 2"},
		{"two ids", good + second, `system "x": there are two`},
		{"role", good + `role = "star"`, `role = "star"`},
		{"cap of a system", good + `cap = "none"`, "can only shorten"},
		{"rate", strings.Replace(good, "expected_rate = 100", "", 1), "expected_rate = 0"},
		{"option", strings.Replace(good, `"m"`, `[1]`, 1), "option mode = [1]"},
		{"no system", good[:strings.Index(good, "[[")], "there is no [[system]]"},
		{"backlog of a produce", good + `backlog = "x"`, `backlog = "x": only work = "consume"`},
		{"unknown backlog", "backlog_of = \"b\"\n" + consume, `backlog of a: no scenario "b"`},
		{"warm-up at the top", "warm_up = 5\n" + good, "belongs in its [[system]] table"},
		{"include and more", "include = [\"b\"]\n" + good, "include stands for whole scenarios"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := library("a", c.text).Select([]string{"a"}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant %s", err, c.want)
			}
		})
	}
}

// ids lists what is selected, as scenario/system.
func ids(sel Selection) []string {
	var all []string
	for _, s := range sel.Scenarios {
		for _, sys := range s.Systems {
			all = append(all, s.Name+"/"+sys.ID)
		}
	}
	return all
}

func TestSelect(t *testing.T) {
	lib := NewLibrary(scenarios.Files)
	for _, c := range []struct {
		name           string
		scenarios      []string
		systems        []string
		want, unwanted string // of the selected, with spaces between
	}{
		{"both", []string{"fig5-consumer", "fig4-producer"}, nil, "fig4-producer/kafka-b1 fig4-producer/activemq-receipt fig5-consumer/kafka", ""},
		{"by driver where there is no such id", []string{"fig4-producer", "fig5-consumer"}, []string{"kafka"},
			"fig4-producer/kafka-b1 fig4-producer/kafka-b50 fig4-producer/kafka-b1-plain fig5-consumer/kafka", "fig4-producer/limit fig5-consumer/limit"},
		{"by id where there is one", []string{"fig4-producer"}, []string{"activemq"}, "fig4-producer/activemq", "fig4-producer/activemq-plain"},
		{"on request", []string{"loss-budget"}, []string{"nats-none"}, "loss-budget/nats-none", "loss-budget/nats"},
		{"not unless it is named", []string{"loss-budget"}, nil, "loss-budget/kafka-appended-50", "loss-budget/nats-none loss-budget/nats"},
		{"consume alone brings its backlog", []string{"fig5-consumer"}, []string{"kafka"}, "fig4-producer/kafka-b50 fig5-consumer/kafka", "fig4-producer/kafka-b1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sel, err := lib.Select(c.scenarios, c.systems)
			if err != nil {
				t.Fatal(err)
			}
			got := ids(sel)
			for _, w := range strings.Fields(c.want) {
				if !slices.Contains(got, w) {
					t.Errorf("%s is missing in %v", w, got)
				}
			}
			for _, w := range strings.Fields(c.unwanted) {
				if slices.Contains(got, w) {
					t.Errorf("%s was not asked for: %v", w, got)
				}
			}
			if want := "fig4-producer"; c.scenarios[0] != "loss-budget" && sel.Scenarios[0].Name != want {
				t.Errorf("%s comes first", sel.Scenarios[0].Name)
			}
		})
	}
}

func TestSelectRefuses(t *testing.T) {
	lib := NewLibrary(scenarios.Files)
	for _, c := range []struct {
		scenarios, systems []string
		want               string
	}{
		{[]string{"fig4"}, nil, `no scenario "fig4"`},
		{[]string{"fig4-producers"}, nil, `did you mean "fig4-producer"?`},
		{[]string{"fig4-producer"}, []string{"rabbit"}, `no system "rabbit"`},
		{[]string{"fig4-producer"}, []string{"rabbitmqq"}, `did you mean "rabbitmq"?`},
		{[]string{"fig4-producer", "fig4-producer"}, nil, "asked for twice"},
		{[]string{"fig4-producer", "smoke"}, nil, "asked for twice"},
		{[]string{"/nowhere/fig9.toml"}, nil, "no scenario"},
	} {
		if _, err := lib.Select(c.scenarios, c.systems); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: error %v, want %s", c.scenarios, c.systems, err, c.want)
		}
	}
	if _, err := library("a", good, "b", strings.Replace(good, `"a"`, `"b"`, 1)+"\n").Select([]string{"a", "b"}, nil); err != nil {
		t.Errorf("two scenarios that state nothing: %v", err)
	}
	b := "messages = 5\n" + strings.Replace(good, `"a"`, `"b"`, 1)
	if _, err := library("a", good, "b", b).Select([]string{"a", "b"}, nil); err == nil || !strings.Contains(err.Error(), "state different messages") {
		t.Errorf("two scenarios that differ: %v", err)
	}
}

func TestSmoke(t *testing.T) {
	sel, err := NewLibrary(scenarios.Files).Select([]string{"smoke"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sel.Messages != 20_000 || sel.Repeat != 1 || sel.Cap != 60*time.Second || len(sel.Scenarios) != 2 {
		t.Errorf("%d messages, %d times, cap %v, %v", sel.Messages, sel.Repeat, sel.Cap, ids(sel))
	}
	for _, s := range sel.Scenarios {
		for _, sys := range s.Systems {
			if sys.WarmUp > 2000 {
				t.Errorf("%s/%s warms up with %d messages", s.Name, sys.ID, sys.WarmUp)
			}
		}
	}
}

// The systems beside the paper's, and the one that waits for receipts, are
// held to a cap whatever the user asks for.
func TestLongestRun(t *testing.T) {
	for _, c := range []struct {
		sys       System
		run, want time.Duration
	}{
		{System{}, 0, 0},
		{System{}, time.Minute, time.Minute},
		{System{Capped: true}, 0, DefaultCap},
		{System{Capped: true}, 10 * time.Second, 10 * time.Second},
		{System{Capped: true, Cap: 25 * time.Second}, 0, 25 * time.Second},
		{System{Cap: 25 * time.Second}, 0, 0},
		{System{Cap: 25 * time.Second}, 45 * time.Second, 25 * time.Second},
		{System{Capped: true, Cap: 25 * time.Second}, 20 * time.Second, 20 * time.Second},
	} {
		if got := c.sys.LongestRun(c.run); got != c.want {
			t.Errorf("%+v in a run of cap %v: %v, want %v", c.sys, c.run, got, c.want)
		}
	}
	lib := NewLibrary(scenarios.Files)
	sel, err := lib.Select([]string{"fig4-producer"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range sel.Scenarios[0].Systems {
		if held := sys.LongestRun(0) > 0; held != (sys.Role == RoleExtra || sys.ID == "activemq-receipt") {
			t.Errorf("%s: longest run without a cap: %v", sys.ID, sys.LongestRun(0))
		}
	}
}

func TestParseCap(t *testing.T) {
	for text, want := range map[string]time.Duration{"45s": 45 * time.Second, "none": 0, "2m": 2 * time.Minute} {
		if d, err := ParseCap(text); err != nil || d != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "0s", "-1s", "45", "never"} {
		if _, err := ParseCap(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestList(t *testing.T) {
	entries, err := NewLibrary(scenarios.Files).List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	for _, want := range []string{"fig4-producer", "fig5-consumer", "smoke"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %v", want, names)
		}
	}
}

// What a name stands for is told where it does not say so itself.
func TestSelectionNotes(t *testing.T) {
	lib := NewLibrary(scenarios.Files)
	for _, c := range []struct {
		scenarios, systems []string
		want               []string
	}{
		{[]string{"fig4-producer", "fig5-consumer"}, nil, nil},
		{[]string{"fig4-producer", "fig5-consumer"}, []string{"limit", "kafka-b50", "rabbitmq"},
			[]string{`fig5-consumer has no system "kafka-b50", and nothing of that driver is measured there; it has kafka`}},
		{[]string{"fig4-producer", "fig5-consumer"}, []string{"kafka-b50", "kafka"},
			[]string{`fig4-producer: "kafka" stands for all systems of that driver: kafka-b1, kafka-b50, kafka-b1-plain`}},
		{[]string{"fig4-producer", "fig5-consumer"}, []string{"kafka-b50"}, []string{
			`fig5-consumer has no system "kafka-b50", and nothing of that driver is measured there; it has kafka`,
			"fig5-consumer is left out: it has none of the systems asked for"}},
		{[]string{"fig5-consumer"}, []string{"kafka"},
			[]string{"fig4-producer: kafka-b50 is measured too, since kafka of fig5-consumer consumes what it leaves"}},
	} {
		sel, err := lib.Select(c.scenarios, c.systems)
		if err != nil || !slices.Equal(sel.Notes, c.want) {
			t.Errorf("%q, %q: %v, notes %q, want %q", c.scenarios, c.systems, err, sel.Notes, c.want)
		}
	}
}
