package storage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// topic is what the manager knows about one topic. It never changes once it is
// in a published table.
type topic struct {
	created    bool  // by CreateTopic; its count is in the topics file
	partitions int32 // count in force
	logs       []*Log
}

// topicTable maps names to topics. A published table never changes, so that
// looking a log up takes no lock.
type topicTable map[string]*topic

// with returns a copy of the table in which name stands for t, or for nothing
// when t is nil.
func (t topicTable) with(name string, to *topic) topicTable {
	c := maps.Clone(t)
	if to == nil {
		delete(c, name)
	} else {
		c[name] = to
	}
	return c
}

// withLog returns a copy of the topic that has l too.
func (t *topic) withLog(l *Log) *topic {
	c := *t
	c.logs = make([]*Log, max(len(t.logs), int(l.partition)+1))
	copy(c.logs, t.logs)
	c.logs[l.partition] = l
	return &c
}

// log returns the log of a partition, or nil.
func (t *topic) log(partition int32) *Log {
	if partition < 0 || partition >= t.partitions || int(partition) >= len(t.logs) {
		return nil
	}
	return t.logs[partition]
}

// The topics file holds the partition counts of created topics, a line each:
//
//	kafkalab topics 1
//	<partitions> <topic>
//	…
//	end <number of topics>
//
// The last line tells a whole file from one that was cut.
const topicsHeader = "kafkalab topics 1"

// maxTopicsBytes bounds what is read of a topics file.
const maxTopicsBytes = 256 << 20

// readTopics returns the partition counts in the topics file, none if there is
// no file.
func readTopics(fsys vfs.FS, dir string) (map[string]int32, error) {
	path := filepath.Join(dir, topicsName)
	file, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]int32{}, nil
	}
	if err != nil {
		return nil, err
	}
	counts, err := parseTopics(io.NewSectionReader(file, 0, maxTopicsBytes))
	if err != nil {
		err = fmt.Errorf("%s: %w: put back a good copy, or remove it and create the topics again (their messages stay)", path, err)
	}
	return counts, errors.Join(err, file.Close())
}

func parseTopics(r io.Reader) (map[string]int32, error) {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != topicsHeader {
		return nil, errors.Join(fmt.Errorf("line 1 is %.40q, %q wanted", lines.Text(), topicsHeader), lines.Err())
	}
	counts := map[string]int32{}
	for n := 2; lines.Scan(); n++ {
		count, name, _ := strings.Cut(lines.Text(), " ")
		if count == "end" {
			if name != strconv.Itoa(len(counts)) || lines.Scan() {
				return nil, fmt.Errorf("line %d ends a file of %q topics, but %d are there, or more follows", n, name, len(counts))
			}
			return counts, nil
		}
		partitions, err := strconv.ParseInt(count, 10, 32)
		if err != nil || partitions < 1 || partitions > MaxPartitions {
			return nil, fmt.Errorf("line %d: partition count %q, 1 to %d wanted", n, count, MaxPartitions)
		}
		if err := message.CheckTopic(name); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := counts[name]; twice {
			return nil, fmt.Errorf("line %d: topic %q is there twice", n, name)
		}
		counts[name] = int32(partitions)
	}
	return nil, errors.Join(errors.New("the last line is missing"), lines.Err())
}

// writeTopics replaces the topics file by one of the created topics of a table.
// A crash leaves the old one or the new one, whole.
func writeTopics(fsys vfs.FS, dir string, table topicTable) error {
	var b bytes.Buffer
	b.WriteString(topicsHeader + "\n")
	n := 0
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if t := table[name]; t.created {
			fmt.Fprintf(&b, "%d %s\n", t.partitions, name)
			n++
		}
	}
	fmt.Fprintf(&b, "end %d\n", n)
	if err := replaceFile(fsys, dir, topicsName, b.Bytes()); err != nil {
		return fmt.Errorf("write the topics file: %w", err)
	}
	return nil
}

// replaceFile gives a file new content, atomically and safe from a crash.
func replaceFile(fsys vfs.FS, dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	temporary := path + temporarySuffix
	if err := removeIfThere(fsys, temporary); err != nil {
		return err
	}
	file, err := fsys.Create(temporary)
	if err != nil {
		return err
	}
	err = writeFull(file, content, 0)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fsys.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(temporary))
	}
	return fsys.SyncDir(dir)
}
