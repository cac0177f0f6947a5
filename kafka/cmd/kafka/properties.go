package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/storage"
)

// maxPropertiesBytes bounds a properties file.
const maxPropertiesBytes = 1 << 20

// property is a key of Kafka 0.7's server.properties: what flag it stands for,
// or why it has none.
type property struct {
	key  string
	flag string // empty: it is one of the others
	// value turns the key's value into the flag's.
	value func(string) (string, error)
	// help says in what unit the value is, and what else there is to know.
	help string
	// zooKeeper says that the key is for the registration there alone.
	zooKeeper bool
	// without says why a key has no effect here: it is named in a warning.
	without string
}

// serverProperties are all keys of a 0.7 broker, in the order of its
// documentation. Of two for one flag the later wins. Numbers are as 0.7 writes
// them, without a unit; and what would mean "off" for the flag is refused, as it
// meant something else, or nothing, to 0.7 (KAFKA-481).
var serverProperties = []property{
	{key: "brokerid", flag: "broker-id", value: ids.convert, help: ids.help()},
	{key: "log.dir", flag: "log-dir", value: folder},
	{key: "port", flag: "listen", value: portToListen, help: "that port on all interfaces"},
	{key: "num.partitions", flag: "num-partitions", value: partitions.convert, help: partitions.help()},
	{key: "topic.partition.count.map", flag: "topic-partitions", value: partitions.convertMap, help: partitions.mapHelp()},
	{key: "log.file.size", flag: "segment-size", value: someBytes.convert, help: someBytes.help()},
	{key: "topic.log.file.size", flag: "topic-segment-size", value: someBytes.convertMap, help: someBytes.mapHelp()},
	{key: "log.roll.hours", flag: "roll-interval", value: hours.convert, help: hours.help()},
	{key: "topic.log.roll.hours", flag: "topic-roll-interval", value: hours.convertMap, help: hours.mapHelp()},
	{key: "log.flush.interval", flag: "flush-messages", value: messages.convert, help: messages.help()},
	{key: "log.default.flush.scheduler.interval.ms", flag: "flush-interval", value: milliseconds.convert, help: milliseconds.help() + ", unless the next key is there"},
	{key: "log.default.flush.interval.ms", flag: "flush-interval", value: milliseconds.convert, help: milliseconds.help()},
	{key: "topic.flush.intervals.ms", flag: "topic-flush-interval", value: milliseconds.convertMap, help: milliseconds.mapHelp()},
	{key: "log.retention.hours", flag: "retention", value: hours.convert, help: hours.help()},
	{key: "topic.log.retention.hours", flag: "topic-retention", value: hours.convertMap, help: hours.mapHelp()},
	{key: "log.retention.size", flag: "retention-size", value: bytesOrOff.convert, help: bytesOrOff.help()},
	{key: "topic.log.retention.size", flag: "topic-retention-size", value: bytesOrOff.convertMap, help: bytesOrOff.mapHelp()},
	{key: "log.cleanup.interval.mins", flag: "cleanup-interval", value: minutes.convert, help: minutes.help()},
	{key: "max.message.size", flag: "max-message-size", value: someBytes.convert, help: someBytes.help()},
	{key: "max.socket.request.bytes", flag: "max-request-size", value: someBytes.convert, help: someBytes.help()},
	{key: "socket.send.buffer", flag: "socket-send-buffer", value: someBytes.convert, help: someBytes.help()},
	{key: "socket.receive.buffer", flag: "socket-receive-buffer", value: someBytes.convert, help: someBytes.help()},
	{key: enableZooKeeper, value: boolean, help: "true: register in the ZooKeeper of zk.connect, which must be there; false: the keys for it have no effect; without it zk.connect decides"},
	{key: zkConnect, flag: zkFlag, value: zkServers, zooKeeper: true},
	{key: "zk.sessiontimeout.ms", flag: zkSessionFlag, value: zkMilliseconds.convert, help: zkMilliseconds.help(), zooKeeper: true},
	{key: "zk.connectiontimeout.ms", flag: zkTimeoutFlag, value: zkMilliseconds.convert, help: zkMilliseconds.help(), zooKeeper: true},
	{key: "hostname", flag: hostnameFlag, value: hostToRegister, zooKeeper: true},
	{key: "num.threads", without: "each connection is served by a goroutine of its own"},
	{key: "monitoring.period.secs", without: "see --metrics-listen"},
	{key: "max.topic.name.length", without: "topic names have at most 249 bytes"},
	{key: "zk.synctime.ms", without: "the broker reads nothing from ZooKeeper that would have to be fresh"},
}

// Keys that say whether the broker registers in ZooKeeper.
const (
	enableZooKeeper = "enable.zookeeper"
	zkConnect       = "zk.connect"
)

// unit is what the number of a key counts.
type unit struct {
	name string
	// least and most bound the number (inclusive).
	least, most int64
	// duration is one of it, 0 if it is no time.
	duration time.Duration
	// off takes -1 for "off".
	off bool
	// flagOff says that 0 is "off" for the flag, though not for the key.
	flagOff bool
}

var (
	ids          = unit{name: "a number", least: 0, most: math.MaxInt32}
	partitions   = unit{name: "partitions", least: 1, most: storage.MaxPartitions}
	messages     = unit{name: "messages", least: 1, most: math.MaxInt32, flagOff: true}
	someBytes    = unit{name: "bytes", least: 1, most: math.MaxInt64}
	bytesOrOff   = unit{name: "bytes", least: 1, most: math.MaxInt64, off: true}
	milliseconds = unit{name: "milliseconds", least: 1, most: math.MaxInt64 / int64(time.Millisecond), duration: time.Millisecond, flagOff: true}
	// Time-outs of ZooKeeper are 32 bits wide.
	zkMilliseconds = unit{name: "milliseconds", least: coord.MinSessionTimeout.Milliseconds(), most: coord.MaxSessionTimeout.Milliseconds(), duration: time.Millisecond}
	minutes        = unit{name: "minutes", least: 1, most: math.MaxInt64 / int64(time.Minute), duration: time.Minute}
	hours          = unit{name: "hours", least: 1, most: math.MaxInt64 / int64(time.Hour), duration: time.Hour, flagOff: true}
)

func (u unit) help() string {
	if u.off {
		return u.name + "; -1 is off"
	}
	return u.name
}

func (u unit) mapHelp() string { return "topic:" + u.name + ", several divided by commas" }

// convert turns a number into the value of a flag.
func (u unit) convert(text string) (string, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return "", fmt.Errorf("%.100q is not a whole number (%s)", text, u.name)
	case err == nil && u.off && n == -1:
		return "0", nil
	case err != nil || n < u.least || n > u.most:
		return "", fmt.Errorf("%.100s (%s): %s is possible%s", text, u.name, u.bounds(), u.instead(n))
	case u.duration > 0:
		return (time.Duration(n) * u.duration).String(), nil
	}
	return strconv.FormatInt(n, 10), nil
}

func (u unit) bounds() string { return fmt.Sprintf("from %d to %d", u.least, u.most) }

// instead says how to switch something off, to who has tried to with n.
func (u unit) instead(n int64) string {
	switch {
	case n > 0:
		return ""
	case u.off:
		return ", or -1, which is off"
	case u.flagOff:
		return "; to switch it off, leave the key out and give the flag 0"
	}
	return ""
}

// convertMap does so with each number of a map by topic.
func (u unit) convertMap(text string) (string, error) {
	entries, err := parseTopicMap(text)
	if err != nil {
		return "", err
	}
	converted := make([]string, len(entries))
	for i, e := range entries {
		v, err := u.convert(e.value)
		if err != nil {
			return "", fmt.Errorf("topic %q: %w", e.topic, err)
		}
		converted[i] = e.topic + ":" + v
	}
	return strings.Join(converted, ","), nil
}

// folder checks the name of a folder. A blank behind it would be part of it, and
// nobody sees why the folder is another one.
func folder(text string) (string, error) {
	switch {
	case text == "":
		return "", errors.New("there is no value")
	case text != strings.TrimSpace(text):
		return "", fmt.Errorf("%q has blanks around it, which would be part of the folder's name: remove them", text)
	}
	return text, nil
}

func portToListen(text string) (string, error) {
	text = strings.TrimSpace(text)
	if _, err := strconv.ParseUint(text, 10, 16); err != nil {
		return "", fmt.Errorf("%.100q is not a port from 0 to 65535", text)
	}
	return ":" + text, nil
}

// boolean checks that a value is one of Java's.
func boolean(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text != "true" && text != "false" {
		return "", fmt.Errorf("%.100q is neither true nor false", text)
	}
	return text, nil
}

func zkServers(text string) (string, error) {
	text = strings.TrimSpace(text)
	return text, coord.Config{Servers: text}.Check()
}

func hostToRegister(text string) (string, error) {
	text = strings.TrimSpace(text)
	return text, registry.CheckHost(text)
}

// withoutZooKeeper tells why the keys for ZooKeeper have no effect, if they have none. The
// servers may be given by a flag.
func withoutZooKeeper(values map[string]propertyValue, given bool) (why string, err error) {
	enable, said := values[enableZooKeeper]
	on := ""
	if said {
		if on, err = boolean(enable.value); err != nil {
			return "", fmt.Errorf("line %d: %s: %w", enable.line, enableZooKeeper, err)
		}
	}
	_, connect := values[zkConnect]
	switch {
	case given:
		return "", nil
	case on == "false":
		return enableZooKeeper + " is false", nil
	case connect:
		return "", nil
	case on == "true":
		return "", fmt.Errorf("line %d: %s is true, but nothing says where ZooKeeper is: add %s, or say false and let clients name the broker with --broker-list", enable.line, enableZooKeeper, zkConnect)
	}
	return "there is no " + zkConnect, nil
}

// keyHelp is a table of keys for --help.
func keyHelp(table []property) string {
	var b strings.Builder
	for _, p := range table {
		meaning := p.help
		switch {
		case p.flag != "" && p.help != "":
			meaning = "--" + p.flag + " (" + p.help + ")"
		case p.flag != "":
			meaning = "--" + p.flag
		case p.without != "":
			meaning = "no effect: " + p.without
		}
		fmt.Fprintf(&b, "  %-40s %s\n", p.key, meaning)
	}
	return b.String()
}

// note names a key that has no effect.
type note struct{ key, why string }

// applyProperties reads a properties file and sets the flags that were not
// given on the command line.
func applyProperties(fs *flagSet, path string) ([]note, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	defer file.Close()
	values, err := readProperties(file, serverProperties, "kafka broker")
	if err != nil {
		return nil, usagef("--config: %s: %v", path, err)
	}
	notes, err := setFlags(fs, values)
	if err != nil {
		return nil, usagef("--config: %s: %v", path, err)
	}
	for flag, key := range fs.keys {
		fs.keys[flag] = fmt.Sprintf("--config: %s: %s", path, key)
	}
	return notes, nil
}

// nameKey names in an error of a flag the key that has set it, if one has: the flag
// was given by nobody.
func (f *flagSet) nameKey(err error) error {
	var usage usageError
	if !errors.As(err, &usage) {
		return err
	}
	for flag, key := range f.keys {
		if rest, ok := strings.CutPrefix(err.Error(), "--"+flag); ok && strings.HasPrefix(strings.TrimPrefix(rest, ":"), " ") {
			return usagef("%s%s", key, rest)
		}
	}
	return err
}

// setFlags sets the flags that keys stand for. One that was given on the command
// line wins over the whole value of its keys, also where that is a map; but what
// a key says is checked all the same.
func setFlags(fs *flagSet, values map[string]propertyValue) (notes []note, err error) {
	fs.keys = map[string]string{}
	given := map[string]bool{}
	for _, p := range serverProperties {
		given[p.flag] = p.flag != "" && fs.Changed(p.flag)
	}
	notRegistered, err := withoutZooKeeper(values, given[zkFlag])
	if err != nil {
		return nil, err
	}
	for _, p := range serverProperties {
		v, ok := values[p.key]
		if !ok {
			continue
		}
		if p.without != "" {
			notes = append(notes, note{p.key, p.without})
			continue
		}
		value, err := p.value(v.value)
		switch {
		case err != nil:
		case p.zooKeeper && notRegistered != "":
			notes = append(notes, note{p.key, notRegistered})
		case p.flag != "" && !given[p.flag]:
			err = fs.Set(p.flag, value)
			var invalid *pflag.InvalidValueError // it names the flag
			if errors.As(err, &invalid) {
				err = invalid.Unwrap()
			}
			fs.keys[p.flag] = fmt.Sprintf("line %d: %s", v.line, p.key)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", v.line, p.key, err)
		}
	}
	return notes, nil
}

// propertyValue is a value and the line that it stands in.
type propertyValue struct {
	value string
	line  int
}

// readProperties reads a properties file, for a command. Keys that are not in its table,
// and keys that stand there twice, are errors; Java would take the last.
func readProperties(r io.Reader, table []property, command string) (map[string]propertyValue, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPropertiesBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPropertiesBytes {
		return nil, fmt.Errorf("more than %d bytes: is it a properties file?", maxPropertiesBytes)
	}
	properties, err := parseJavaProperties(string(text))
	if err != nil {
		return nil, err
	}
	values := map[string]propertyValue{}
	for _, p := range properties {
		if !slices.ContainsFunc(table, func(known property) bool { return known.key == p.key }) {
			return nil, fmt.Errorf("line %d: unknown key %.80q; the nearest is %q (\"%s --help\" lists all)", p.line, p.key, nearestProperty(p.key, table), command)
		}
		if first, twice := values[p.key]; twice {
			return nil, fmt.Errorf("line %d: %s is there already, in line %d", p.line, p.key, first.line)
		}
		values[p.key] = propertyValue{p.value, p.line}
	}
	return values, nil
}

// nearestProperty returns the key that takes the fewest changes of a letter to
// reach.
func nearestProperty(key string, table []property) string {
	var keys []string
	for _, p := range table {
		keys = append(keys, p.key)
	}
	return nearest(key[:min(len(key), 80)], keys)
}
