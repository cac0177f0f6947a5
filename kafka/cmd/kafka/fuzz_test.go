package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
)

// addPropertiesSeeds adds files to begin fuzzing with.
func addPropertiesSeeds(f *testing.F) {
	for _, text := range []string{
		"# a comment\n! another\nbrokerid=7\nport: 9093\nlog.dir = /data/kafka\n",
		sampleProperties,
		"port=1\n\nport=2\n",
		"log.dri=/x\n=\n:\n",
		"log.dir=a=b:c\r\n",
		"log.dir /data \\\n   /more\\\n\nport 1\rbrokerid\t2\f",
		`a\ b\:c\=d=\u0041\ud83d\ude00\t\\` + "\n",
		`log.dir=\ud83d`, `log.dir=\u00`, `log.dir=x\`, `\`, "\\\n#x=1", "\\\n  \nx=1", "\ufeffport=1", "\ufeff\ufeffport=1", "x=\xff",
		"topic.partition.count.map=a:1,b:2, c : 3\nlog.retention.size=-1\ntopic.log.retention.size=a:-1,b:1000\n",
		"topic.flush.intervals.ms=a:b:1,é:2\nlog.retention.hours=2562047\nlog.cleanup.interval.mins=1\n",
		"topic.log.retention.hours=a:0", "topic.partition.count.map=a:1,a:2", "log.retention.hours=99999999999999999999", "log.roll.hours=-1",
		strings.Repeat("\\\n", 1000) + "port=1",
	} {
		f.Add(text)
	}
}

// FuzzProperties: whatever the file, what is read of it and written anew, as
// Java would, reads the same.
func FuzzProperties(f *testing.F) {
	addPropertiesSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		properties, err := parseJavaProperties(text)
		if err != nil {
			if properties != nil {
				t.Errorf("%v beside error %v", properties, err)
			}
			return
		}
		var again strings.Builder
		line := 1
		for _, p := range properties {
			if p.line < line {
				t.Fatalf("%q is in line %d, before what comes before it", p.key, p.line)
			}
			for ; line < p.line; line++ {
				again.WriteByte('\n')
			}
			again.WriteString(escapeJava(p.key, true) + "=" + escapeJava(p.value, false))
		}
		if lines := 1 + strings.Count(text, "\n") + strings.Count(text, "\r"); line > lines {
			t.Errorf("line %d of %d", line, lines)
		}
		got, err := parseJavaProperties(again.String())
		if err != nil || !slices.Equal(got, properties) {
			t.Errorf("%+v became %+v, %v", properties, got, err)
		}
	})
}

// escapeJava writes a key or a value as java.util.Properties does, but for
// characters beyond ASCII.
func escapeJava(s string, key bool) string {
	var b strings.Builder
	for i, r := range s {
		switch r {
		case '\t':
			b.WriteString(`\t`)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\f':
			b.WriteString(`\f`)
		case '\ufeff':
			b.WriteString(`\ufeff`)
		case '\\', '=', ':', '#', '!':
			b.WriteString(`\` + string(r))
		case ' ':
			if key || i == 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// FuzzServerProperties: whatever the file, it is refused, or gives a
// configuration in which no rule is off or overflows but what -1 turned off.
func FuzzServerProperties(f *testing.F) {
	addPropertiesSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := readProperties(strings.NewReader(text), serverProperties, "kafka broker")
		if err != nil {
			return
		}
		cfg := broker.DefaultConfig()
		fs, apply := brokerFlags(discard(), &cfg)
		if _, err := setFlags(fs, values); err != nil {
			return
		}
		apply()
		s := &cfg.Storage
		if s.SegmentBytes < 1 || s.FlushMessages < 1 || s.FlushInterval < time.Millisecond || s.RollInterval < time.Hour || s.RetentionAge < time.Hour ||
			s.RetentionBytes < 0 || s.CleanupInterval < time.Minute || s.DefaultPartitions < 1 {
			t.Errorf("a rule is off: %+v", s)
		}
		positive := func(topic string, d *time.Duration) {
			if d != nil && *d < time.Millisecond {
				t.Errorf("topic %q: %v", topic, *d)
			}
		}
		for topic, c := range s.Topics {
			positive(topic, c.FlushInterval)
			positive(topic, c.RollInterval)
			positive(topic, c.RetentionAge)
			if c.Partitions < 0 || c.SegmentBytes < 0 || c.RetentionBytes != nil && *c.RetentionBytes < 0 {
				t.Errorf("topic %q: %+v", topic, c)
			}
		}
		if err := s.Check(); err != nil {
			t.Errorf("%q is not refused, but then: %v", text, err)
		}
	})
}
