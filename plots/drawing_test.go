package plots

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inventedCluster is a cluster that never was.
func inventedCluster(name string, brokers int32, groups ...string) Cluster {
	c := Cluster{Name: name, ZooKeeper: "ZooKeeper (synthetic)", Producers: []Producer{{"web-1", []string{"clicks"}}, {"web-2", []string{"clicks", "searches"}}}}
	for b := range brokers {
		c.Brokers = append(c.Brokers, ClusterBroker{ID: b, Address: fmt.Sprintf("127.0.0.1:%d", 9092+b), Partitions: []BrokerPartition{
			{"clicks", 0, 0, 209_000, 209_000, 3}, {"clicks", 1, 0, 104_500, 104_500, 2}, {"searches", 0, 0, 0, 0, 1},
		}})
	}
	for i, name := range groups {
		g := Group{Name: name}
		for k := range 2 - i%2 {
			id := fmt.Sprintf("%s_host-%d", name, k)
			g.Members = append(g.Members, Member{id, []string{id + "-0"}})
		}
		for k, b := range c.Brokers {
			for _, p := range b.Partitions {
				part := GroupPartition{Topic: p.Topic, BrokerID: b.ID, Partition: p.Partition}
				if m := g.Members[k%len(g.Members)]; p.Topic != "searches" || i > 0 {
					part.Owner, part.Committed = &m.Streams[0], new(p.Watermark)
				}
				g.Partitions = append(g.Partitions, part)
			}
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

func inventedTopology() *Topology {
	t := &Topology{
		Schema: DrawingsSchema, Taken: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Commit: "0123456789abcdef", Command: "testbed draw", Note: "Synthetic: no cluster was read.",
		Clusters: []Cluster{inventedCluster("live", 2, "news", "audit"), inventedCluster("live, other centre", 1), inventedCluster("analysis", 2, "load")},
		Mirrors:  []Mirror{{"live", "analysis", []string{"clicks", "searches"}}, {"live, other centre", "analysis", []string{"clicks"}}},
	}
	t.Clusters[2].Loads = []Load{{"load into files", []string{"clicks", "searches"}}}
	return t
}

func inventedLog(segments int) *PartitionLog {
	l := &PartitionLog{
		Schema: DrawingsSchema, Taken: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Commit: "0123456789abcdef", Command: "testbed draw", Note: "Synthetic: no log was read.",
		Broker: "broker 0", Topic: "clicks", SegmentBytes: 16_384,
	}
	at := int64(0)
	for i := range segments {
		s := LogSegment{File: fmt.Sprintf("%020d.kafka", at), Base: at, Messages: 79}
		if i == segments-1 {
			s.Messages = 3
		}
		for k := range s.Messages {
			if k < 6 || k >= s.Messages-6 {
				s.Shown = append(s.Shown, LogMessage{at + 209*k, at + 209*(k+1)})
			}
		}
		at += 209 * s.Messages
		s.End = at
		l.Segments, l.Bases = append(l.Segments, s), append(l.Bases, s.Base)
	}
	l.Watermark = at
	return l
}

func writeInvented(t testing.TB, topology *Topology, l *PartitionLog) string {
	t.Helper()
	dir := t.TempDir()
	if err := WriteDrawings(dir, topology, l); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every drawing comes in three formats, twice the same, and says what it was
// made of.
func TestDrawings(t *testing.T) {
	dir := writeInvented(t, inventedTopology(), inventedLog(5))
	if !HoldsDrawings(dir) || HoldsDrawings(t.TempDir()) {
		t.Error("a folder of drawings is not told from another one")
	}
	first, second := t.TempDir(), t.TempDir()
	written, err := DrawLive(dir, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DrawLive(dir, second); err != nil {
		t.Fatal(err)
	}
	names := []string{"fig1-cluster-live", "fig1-cluster-live--other-centre", "fig1-cluster-analysis", "fig2-log", "fig3-clusters"}
	if len(written) != 3*len(names) {
		t.Errorf("written: %q", written)
	}
	for _, name := range names {
		for _, format := range []string{"png", "svg", "pdf"} {
			a, err := os.ReadFile(filepath.Join(first, name+"."+format))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(second, name+"."+format)); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s.%s is not the same twice (%v)", name, format, err)
			}
			if format == "png" {
				if _, err := png.Decode(bytes.NewReader(a)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	drawings, err := LiveDrawings(dir)
	if err != nil || len(drawings) != len(names) {
		t.Fatalf("%d drawings, %v", len(drawings), err)
	}
	for i, want := range [][]string{
		{"broker 0", "broker 1", "clicks", "searches", "0-1", "group news", "group audit", "host-1", "web-2", "publishes clicks, searches", "ZooKeeper", "2 brokers", "clicks 1-1: 104,500"},
		{"broker 0", "ZooKeeper", "0 consumers"},
		{"group load"},
		{"list in memory", "00000000000000000000.kafka", "16,511", "watermark", "79 messages, 16,511 bytes", "3 messages, 627 bytes"},
		{"live", "live, other centre", "analysis", "mirror", "clicks (2), searches (1)", "group load: 2 consumers", "load into files < clicks, searches"},
	} {
		said := wordsOf(t, drawings[i].SVG)
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("%s does not say %q:\n%s", drawings[i].Name, w, said)
			}
		}
		if caption := strings.Join(drawings[i].Caption, " "); !strings.Contains(caption, "Synthetic") || !strings.Contains(caption, "2026-11-30T12:00:00Z") {
			t.Errorf("caption %q", caption)
		}
	}
	if caption := drawings[0].Caption[0]; !strings.Contains(caption, "2 brokers, 2 topics, 6 partitions, 2 consumer groups; partitions without an owner: 2") {
		t.Errorf("caption %q", caption)
	}
}

// wordsOf are the texts of a drawing, a line each.
func wordsOf(t *testing.T, svg []byte) string {
	t.Helper()
	var b strings.Builder
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if words, ok := token.(xml.CharData); ok {
			if s := strings.TrimSpace(string(words)); s != "" {
				b.WriteString(s + "\n")
			}
		}
	}
}

// One cluster, no producer, no group, no log, many segments: each is drawn.
func TestDrawingsOfLittleAndMuch(t *testing.T) {
	bare := inventedTopology()
	bare.Clusters, bare.Mirrors = []Cluster{{Name: "bare", ZooKeeper: "ZooKeeper", Brokers: []ClusterBroker{{ID: 7, Address: "127.0.0.1:9092"}}}}, nil
	drawings, err := LiveDrawings(writeInvented(t, bare, nil))
	if err != nil || len(drawings) != 1 || drawings[0].Name != "fig1-cluster" {
		t.Fatalf("%+v, %v", drawings, err)
	}
	wide := inventedTopology()
	wide.Clusters = []Cluster{inventedCluster("wide", 12, "a", "b", "c", "d", "e")}
	wide.Mirrors = nil
	drawings, err = LiveDrawings(writeInvented(t, wide, inventedLog(40)))
	if err != nil || len(drawings) != 2 {
		t.Fatalf("%d drawings, %v", len(drawings), err)
	}
	if said := wordsOf(t, drawings[1].SVG); !strings.Contains(said, "32 more") {
		t.Errorf("of 40 segments it says:\n%s", said)
	}
	ring := inventedTopology()
	ring.Mirrors = append(ring.Mirrors, Mirror{"analysis", "live", []string{"clicks"}})
	if _, err := LiveDrawings(writeInvented(t, ring, nil)); err != nil {
		t.Error(err)
	}
}

// The files are read strictly.
func TestDrawingsAreReadStrictly(t *testing.T) {
	for _, c := range []struct {
		name, file, old, new, want string
	}{
		{"unknown key", TopologyName, `"address"`, `"adress"`, `unknown field "adress"`},
		{"schema", TopologyName, `"schema": 1`, `"schema": 2`, "schema = 2"},
		{"no time", TopologyName, `"taken": "2026-11-30T12:00:00Z"`, `"taken": "0001-01-01T00:00:00Z"`, "taken is missing"},
		{"two of a name", TopologyName, `"name": "analysis"`, `"name": "live"`, `cluster "live"`},
		{"mirror to nowhere", TopologyName, `"to": "analysis"`, `"to": "mars"`, `mirror from "live" to "mars"`},
		{"negative broker", TopologyName, `"broker_id": 0`, `"broker_id": -1`, "broker -1"},
		{"offsets", TopologyName, `"watermark": 209000`, `"watermark": 209001`, "cannot be"},
		{"owner", TopologyName, `"owner": "news_host-0-0"`, `"owner": "news_host-9-0"`, "is no stream of a member"},
		{"topic of a producer", TopologyName, "\"topics\": [\n            \"clicks\"", "\"topics\": [\n            \"clocks\"", `no broker has the topic "clocks"`},
		{"topic of a load", TopologyName, "\"name\": \"load into files\",\n          \"topics\": [\n            \"clicks\"", "\"name\": \"load into files\",\n          \"topics\": [\n            \"clocks\"", `load load into files: no broker has the topic "clocks"`},
		{"cut off", TopologyName, "", "", "unexpected EOF"},
		{"something behind", TopologyName, "", "{}", "behind the end"},
		{"watermark", LogName, `"watermark": 33649`, `"watermark": 33650`, "outside of the log"},
		{"gap", LogName, `"base_offset": 16511`, `"base_offset": 16512`, "where 16511 is the end of the one before"},
		{"bases", LogName, "    16511,\n", "", "3 segments and 2 base offsets"},
		{"path", LogName, `"file": "0000`, `"file": "../0000`, "the name of a file is wanted"},
		{"message", LogName, `"next_offset": 418`, `"next_offset": 100`, "not in order"},
		{"no segment size", LogName, `"segment_bytes": 16384`, `"segment_bytes": 0`, "segment_bytes are wanted"},
		{"damaged log", LogName, "{", "", "log.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topology := inventedTopology()
			dir := writeInvented(t, topology, inventedLog(3))
			path := filepath.Join(dir, c.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(text, []byte(c.old), []byte(c.new), 1)
			switch {
			case c.name == "cut off":
				changed = text[:len(text)-10]
			case c.old == "":
				changed = append(text, c.new...)
			}
			if bytes.Equal(changed, text) {
				t.Fatalf("%q is not in %s:\n%s", c.old, c.file, text)
			}
			if err := os.WriteFile(path, changed, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := ReadDrawings(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Whatever stands in the files, reading ends with something that can be laid
// out, or with an error.
func FuzzDrawings(f *testing.F) {
	small := inventedTopology()
	small.Clusters, small.Mirrors = []Cluster{inventedCluster("a", 1, "g")}, nil
	topology, err := json.Marshal(small)
	if err != nil {
		f.Fatal(err)
	}
	l, err := json.Marshal(inventedLog(2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(topology, l)
	f.Fuzz(func(t *testing.T, clusters, files []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{TopologyName: clusters, LogName: files} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		topology, l, err := ReadDrawings(dir)
		switch {
		case err != nil && !strings.Contains(err.Error(), ".json"):
			t.Error(err)
		case err == nil && len(pictures(topology, l)) == 0:
			t.Error("nothing is drawn of it")
		}
	})
}
