package runner

import (
	"maps"
	"strings"
	"testing"

	"kafkalab/harness/driver"
)

func TestSplitStore(t *testing.T) {
	parts := []driver.StorePart{
		{Name: "log", Globs: []string{"topic-*/*.kafka", "other/*"}},
		{Name: "index", Globs: []string{"*/*.index", "*/*.kafka"}},
		{Name: "journal", Globs: []string{"journal"}},
	}
	listed := "8 topic-0/1.kafka\x0016 topic-0/1.index\x002 x/2.kafka\x004 a file\nof no part\x001 deep/er/1.index\x000 other/empty\x00"
	got, err := splitStore(listed, parts)
	if want := (map[string]int64{"log": 8 * 512, "index": 18 * 512, "journal": 0}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := splitStore("many x\x00", parts); err == nil || !strings.Contains(err.Error(), "a number of blocks") {
		t.Errorf("error %v", err)
	}
	parts[0].Globs = []string{"[a"}
	if _, err := splitStore("1 a\x00", parts); err == nil || !strings.Contains(err.Error(), `part "log" of the store: pattern "[a"`) {
		t.Errorf("error %v", err)
	}
}
