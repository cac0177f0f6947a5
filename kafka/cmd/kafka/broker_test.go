package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/storage"
)

func discard() stdio { return stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard} }

// TestBrokerConfigFile: the keys of 0.7 set what their flags set, and flags on
// the command line win.
func TestBrokerConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	text := `# a comment
! another
brokerid=7
port: 9093
log.dir = /data/kafka
num.partitions=3
log.flush.interval=500
log.default.flush.scheduler.interval.ms=3000
log.default.flush.interval.ms=1500
log.file.size=536870912
max.message.size=2000
max.socket.request.bytes=1000000
socket.send.buffer=1048576
socket.receive.buffer=524288
enable.zookeeper=false
num.threads=8
zk.connect=localhost:2181
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	std := discard()
	std.Err = &log
	c, err := brokerConfig([]string{"--config", file, "--num-partitions", "5", "--visible", "appended", "--sendfile=false"}, std)
	if err != nil {
		t.Fatal(err)
	}
	type settings struct {
		id, partitions            int32
		listen, dir               string
		flushMessages             int
		flushInterval             time.Duration
		segment                   int64
		maxMessage, maxRequest    int
		sendBuffer, receiveBuffer int
		visible                   storage.Visibility
		sendfile                  bool
		readTimeout, writeTimeout time.Duration
		maxConnections            int
		metrics                   string
	}
	got := settings{c.ID, c.Storage.DefaultPartitions, c.Listen, c.LogDir, c.Storage.FlushMessages, c.Storage.FlushInterval, c.Storage.SegmentBytes,
		c.MaxMessageBytes, c.MaxRequestBytes, c.SendBufferBytes, c.ReceiveBufferBytes, c.Storage.Visible, c.Sendfile,
		c.ReadTimeout, c.WriteTimeout, c.MaxConnections, c.MetricsListen}
	want := settings{7, 5, ":9093", "/data/kafka", 500, 1500 * time.Millisecond, 536870912, 2000, 1000000, 1048576, 524288,
		storage.VisibleAppended, false, 30 * time.Second, 30 * time.Second, 10_000, ""}
	if got != want {
		t.Errorf("settings\n %+v, want\n %+v", got, want)
	}
	for _, key := range []string{"num.threads", "zk.connect"} {
		if !strings.Contains(log.String(), key) {
			t.Errorf("the log does not say that %s has no effect: %s", key, &log)
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
		{"no separator", "log.dir\n", nil, []string{"line 1", "key=value"}},
		{"twice", "port=1\n\nport=2\n", nil, []string{"line 3", "line 1", "port"}},
		{"port", "port=70000\n", nil, []string{"line 1", "port", `"70000"`, "65535"}},
		{"milliseconds", "log.default.flush.interval.ms=1s\n", nil, []string{"line 1", `"1s"`}},
		{"number", "brokerid=one\n", nil, []string{"line 1", "brokerid", "one"}},
		{"registration", "enable.zookeeper=true\n", nil, []string{"enable.zookeeper", "--broker-list"}},
		{"retention", "log.retention.hours=168\n", nil, []string{"log.retention.hours", "deletes no segments"}},
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
	buf := make([]byte, 4096)
	for !strings.Contains(log.String(), "broker started") {
		n, err := read.Read(buf)
		log.Write(buf[:n])
		if err != nil {
			t.Fatalf("the broker ended: %v; its log: %s", err, &log)
		}
	}
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

// TestBrokerHelp: the help has every 0.7 key.
func TestBrokerHelp(t *testing.T) {
	var out bytes.Buffer
	std := discard()
	std.Out = &out
	if _, err := brokerConfig([]string{"--help"}, std); err == nil {
		t.Fatal("no error: the broker would start")
	}
	for _, p := range serverProperties {
		if !strings.Contains(out.String(), p.key) {
			t.Errorf("the help lacks %s", p.key)
		}
	}
}
