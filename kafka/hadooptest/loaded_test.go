//go:build hadoop

package hadooptest

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// loadedMessage is a message as it lies in the output of the load.
type loadedMessage struct {
	offset  int64
	payload string
}

// loadedName is the path of a file of the load below its topic: date, broker,
// partition, start and end.
var loadedName = regexp.MustCompile(`^(\d{4}/\d\d/\d\d)/(\d+)-(\d+)-(\d+)-(\d+)\.gz$`)

// loaded reads what was published, with a reader of the layout that shares no code with
// what wrote it, nor with [etl.ReadFile]: what both had wrong in the same way would not
// be seen. The messages of a partition are in the order of their offsets.
func (w *world) loaded() map[log][]loadedMessage {
	w.t.Helper()
	folder := filepath.Join(w.t.TempDir(), topic)
	if !w.fetch(folder) {
		return nil
	}
	all := map[log][]loadedMessage{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		m := loadedName.FindStringSubmatch(filepath.ToSlash(name))
		if m == nil {
			return fmt.Errorf("what is %s?", name)
		}
		if _, err := time.Parse("2006/01/02", m[1]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var numbers [4]int64
		for i := range numbers {
			if numbers[i], err = strconv.ParseInt(m[2+i], 10, 64); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		messages, err := readLoaded(path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, m := range messages {
			if m.offset < numbers[2] || m.offset >= numbers[3] {
				return fmt.Errorf("%s holds offset %d", name, m.offset)
			}
		}
		at := log{int32(numbers[0]), int32(numbers[1])}
		all[at] = append(all[at], messages...)
		return nil
	})
	if err != nil {
		w.t.Fatalf("read the load: %v", err)
	}
	for _, messages := range all {
		slices.SortFunc(messages, func(a, b loadedMessage) int { return cmp.Compare(a.offset, b.offset) })
	}
	return all
}

// fetch copies the topic's folder to one of this machine. It says whether there is
// one.
func (w *world) fetch(folder string) bool {
	w.t.Helper()
	if _, err := w.place.shell(w.t, "-test", "-d", w.out+"/"+topic); err != nil {
		return false
	}
	w.place.dfs(w.t, "-get", w.out+"/"+topic, folder)
	return true
}

// readLoaded reads a gzip of messages: offset, length, payload, the numbers big endian
// in 8 and 4 bytes.
func readLoaded(path string) ([]loadedMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, err
	}
	var messages []loadedMessage
	for {
		var head [12]byte
		if _, err := io.ReadFull(z, head[:]); errors.Is(err, io.EOF) {
			return messages, nil
		} else if err != nil {
			return nil, err
		}
		size := binary.BigEndian.Uint32(head[8:])
		if size > 1<<20 {
			return nil, fmt.Errorf("a message of %d bytes", size)
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(z, payload); err != nil {
			return nil, err
		}
		messages = append(messages, loadedMessage{int64(binary.BigEndian.Uint64(head[:])), string(payload)})
	}
}

// differences compares what was loaded with what was produced, message by message: of
// each partition the same payloads in the same order, each once, at offsets that grow.
// There is at most one line for a partition.
func differences(produced map[log][]string, loaded map[log][]loadedMessage) []string {
	var found []string
	for at := range loaded {
		if produced[at] == nil {
			found = append(found, fmt.Sprintf("%v: messages were loaded, none were produced", at))
		}
	}
	for at, want := range produced {
		if d := difference(want, loaded[at]); d != "" {
			found = append(found, fmt.Sprintf("%v: %s", at, d))
		}
	}
	slices.Sort(found)
	return found
}

func difference(want []string, got []loadedMessage) string {
	for i := range min(len(got), len(want)) {
		if i > 0 && got[i].offset <= got[i-1].offset {
			return fmt.Sprintf("offset %d comes behind %d", got[i].offset, got[i-1].offset)
		}
		if got[i].payload != want[i] {
			return fmt.Sprintf("message %d, at offset %d, is %.80q, want %.80q", i, got[i].offset, got[i].payload, want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d messages were loaded, %d were produced", len(got), len(want))
	}
	return ""
}

// TestHadoopDifferences: what compares must see what it is there for.
func TestHadoopDifferences(t *testing.T) {
	a, b := log{0, 1}, log{1, 0}
	produced := map[log][]string{a: {"one", "two"}, b: {"three"}}
	whole := func() map[log][]loadedMessage {
		return map[log][]loadedMessage{a: {{0, "one"}, {12, "two"}}, b: {{0, "three"}}}
	}
	for name, c := range map[string]struct {
		change func(m map[log][]loadedMessage)
		want   string
	}{
		"nothing":      {func(map[log][]loadedMessage) {}, ""},
		"lost":         {func(m map[log][]loadedMessage) { m[a] = m[a][:1] }, "broker 0, partition 1: 1 messages were loaded, 2 were produced"},
		"lost, first":  {func(m map[log][]loadedMessage) { m[a] = m[a][1:] }, `broker 0, partition 1: message 0, at offset 12, is "two", want "one"`},
		"partition":    {func(m map[log][]loadedMessage) { delete(m, b) }, "broker 1, partition 0: 0 messages were loaded, 1 were produced"},
		"doubled":      {func(m map[log][]loadedMessage) { m[a] = append(m[a], m[a][1]) }, "broker 0, partition 1: 3 messages were loaded, 2 were produced"},
		"doubled, mid": {func(m map[log][]loadedMessage) { m[a] = slices.Insert(m[a], 0, m[a][0]) }, "broker 0, partition 1: offset 0 comes behind 0"},
		"elsewhere":    {func(m map[log][]loadedMessage) { m[log{2, 2}] = m[b] }, "broker 2, partition 2: messages were loaded, none were produced"},
		"damaged":      {func(m map[log][]loadedMessage) { m[b][0].payload = "four" }, `broker 1, partition 0: message 0, at offset 0, is "four", want "three"`},
	} {
		loaded := whole()
		c.change(loaded)
		if got := strings.Join(differences(produced, loaded), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
