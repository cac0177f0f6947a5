package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/storage"
)

func discard() stdio { return stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard} }

// brokerConfig returns the configuration of the broker alone.
func brokerConfig(args []string, std stdio) (broker.Config, error) {
	cfg, _, err := brokerSettings(args, std)
	return cfg, err
}

// sampleProperties is a server.properties with every key of Kafka 0.7 that is
// followed, and some that are not.
const sampleProperties = `# a comment
! another
brokerid=7
port: 9093
log.dir = /data/kafka
num.partitions=3
topic.partition.count.map=clicks:8, searches:4
log.flush.interval=500
log.default.flush.scheduler.interval.ms=3000
log.default.flush.interval.ms=1500
topic.flush.intervals.ms=clicks:100
log.file.size=536870912
topic.log.file.size=searches:1048576
log.roll.hours 24
topic.log.roll.hours=searches:1
log.retention.hours=48
topic.log.retention.hours=clicks:2,\
    searches:3
log.retention.size=-1
topic.log.retention.size=clicks:1000000,searches:-1
log.cleanup.interval.mins=1
max.message.size=2000
max.socket.request.bytes=1000000
socket.send.buffer=1048576
socket.receive.buffer=524288
enable.zookeeper=false
num.threads=8
zk.connect=localhost:2181
`

// TestBrokerConfigFile: the keys of 0.7 set what their flags set, and flags on
// the command line win.
func TestBrokerConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(sampleProperties), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	std := discard()
	std.Err = &log
	c, err := brokerConfig([]string{"--config", file, "--num-partitions", "5", "--visible", "appended", "--sendfile=false", "--topic-flush-interval", "audit:0"}, std)
	if err != nil {
		t.Fatal(err)
	}
	want := broker.DefaultConfig()
	want.ID, want.Listen, want.LogDir = 7, ":9093", "/data/kafka"
	want.Storage.DefaultPartitions = 5
	want.Storage.FlushMessages, want.Storage.FlushInterval = 500, 1500*time.Millisecond
	want.Storage.SegmentBytes = 536870912
	want.Storage.RollInterval, want.Storage.RetentionAge, want.Storage.CleanupInterval = 24*time.Hour, 48*time.Hour, time.Minute
	want.Storage.Visible = storage.VisibleAppended
	want.MaxMessageBytes, want.MaxRequestBytes = 2000, 1000000
	want.SendBufferBytes, want.ReceiveBufferBytes = 1048576, 524288
	want.Sendfile, want.Version = false, versionText()
	want.Storage.Topics = map[string]storage.TopicConfig{
		"clicks":   {Partitions: 8, RetentionAge: new(2 * time.Hour), RetentionBytes: new(int64(1000000))},
		"searches": {Partitions: 4, SegmentBytes: 1048576, RollInterval: new(time.Hour), RetentionAge: new(3 * time.Hour), RetentionBytes: new(int64(0))},
		"audit":    {FlushInterval: new(time.Duration(0))}, // the flag wins over the whole map of the file
	}
	c.Logger = nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("settings\n %+v, want\n %+v", c, want)
	}
	for _, key := range []string{"num.threads", "zk.connect"} {
		if !strings.Contains(log.String(), "key="+key+" ") {
			t.Errorf("the log does not say that %s has no effect: %s", key, &log)
		}
	}
}

// TestBrokerZooKeeperKeys: where ZooKeeper is decides whether the broker registers,
// unless enable.zookeeper says no; and keys without effect are told.
func TestBrokerZooKeeperKeys(t *testing.T) {
	const off, keys = "enable.zookeeper=false\n", "zk.connect=a:1,b/path\nhostname= h \nzk.sessiontimeout.ms=7000\nzk.connectiontimeout.ms=8000\n"
	for _, row := range []struct {
		name, file string
		args       []string
		want       coord.Config
		host       string
		notes      string // keys without effect
	}{
		{"nothing", "", nil, coord.Config{SessionTimeout: 6 * time.Second}, "", ""},
		{"keys", keys, nil, coord.Config{Servers: "a:1,b/path", SessionTimeout: 7 * time.Second, ConnectTimeout: 8 * time.Second}, "h", ""},
		{"and true", keys + "enable.zookeeper=true\nzk.synctime.ms=1\n", nil, coord.Config{Servers: "a:1,b/path", SessionTimeout: 7 * time.Second, ConnectTimeout: 8 * time.Second}, "h", "zk.synctime.ms"},
		{"but false", off + keys, nil, coord.Config{SessionTimeout: 6 * time.Second}, "", "zk.connect zk.sessiontimeout.ms zk.connectiontimeout.ms hostname"},
		{"nowhere", "hostname=h\n", nil, coord.Config{SessionTimeout: 6 * time.Second}, "", "hostname"},
		{"flags alone", "", []string{"--zk-connect", "c:3", "--zk-session-timeout", "1s", "--hostname", "g"}, coord.Config{Servers: "c:3", SessionTimeout: time.Second}, "g", ""},
		{"flags win", keys, []string{"--zk-connect", "c:3", "--hostname", "g"}, coord.Config{Servers: "c:3", SessionTimeout: 7 * time.Second, ConnectTimeout: 8 * time.Second}, "g", ""},
		{"a flag wins over false", off + keys, []string{"--zk-connect", "c:3"}, coord.Config{Servers: "c:3", SessionTimeout: 7 * time.Second, ConnectTimeout: 8 * time.Second}, "h", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "server.properties")
			if err := os.WriteFile(file, []byte(row.file), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			std := discard()
			std.Err = &log
			c, err := brokerConfig(append([]string{"--log-dir", "x", "--config", file, "--log-format", "json"}, row.args...), std)
			if err != nil {
				t.Fatal(err)
			}
			if c.ZooKeeper != row.want || c.AdvertisedHost != row.host {
				t.Errorf("%+v and host %q, want %+v and %q", c.ZooKeeper, c.AdvertisedHost, row.want, row.host)
			}
			var notes []string
			for line := range strings.Lines(log.String()) {
				var entry struct{ Key string }
				if err := json.Unmarshal([]byte(line), &entry); err != nil {
					t.Fatal(err)
				}
				notes = append(notes, entry.Key)
			}
			if got := strings.Join(notes, " "); got != row.notes {
				t.Errorf("without effect: %q, want %q", got, row.notes)
			}
		})
	}
}

// TestBrokerRegisters: the command registers under what the flags say, and another
// broker with the id is told who has it.
func TestBrokerRegisters(t *testing.T) {
	zk := zktest.Start(t, zktest.Embedded)
	args := func() []string {
		return []string{"--log-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--broker-id", "3", "--zk-connect", zk.Connect() + "/kafka", "--zk-session-timeout", "2s", "--hostname", "localhost"}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	std := discard()
	std.Err = write
	ended := make(chan error, 1)
	go func() {
		err := runBroker(ctx, args(), std)
		write.Close()
		ended <- err
	}()
	log := readUntil(t, read, "broker started")
	if !strings.Contains(log, "broker registered in ZooKeeper") || !strings.Contains(log, "host=localhost") {
		t.Errorf("its log: %s", log)
	}
	go io.Copy(io.Discard, read) // it must not wait for a reader
	err := runBroker(t.Context(), args(), discard())
	if err == nil || !strings.Contains(err.Error(), "broker id 3 is taken by the broker at localhost port ") {
		t.Errorf("a second one: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// readUntil reads a log up to a text.
func readUntil(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	var log strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(log.String(), text) {
		n, err := r.Read(buf)
		log.Write(buf[:n])
		if err != nil {
			t.Fatalf("the broker ended: %v; its log: %s", err, &log)
		}
	}
	return log.String()
}

// TestBrokerTopicFlags: settings by topic are put together, also from several
// flags of one kind.
func TestBrokerTopicFlags(t *testing.T) {
	c, err := brokerConfig([]string{"--log-dir", "x",
		"--topic-partitions", "a:2,b:c:3", "--topic-partitions", "d:4", "--topic-segment-size", "a:1MiB", "--topic-flush-messages", "a:1,d:0",
		"--topic-flush-interval", "a:10ms", "--topic-roll-interval", " a : 1h ", "--topic-retention", "a:0", "--topic-retention-size", "a:0,d:5GB"}, discard())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]storage.TopicConfig{
		"a": {
			Partitions: 2, SegmentBytes: 1 << 20, FlushMessages: new(1), FlushInterval: new(10 * time.Millisecond),
			RollInterval: new(time.Hour), RetentionAge: new(time.Duration(0)), RetentionBytes: new(int64(0)),
		},
		"b:c": {Partitions: 3},
		"d":   {Partitions: 4, FlushMessages: new(0), RetentionBytes: new(int64(5e9))},
	}
	if !reflect.DeepEqual(c.Storage.Topics, want) {
		t.Errorf("settings %+v, want %+v", c.Storage.Topics, want)
	}
}

// TestBrokerNeverFlushes: topics that nothing flushes are named in a warning.
func TestBrokerNeverFlushes(t *testing.T) {
	for _, row := range []struct {
		args []string
		says string // empty: there is no warning
	}{
		{nil, ""},
		{[]string{"--flush-messages", "0"}, ""},
		{[]string{"--flush-messages", "0", "--flush-interval", "0"}, "topics=all"},
		{[]string{"--flush-messages", "0", "--flush-interval", "0", "--visible", "appended"}, ""},
		{[]string{"--flush-messages", "0", "--topic-flush-interval", "b:0,a:0"}, `topics="a, b"`},
		{[]string{"--topic-flush-interval", "b:0"}, ""},
		{[]string{"--flush-messages", "0", "--flush-interval", "0", "--topic-flush-messages", "a:1"}, "topics=all"},
	} {
		var log bytes.Buffer
		std := discard()
		std.Err = &log
		if _, err := brokerConfig(append([]string{"--log-dir", "x"}, row.args...), std); err != nil {
			t.Fatal(err)
		}
		if (row.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), row.says) {
			t.Errorf("%v: the log is %q, want %q", row.args, &log, row.says)
		}
	}
}

// TestJavaProperties: the syntax of Java's properties files.
func TestJavaProperties(t *testing.T) {
	for _, row := range []struct {
		text string
		want []javaProperty
	}{
		{"", nil},
		{"\n \t\n# a=b\n  ! c=d\\\n", nil}, // a comment does not go on
		{"a=b", []javaProperty{{"a", "b", 1}}},
		{"\n  a : b \r\nc\td\re=\n", []javaProperty{{"a", "b ", 2}, {"c", "d", 3}, {"e", "", 4}}},
		{"a\nb=\nc:\n", []javaProperty{{"a", "", 1}, {"b", "", 2}, {"c", "", 3}}},
		{"a==b\na:=b\na  =  :b", []javaProperty{{"a", "=b", 1}, {"a", "=b", 2}, {"a", ":b", 3}}},
		{"a b=c", []javaProperty{{"a", "b=c", 1}}},
		{"=v\n:w", []javaProperty{{"", "v", 1}, {"", "w", 2}}},
		{"a=1,\\\n   2,\\\n#3\nb=4", []javaProperty{{"a", "1,2,#3", 1}, {"b", "4", 4}}},
		{"a=1\\\\\nb=2\\\\\\\n3", []javaProperty{{"a", `1\`, 1}, {"b", `2\3`, 2}}},
		{"a=1\\\n\nb=2", []javaProperty{{"a", "1", 1}, {"b", "2", 3}}},
		{"\\\n  \n#c\na=1\\", []javaProperty{{"a", "1", 4}}},
		{`a\ \=\:\#b=\ \t\n\r\f\\\q`, []javaProperty{{"a =:#b", " \t\n\r\f\\q", 1}}},
		{`\u0061=\u00e9\u4E2D\ud83d\uDE00x`, []javaProperty{{"a", "é中😀x", 1}}},
		{"é=中", []javaProperty{{"é", "中", 1}}},
		{"\ufeffa=b", []javaProperty{{"a", "b", 1}}},
	} {
		got, err := parseJavaProperties(row.text)
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%q gives %+v, %v, want %+v", row.text, got, err, row.want)
		}
	}
	for text, says := range map[string]string{
		"a=b\nc=\\u00g0":      `line 2: "\\u00g0" is no \uXXXX`,
		`a=\u12`:              `line 1: "\\u12" is no \uXXXX`,
		`a=\ud83d`:            `line 1: \ud83d is half of a character`,
		`a=\ude00\ud83d`:      `line 1: \ude00 is half of a character`,
		"a=b\n\n\xe9=1":       "line 3: \"\\xe9=1\" is not UTF-8",
		"a\\\n\\\n\\ud83dx=1": `line 1: \ud83d is half`,
	} {
		if got, err := parseJavaProperties(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gives %+v, %v, want %q", text, got, err, says)
		}
	}
}

// TestBrokerConfigRefused: each fault is a usage error that names it.
func TestBrokerConfigRefused(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		name, file string
		args       []string
		says       []string
	}{
		{"no log folder", "", nil, []string{"--log-dir"}},
		{"an argument", "", []string{"--log-dir", "x", "y"}, []string{`"y"`}},
		{"visibility", "", []string{"--log-dir", "x", "--visible", "never"}, []string{"never", "flushed", "appended"}},
		{"a size", "", []string{"--log-dir", "x", "--segment-size", "1 mile"}, []string{"1 mile", "64KiB"}},
		{"id", "", []string{"--log-dir", "x", "--broker-id", "-1"}, []string{"-1", "0 or more"}},
		{"request size", "", []string{"--log-dir", "x", "--max-request-size", "5GiB"}, []string{"5368709120", "2147483647"}},
		{"socket buffer", "", []string{"--log-dir", "x", "--socket-send-buffer", "3GiB"}, []string{"3221225472", "2147483647"}},
		{"flush count", "", []string{"--log-dir", "x", "--flush-messages", "-3"}, []string{"-3"}},
		{"partitions", "", []string{"--log-dir", "x", "--num-partitions", "200000"}, []string{"200000", "100000"}},
		{"unknown key", "log.dri=/x\n", nil, []string{"line 1", `"log.dri"`, `"log.dir"`}},
		{"unknown key, far", "compression.codec=1\n", nil, []string{`"compression.codec"`}},
		{"no value", "log.dir\n", nil, []string{"line 1", "log.dir", "no value"}},
		{"blanks around a folder", "log.dir=/x \n", nil, []string{"line 1", `"/x "`, "blanks"}},
		{"twice", "port=1\n\nport=2\n", nil, []string{"line 3", "line 1", "port"}},
		{"port", "port=70000\n", nil, []string{"line 1", "port", `"70000"`, "65535"}},
		{"milliseconds", "log.default.flush.interval.ms=1s\n", nil, []string{"line 1", `"1s"`}},
		{"number", "brokerid=one\n", nil, []string{"line 1", "brokerid", "one"}},
		{"registration nowhere", "\nenable.zookeeper=true\n", nil, []string{"line 2", "enable.zookeeper is true", "zk.connect", "--broker-list"}},
		{"registration maybe", "enable.zookeeper=yes\n", nil, []string{"line 1", "enable.zookeeper", `"yes"`, "true nor false"}},
		{"zk.connect", "zk.connect=host:port\n", nil, []string{"line 1", "zk.connect", `"port"`}},
		{"no zk.connect", "zk.connect=\n", nil, []string{"line 1", "zk.connect", "no server"}},
		{"session time-out", "zk.connect=h\nzk.sessiontimeout.ms=0\n", nil, []string{"line 2", "zk.sessiontimeout.ms", "0 (milliseconds)", "from 10 to 2147483647"}},
		{"hostname", "zk.connect=h\nhostname=fe80::1\n", nil, []string{"line 2", "hostname", "fe80::1", "give a host name"}},
		{"wrong hostname without effect", "enable.zookeeper=false\nhostname=a b\n", nil, []string{"line 2", "hostname", "a b"}},
		{"hostname flag alone", "", []string{"--log-dir", "x", "--hostname", "h"}, []string{"--hostname", "--zk-connect"}},
		{"session flag alone", "", []string{"--log-dir", "x", "--zk-session-timeout", "6s"}, []string{"--zk-session-timeout", "--zk-connect"}},
		{"hostname flag", "", []string{"--log-dir", "x", "--zk-connect", "h:1", "--hostname", "::1"}, []string{"--hostname", "::1", "give a host name"}},
		{"session flag", "", []string{"--log-dir", "x", "--zk-connect", "h:1", "--zk-session-timeout", "1ms"}, []string{"--zk-session-timeout 1ms", "10ms"}},
		{"connect time-out flag", "", []string{"--log-dir", "x", "--zk-connect", "h:1", "--zk-connect-timeout", "-1s"}, []string{"--zk-connect-timeout -1s"}},
		{"ZooKeeper flag", "", []string{"--log-dir", "x", "--zk-connect", "h:1,:2/p"}, []string{"--zk-connect", `":2"`}},
		{"half a line", "port=\\u12\n", nil, []string{"line 1", "\\uXXXX"}},
		{"Latin-1", "log.dir=/caf\xe9\n", nil, []string{"line 1", "UTF-8"}},
		// KAFKA-481: limits that make no sense.
		{"zero flush count", "log.flush.interval=0\n", nil, []string{"line 1", "log.flush.interval", "0 (messages)", "from 1 to 2147483647", "leave the key out"}},
		{"zero flush interval", "log.default.flush.interval.ms=0\n", nil, []string{"0 (milliseconds)", "leave the key out"}},
		{"negative retention", "log.retention.hours=-1\n", nil, []string{"log.retention.hours", "-1 (hours)", "from 1 to 2562047", "leave the key out"}},
		{"endless retention", "log.retention.hours=2147483647\n", nil, []string{"2147483647 (hours)", "from 1 to 2562047"}},
		{"beyond 64 bits", "log.retention.hours=99999999999999999999\n", nil, []string{"99999999999999999999", "from 1 to 2562047"}},
		{"zero roll", "log.roll.hours=0\n", nil, []string{"0 (hours)"}},
		{"zero retention size", "log.retention.size=0\n", nil, []string{"0 (bytes)", "from 1 to 9223372036854775807", "-1, which is off"}},
		{"negative retention size", "log.retention.size=-2\n", nil, []string{"-2 (bytes)", "-1, which is off"}},
		{"zero cleanup", "log.cleanup.interval.mins=0\n", nil, []string{"0 (minutes)"}},
		{"zero segment", "log.file.size=0\n", nil, []string{"0 (bytes)"}},
		{"segment beyond 64 bits", "log.file.size=9223372036854775808\n", nil, []string{"9223372036854775808 (bytes)", "from 1 to 9223372036854775807"}},
		{"a unit", "log.file.size=1GiB\n", nil, []string{`"1GiB"`, "bytes"}},
		{"zero partitions", "num.partitions=0\n", nil, []string{"0 (partitions)", "from 1 to 100000"}},
		{"zero request", "max.socket.request.bytes=0\n", nil, []string{"0 (bytes)"}},
		{"map, zero", "topic.log.retention.hours=a:1,b:0\n", nil, []string{"line 1", "topic.log.retention.hours", `"b"`, "0 (hours)"}},
		{"map, negative", "topic.log.retention.size=b:-2\n", nil, []string{`"b"`, "-2 (bytes)"}},
		{"map, too many", "topic.partition.count.map=b:100001\n", nil, []string{`"b"`, "100001 (partitions)"}},
		{"map, no colon", "topic.partition.count.map=a:1,b\n", nil, []string{`"b"`, "TOPIC:VALUE"}},
		{"map, no number", "topic.partition.count.map=a:\n", nil, []string{`"a"`, `""`, "partitions"}},
		{"map, comma at the end", "topic.partition.count.map=a:1,\n", nil, []string{`""`, "TOPIC:VALUE"}},
		{"map, topic twice", "topic.partition.count.map=a:1, a:2\n", nil, []string{`topic "a" is there twice`}},
		{"map, topic name", "topic.flush.intervals.ms=a/b:1\n", nil, []string{`"a/b"`, "U+002F"}},
		{"map, no topic", "topic.log.file.size=:1\n", nil, []string{"topic name is empty"}},
		{"flag beside a wrong key", "log.retention.hours=0\n", []string{"--retention", "1h"}, []string{"log.retention.hours"}},
		{"map flag, unit", "", []string{"--log-dir", "x", "--topic-retention", "a:30"}, []string{`topic "a"`, `"30"`, "168h"}},
		{"map flag, negative", "", []string{"--log-dir", "x", "--topic-flush-interval", "a:-1s"}, []string{`topic "a"`, `"-1s"`}},
		{"map flag, zero segment", "", []string{"--log-dir", "x", "--topic-segment-size", "a:0"}, []string{`topic "a"`, `"0"`, "at least 1 byte"}},
		{"map flag, partitions", "", []string{"--log-dir", "x", "--topic-partitions", "a:0"}, []string{`topic "a"`, `"0"`, "from 1 to 100000"}},
		{"map flag, twice", "", []string{"--log-dir", "x", "--topic-partitions", "a:1", "--topic-partitions", "a:2"}, []string{`topic "a" is there twice`}},
		{"negative retention flag", "", []string{"--log-dir", "x", "--retention", "-1h"}, []string{"--retention", "-1h0m0s"}},
		{"negative roll flag", "", []string{"--log-dir", "x", "--roll-interval", "-1h"}, []string{"--roll-interval", "-1h0m0s"}},
		{"retention size flag", "", []string{"--log-dir", "x", "--retention-size", "-1"}, []string{"--retention-size", `"-1"`}},
		{"cleanup flag", "", []string{"--log-dir", "x", "--cleanup-interval", "0"}, []string{"--cleanup-interval 0s", "--retention 0"}},
		{"cleanup all the time", "", []string{"--log-dir", "x", "--cleanup-interval", "1ns"}, []string{"--cleanup-interval 1ns", "at least 1ms"}},
		{"flush all the time", "", []string{"--log-dir", "x", "--flush-interval", "999us"}, []string{"--flush-interval 999µs", "at least 1ms", "0, which is off"}},
		{"map flag, flush all the time", "", []string{"--log-dir", "x", "--topic-flush-interval", "a:1ns"}, []string{`topic "a"`, `"1ns"`, "at least 1ms"}},
		{"connections of an address", "", []string{"--log-dir", "x", "--max-connections-per-address", "-1"}, []string{"--max-connections-per-address -1"}},
		{"request memory", "", []string{"--log-dir", "x", "--max-request-memory", "1"}, []string{"1 bytes", "full read buffer"}},
		{"decompressed", "", []string{"--log-dir", "x", "--max-decompressed-size", "3GiB"}, []string{"3221225472", "2147483647"}},
		{"log format", "", []string{"--log-dir", "x", "--log-format", "xml"}, []string{`"xml"`, "json"}},
		{"log level", "", []string{"--log-dir", "x", "--log-level", "loud"}, []string{`"loud"`, "debug"}},
		{"a binary file", strings.Repeat("\x00", 3<<20), nil, []string{"bytes"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := row.args
			if row.file != "" {
				file := filepath.Join(dir, row.name)
				if err := os.WriteFile(file, []byte(row.file), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--log-dir", "x", "--config", file)
			}
			_, err := brokerConfig(args, discard())
			var usage usageError
			if !errors.As(err, &usage) {
				t.Fatalf("error %v (%T), want a usage error", err, err)
			}
			for _, s := range row.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
}

// TestBrokerRuns: the command serves until it is told to stop, and leaves a
// folder that the next start finds clean.
func TestBrokerRuns(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	std := discard()
	std.Err = write
	ended := make(chan error, 1)
	go func() {
		err := runBroker(ctx, []string{"--log-dir", dir, "--listen", "127.0.0.1:0"}, std)
		write.Close()
		ended <- err
	}()
	var log strings.Builder
	log.WriteString(readUntil(t, read, "broker started"))
	stop()
	if _, err := io.Copy(&log, read); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v; its log: %s", err, &log)
	}
	if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}
}

// TestBrokerHelp: the help has every 0.7 key, and says what holds without a flag.
func TestBrokerHelp(t *testing.T) {
	var out bytes.Buffer
	std := discard()
	std.Out = &out
	if _, err := brokerConfig([]string{"--help"}, std); err == nil {
		t.Fatal("no error: the broker would start")
	}
	for _, p := range serverProperties {
		if !strings.Contains(out.String(), "  "+p.key+" ") {
			t.Errorf("the help lacks %s", p.key)
		}
	}
	flags, _, _ := strings.Cut(out.String(), "Examples:")
	n := 0
	for line := range strings.Lines(flags) {
		_, rest, ok := strings.Cut(line, "--")
		if !ok || !strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		n++
		flag, _, _ := strings.Cut(rest, " ")
		if flag != "log-dir" && !strings.HasPrefix(flag, "topic-") && !strings.Contains(rest, "default") {
			t.Errorf("the help says no default: %s", line)
		}
	}
	if n < 30 {
		t.Errorf("%d flags", n)
	}
}

// TestBrokerLogFormat: the log is text, or a JSON object for each entry.
func TestBrokerLogFormat(t *testing.T) {
	for format, want := range map[string]string{"text": `level=WARN msg="both flush rules`, "json": `"level":"WARN","msg":"both flush rules`} {
		var log bytes.Buffer
		std := discard()
		std.Err = &log
		if _, err := brokerConfig([]string{"--log-dir", "x", "--flush-interval", "0", "--flush-messages", "0", "--log-format", format}, std); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: %s", format, &log)
		}
		if format == "json" && !json.Valid(log.Bytes()) {
			t.Errorf("not JSON: %s", &log)
		}
	}
}
