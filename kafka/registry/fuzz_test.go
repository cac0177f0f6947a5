package registry_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"

	"kafkalab/kafka/registry"
)

// What is taken is within the bounds, and is what it is written as.
func FuzzParseBroker(f *testing.F) {
	for _, text := range []string{"10.0.0.1-1312242084000:10.0.0.1:9092", "c:h:1", "::1-1:::1:9092", "c:h:65536", "a:b:c:d", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := registry.ParseBroker(7, text)
		if err != nil {
			return
		}
		if b.String() != text || b.ID != 7 || b.Port < 1 || b.Port > 65535 || b.Host == "" || strings.ContainsAny(b.Host, ": /\n") {
			t.Errorf("%q is taken for %+v", text, b)
		}
	})
}

func FuzzParsePartition(f *testing.F) {
	for _, name := range []string{"0-0", "12-3", "1--1", "2147483648-0", "-"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if p, err := registry.ParsePartition(name); err == nil && (p.String() != name || p.Broker < 0 || p.Partition < 0) {
			t.Errorf("%q is taken for %v", name, p)
		}
	})
}

func FuzzParseThreadID(f *testing.F) {
	for _, thread := range []string{"g_host-1-ab-3", "a-0", "-1", "a-10000"} {
		f.Add(thread)
	}
	f.Fuzz(func(t *testing.T, thread string) {
		if id, n, err := registry.ParseThreadID(thread); err == nil && (registry.ThreadID(id, n) != thread || n < 0 || n >= registry.MaxStreams) {
			t.Errorf("%q is taken for %q, %d", thread, id, n)
		}
	})
}

// A subscription that is read and written is read again, as the same one; and no
// number in it is beyond the bounds.
func FuzzParseSubscription(f *testing.F) {
	for _, text := range []string{
		`{ "topic1": 2,"topic2": 1 }`, `{"a\"\\\u0061":1}`, "{  }", `{"a":1e9}`, "*4*white.*", "!1!a|b", "*1*(a{1000}){1000}", `*1*\Qa`,
		`*1*"a, b"`, "*1*[a&&b]", "*2*a\u2028", `*1*\p{Lu}(?i:x)`,
	} {
		f.Add(text, "white1")
	}
	f.Fuzz(func(t *testing.T, text, topic string) {
		s, err := registry.ParseSubscription(text)
		if err != nil {
			return
		}
		again, err := registry.ParseSubscription(s.Text())
		if err != nil || again.Text() != s.Text() || again.Wildcard() != s.Wildcard() {
			t.Fatalf("%q is written as %q, which is read as %q, %v", text, s.Text(), again, err)
		}
		for _, topic := range append(s.Topics(), topic) {
			if n := s.Streams(topic); n < 0 || n > registry.MaxStreams || n != again.Streams(topic) || s.Matches(topic) != (n > 0) {
				t.Errorf("%q: %d streams of %q, then %d", text, n, topic, again.Streams(topic))
			}
		}
	})
}

// A pattern that is taken is not changed by being normalised again.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{"a, b", `"'a'"`, "a.*", `\Qa\E`, `[a\]b]{2}`, "(?i)k", "a\tb", `\p{L}`, "'\ta\t'"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		s, err := registry.WhiteList(pattern, 1)
		if err != nil {
			return
		}
		text := strings.TrimPrefix(s.Text(), "*1*")
		again, err := registry.WhiteList(text, 1)
		if err != nil || again.Text() != s.Text() {
			t.Errorf("%q becomes %q, and that %q, %v", pattern, text, again, err)
		}
		if len(text) > registry.MaxPatternBytes || strings.ContainsAny(text, " ,") || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q becomes %q", pattern, text)
		}
	})
}

func FuzzParseNumbers(f *testing.F) {
	for _, value := range []string{"0", "1", "-1", "9223372036854775807", "9223372036854775808", "1.5", "1\n"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if offset, err := registry.ParseOffset(value); err == nil {
			if again, err := registry.ParseOffset(strconv.FormatInt(offset, 10)); err != nil || again != offset {
				t.Errorf("%q is offset %d, and that %d, %v", value, offset, again, err)
			}
		}
		if n, err := registry.ParsePartitionCount(value); err == nil && (n < 1 || n > registry.MaxPartitions) {
			t.Errorf("%q is %d partitions", value, n)
		}
	})
}
