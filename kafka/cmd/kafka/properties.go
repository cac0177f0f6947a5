package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPropertiesBytes bounds a properties file.
const maxPropertiesBytes = 1 << 20

// property is a key of Kafka 0.7's server.properties: what flag it stands for,
// or why it has none.
type property struct {
	key  string
	flag string // empty: it is one of the others
	// value turns the key's value into the flag's; nil leaves it as it is.
	value func(string) (string, error)
	// help says what it becomes, for keys that are not simply the flag.
	help string
	// without says why a key has no effect here: it is named in a warning.
	without string
	// refused says why a key cannot be followed, where leaving it out would do
	// something else than its user expects.
	refused string
}

// serverProperties are all keys of a 0.7 broker, in the order of its
// documentation. Of two for one flag the later wins.
var serverProperties = []property{
	{key: "brokerid", flag: "broker-id"},
	{key: "port", flag: "listen", value: portToListen, help: "that port on all interfaces"},
	{key: "log.dir", flag: "log-dir"},
	{key: "num.partitions", flag: "num-partitions"},
	{key: "log.flush.interval", flag: "flush-messages"},
	{key: "log.default.flush.scheduler.interval.ms", flag: "flush-interval", value: milliseconds, help: "unless the next key is there"},
	{key: "log.default.flush.interval.ms", flag: "flush-interval", value: milliseconds},
	{key: "log.file.size", flag: "segment-size"},
	{key: "max.message.size", flag: "max-message-size"},
	{key: "max.socket.request.bytes", flag: "max-request-size"},
	{key: "socket.send.buffer", flag: "socket-send-buffer"},
	{key: "socket.receive.buffer", flag: "socket-receive-buffer"},
	{key: "enable.zookeeper", value: onlyFalse, help: "only false: clients name brokers with --broker-list"},
	{key: "num.threads", without: "each connection is served by a goroutine of its own"},
	{key: "monitoring.period.secs", without: "see --metrics-listen"},
	{key: "max.topic.name.length", without: "topic names have at most 249 bytes"},
	{key: "hostname", without: "it is for registration in ZooKeeper"},
	{key: "zk.connect", without: "the broker does not register in ZooKeeper"},
	{key: "zk.sessiontimeout.ms", without: "the broker does not register in ZooKeeper"},
	{key: "zk.connectiontimeout.ms", without: "the broker does not register in ZooKeeper"},
	{key: "zk.synctime.ms", without: "the broker does not register in ZooKeeper"},
	{key: "topic.partition.count.map", refused: "create the topics with \"kafka topics create --partitions\" instead"},
	{key: "topic.log.file.size", refused: "the size of segments is one for all topics: log.file.size"},
	{key: "topic.flush.intervals.ms", refused: "the flush interval is one for all topics: log.default.flush.interval.ms"},
	{key: "log.roll.hours", refused: "segments are rolled by size: log.file.size"},
	{key: "topic.log.roll.hours", refused: "segments are rolled by size: log.file.size"},
	{key: "log.retention.hours", refused: "this broker deletes no segments"},
	{key: "topic.log.retention.hours", refused: "this broker deletes no segments"},
	{key: "log.retention.size", refused: "this broker deletes no segments"},
	{key: "topic.log.retention.size", refused: "this broker deletes no segments"},
	{key: "log.cleanup.interval.mins", without: "this broker deletes no segments"},
}

func portToListen(v string) (string, error) {
	if _, err := strconv.ParseUint(v, 10, 16); err != nil {
		return "", fmt.Errorf("%q is not a port from 0 to 65535", v)
	}
	return ":" + v, nil
}

func milliseconds(v string) (string, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return "", fmt.Errorf("%q is not a number of milliseconds", v)
	}
	return (time.Duration(n) * time.Millisecond).String(), nil
}

func onlyFalse(v string) (string, error) {
	if v != "false" {
		return "", fmt.Errorf("%q: this broker does not register in ZooKeeper; say false and let clients name it with --broker-list", v)
	}
	return v, nil
}

// propertyHelp is the table of keys for --help.
func propertyHelp() string {
	var b strings.Builder
	line := func(key, meaning string) { fmt.Fprintf(&b, "  %-40s %s\n", key, meaning) }
	for _, p := range serverProperties {
		switch {
		case p.flag != "" && p.help != "":
			line(p.key, "--"+p.flag+" ("+p.help+")")
		case p.flag != "":
			line(p.key, "--"+p.flag)
		case p.without != "":
			line(p.key, "no effect: "+p.without)
		case p.refused != "":
			line(p.key, "refused: "+p.refused)
		default:
			line(p.key, p.help)
		}
	}
	return b.String()
}

// note names a key that has no effect.
type note struct{ key, why string }

// applyProperties reads a properties file and sets the flags that were not
// given on the command line.
func applyProperties(fs *flagSet, path string) (notes []note, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	defer file.Close()
	values, err := readProperties(file)
	if err != nil {
		return nil, usagef("--config: %s: %v", path, err)
	}
	given := map[string]bool{}
	for _, p := range serverProperties {
		given[p.flag] = p.flag != "" && fs.Changed(p.flag)
	}
	for _, p := range serverProperties {
		v, ok := values[p.key]
		if !ok {
			continue
		}
		if p.refused != "" {
			return nil, usagef("--config: %s: line %d: %s cannot be followed: %s", path, v.line, p.key, p.refused)
		}
		if p.without != "" {
			notes = append(notes, note{p.key, p.without})
		}
		value := v.value
		if p.value != nil {
			if value, err = p.value(value); err != nil {
				return nil, usagef("--config: %s: line %d: %s: %v", path, v.line, p.key, err)
			}
		}
		if p.flag != "" && !given[p.flag] {
			if err := fs.Set(p.flag, value); err != nil {
				return nil, usagef("--config: %s: line %d: %s: %v", path, v.line, p.key, err)
			}
		}
	}
	return notes, nil
}

// propertyValue is a value and the line that it stands in.
type propertyValue struct {
	value string
	line  int
}

// readProperties reads a Java properties file: key=value or key:value lines,
// and comments after # or !. Keys that a 0.7 broker does not have, and keys
// that stand there twice, are errors.
func readProperties(r io.Reader) (map[string]propertyValue, error) {
	values := map[string]propertyValue{}
	lines := bufio.NewScanner(io.LimitReader(r, maxPropertiesBytes+1))
	lines.Buffer(nil, maxPropertiesBytes)
	read := 0
	for n := 1; lines.Scan(); n++ {
		if read += len(lines.Bytes()) + 1; read > maxPropertiesBytes {
			return nil, fmt.Errorf("more than %d bytes: is it a properties file?", maxPropertiesBytes)
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		i := strings.IndexAny(line, "=:")
		if i < 0 {
			return nil, fmt.Errorf("line %d: %.80q is not key=value", n, line)
		}
		key, value := strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:])
		if !slices.ContainsFunc(serverProperties, func(p property) bool { return p.key == key }) {
			return nil, fmt.Errorf("line %d: unknown key %.80q; the nearest is %q (\"kafka broker --help\" lists all)", n, key, nearestProperty(key))
		}
		if first, twice := values[key]; twice {
			return nil, fmt.Errorf("line %d: %s is there already, in line %d", n, key, first.line)
		}
		values[key] = propertyValue{value, n}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line of more than %d bytes: is it a properties file?", maxPropertiesBytes)
	} else if err != nil {
		return nil, err
	}
	return values, nil
}

// nearestProperty returns the key that takes the fewest changes of a letter to
// reach.
func nearestProperty(key string) string {
	key = key[:min(len(key), 80)]
	return slices.MinFunc(serverProperties, func(a, b property) int {
		return editDistance(key, a.key) - editDistance(key, b.key)
	}).key
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
