package driver

import (
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

func TestContractClasses(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{FlushClass(0, 0), "os"},
		{FlushClass(time.Second, 0), "interval 1s"},
		{FlushClass(2*time.Minute, 0), "interval 2m"},
		{FlushClass(time.Hour, 0), "interval 1h"},
		{FlushClass(90*time.Second, 0), "interval 1m30s"},
		{FlushClass(10*time.Millisecond, 0), "interval 10ms"},
		{FlushClass(0, 500), "count 500"},
		{FlushClass(0, 1), "each"},
		{FlushClass(time.Second, 1), "each"},
		{FlushClass(time.Second, 10_000), "interval 1s, count 10000"},
		{PrefetchClass(200 << 10), "200000"},
		{PrefetchClass(200_000), "200000"},
		{PrefetchClass(50), "50"},
		{PrefetchClass(1 << 20), "1000000"},
		{PrefetchClass(0), "0"},
	} {
		if c.got != c.want {
			t.Errorf("class %q, want %q", c.got, c.want)
		}
	}
}

func TestSortContract(t *testing.T) {
	rows, err := SortContract([]resultfile.ContractRow{{Row: RowQueue}, {Row: RowFlush, Value: "first"}, {Row: RowFlush}, {Row: RowVersion}})
	if err != nil || len(rows) != 3 || rows[0].Row != RowVersion || rows[1].Value != "first" || rows[2].Row != RowQueue {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := SortContract([]resultfile.ContractRow{{Row: "colour"}}); err == nil {
		t.Error("a row that there is not was taken")
	}
}
