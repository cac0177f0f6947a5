package disktest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/wire"
)

// TestB05MorePartitionsThanFiles (fault B05): a broker that may open 128 files is
// asked for more partitions than that. It refuses in time, so that after a kill
// it can recover those that it has, and serve them.
func TestB05MorePartitionsThanFiles(t *testing.T) {
	l := &limited{t: t, bin: torture.Build(t), dir: filepath.Join(t.TempDir(), "log"), logs: map[torture.TopicPartition][]byte{}}
	l.start()
	const asked = fewFiles + 20
	made := func(n int) error {
		p := torture.TopicPartition{Topic: fmt.Sprintf("topic%d", n)}
		return l.write(p, fmt.Appendf(nil, "message %d", n))
	}
	refused := 0
	for n := range asked {
		var code wire.Code
		if err := made(n); errors.As(err, &code) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if len(l.logs) < fewFiles/2 || refused < asked-fewFiles {
		t.Errorf("%d partitions were made, %d refused", len(l.logs), refused)
	}
	if want := fmt.Sprintf("limit of open files: %d partitions are there", len(l.logs)); !strings.Contains(l.broker.Log(), want) {
		t.Errorf("the log does not say %q:\n%s", want, l.broker.Log())
	}
	read := func() {
		t.Helper()
		for p, want := range l.logs {
			set, err := l.conn.Fetch(t.Context(), wire.FetchEntry{Topic: p.Topic, MaxBytes: 1 << 20})
			if err != nil || string(set) != string(want) {
				t.Fatalf("%v: %q, %v", p, set, err)
			}
		}
	}
	read()
	l.broker.Kill()
	l.conn.Close()
	l.start()
	read()
	if err := made(0); err != nil {
		t.Errorf("an append after the start: %v", err)
	}
	// A deletion makes room.
	if err := l.conn.DeleteTopic(t.Context(), "topic0"); err != nil {
		t.Fatal(err)
	}
	if err := made(asked); err != nil {
		t.Errorf("a partition in the place of another: %v", err)
	}
	l.stop()
}
