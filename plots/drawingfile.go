package plots

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"kafkalab/results/resultfile"
)

// The files of a folder of drawings, which "testbed draw" writes.
const (
	TopologyName = "topology.json"
	LogName      = "log.json"
)

// DrawingsSchema is the version of both files.
const DrawingsSchema = 1

// Bounds of what is read, so that a damaged file costs little.
const (
	maxDrawingBytes = 8 << 20
	maxDrawn        = 10_000 // of anything in one list
)

// Topology is what clusters were at a moment: what ZooKeeper held of them
// (NetDB'11 §3.2), and the producers, of which ZooKeeper knows nothing.
type Topology struct {
	Schema   int       `json:"schema"`
	Taken    time.Time `json:"taken"`
	Commit   string    `json:"commit"`         // of the project
	Command  string    `json:"command"`        // that made it
	Note     string    `json:"note,omitempty"` // what else must be said of it
	Clusters []Cluster `json:"clusters"`
	Mirrors  []Mirror  `json:"mirrors,omitempty"`
}

// Cluster is the brokers that share a ZooKeeper, with those who use them.
type Cluster struct {
	Name      string          `json:"name"`
	ZooKeeper string          `json:"zookeeper"` // what kind of it, in words
	Brokers   []ClusterBroker `json:"brokers"`
	Producers []Producer      `json:"producers,omitempty"`
	Groups    []Group         `json:"groups,omitempty"`
	Loads     []Load          `json:"loads,omitempty"`
}

// ClusterBroker is a broker with the partitions that it holds.
type ClusterBroker struct {
	ID         int32             `json:"broker_id"`
	Address    string            `json:"address"`
	Partitions []BrokerPartition `json:"partitions"`
}

// BrokerPartition is a partition as its broker describes it. Offsets are in
// bytes; Watermark, the end of what is visible, and LogEnd are exclusive.
type BrokerPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first_offset"`
	Watermark int64  `json:"watermark"`
	LogEnd    int64  `json:"log_end"`
	Segments  int32  `json:"segments"`
}

// Producer is a program that publishes.
type Producer struct {
	Name   string   `json:"name"`
	Topics []string `json:"topics"`
}

// Load is a program that reads from brokers without a group, and keeps its offsets
// itself.
type Load struct {
	Name   string   `json:"name"`
	Topics []string `json:"topics"`
}

// Group is a consumer group.
type Group struct {
	Name       string           `json:"group"`
	Members    []Member         `json:"members"`
	Partitions []GroupPartition `json:"partitions"`
}

// Member is a consumer of a group.
type Member struct {
	Consumer string   `json:"consumer"`
	Streams  []string `json:"streams"`
}

// GroupPartition is how far a group is with a partition, and which of its
// streams owns it. Nil: nobody does, nothing was committed.
type GroupPartition struct {
	Topic     string  `json:"topic"`
	BrokerID  int32   `json:"broker_id"`
	Partition int32   `json:"partition"`
	Owner     *string `json:"owner"`
	Committed *int64  `json:"committed_offset"`
}

// Mirror copies topics from one cluster to another (NetDB'11 §4).
type Mirror struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	Topics []string `json:"topics"`
}

// PartitionLog is the log of one partition: its files, and the list of base
// offsets that the broker keeps of them in memory (NetDB'11 §3.1).
type PartitionLog struct {
	Schema       int       `json:"schema"`
	Taken        time.Time `json:"taken"`
	Commit       string    `json:"commit"`
	Command      string    `json:"command"`
	Note         string    `json:"note,omitempty"`
	Broker       string    `json:"broker"`
	Topic        string    `json:"topic"`
	Partition    int32     `json:"partition"`
	SegmentBytes int64     `json:"segment_bytes"` // a new file is begun when the last one is larger
	// Bases are the broker's list, ascending; Watermark its end of what is
	// visible, exclusive.
	Bases     []int64      `json:"bases"`
	Watermark int64        `json:"watermark"`
	Segments  []LogSegment `json:"segments"`
}

// LogSegment is a file of a log. Messages are some of those in it, the first
// and the last among them.
type LogSegment struct {
	File     string       `json:"file"`
	Base     int64        `json:"base_offset"`
	End      int64        `json:"end"` // of its last message, exclusive
	Messages int64        `json:"messages"`
	Shown    []LogMessage `json:"shown"`
}

// LogMessage is where a message stands.
type LogMessage struct {
	Offset int64 `json:"offset"`
	Next   int64 `json:"next_offset"`
}

// HoldsDrawings says whether a folder is one of drawings, and not of a run.
func HoldsDrawings(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, TopologyName))
	return err == nil
}

// ReadDrawings reads a folder of drawings strictly: a key that is not known, a
// number that cannot be, or a name that stands for nothing is an error that
// names the file. A folder without a log has none.
func ReadDrawings(dir string) (*Topology, *PartitionLog, error) {
	var t Topology
	if err := readDrawing(dir, TopologyName, &t); err != nil {
		return nil, nil, err
	}
	if err := t.check(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, TopologyName), err)
	}
	var l PartitionLog
	switch err := readDrawing(dir, LogName, &l); {
	case errors.Is(err, os.ErrNotExist):
		return &t, nil, nil
	case err != nil:
		return nil, nil, err
	}
	if err := l.check(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, LogName), err)
	}
	return &t, &l, nil
}

// WriteDrawings writes both files into a folder, which is made if need be, after
// the same checks. l may be nil.
func WriteDrawings(dir string, t *Topology, l *PartitionLog) error {
	if err := t.check(); err != nil {
		return fmt.Errorf("%s: %w", TopologyName, err)
	}
	if err := writeDrawing(dir, TopologyName, t); err != nil || l == nil {
		return err
	}
	if err := l.check(); err != nil {
		return fmt.Errorf("%s: %w", LogName, err)
	}
	return writeDrawing(dir, LogName, l)
}

func writeDrawing(dir, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return resultfile.ReplaceFile(filepath.Join(dir, name), append(data, '\n'))
}

func readDrawing(dir, name string, into any) error {
	path := filepath.Join(dir, name)
	data, err := resultfile.ReadBounded(path, maxDrawingBytes)
	if err != nil {
		return err
	}
	if err := resultfile.DecodeStrict(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
