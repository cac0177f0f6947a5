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
	files, err := parseFiles("8 topic-0/1.kafka\x0016 topic-0/1.index\x002 x/2.kafka\x004 a file\nof no part\x001 deep/er/1.index\x000 other/empty\x00")
	if err != nil {
		t.Fatal(err)
	}
	got, err := splitStore(files, parts)
	if want := (map[string]int64{"log": 8 * 512, "index": 18 * 512, "journal": 0}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := parseFiles("many x\x00"); err == nil || !strings.Contains(err.Error(), "a number of blocks") {
		t.Errorf("error %v", err)
	}
	parts[0].Globs = []string{"[a"}
	if _, err := splitStore(map[string]int64{"a": 512}, parts); err == nil || !strings.Contains(err.Error(), `part "log" of the store: pattern "[a"`) {
		t.Errorf("error %v", err)
	}
}

// What a broker removes of what was there before is not taken from what it needs for
// what is measured.
func TestGrowthOfTheStore(t *testing.T) {
	before := map[string]int64{"db-1.log": 300, "db-2.log": 200, "db.data": 50, "gone": 0}
	after := map[string]int64{"db-2.log": 300, "db-3.log": 80, "db.data": 40}
	for _, c := range []struct {
		apart   bool
		grown   map[string]int64
		removed int64
	}{
		{true, map[string]int64{"db-2.log": 100, "db-3.log": 80, "gone": 0}, 310},
		{false, map[string]int64{"db-1.log": -300, "db-2.log": 100, "db-3.log": 80, "db.data": -10, "gone": 0}, 0},
	} {
		if grown, removed := growth(before, after, c.apart); !maps.Equal(grown, c.grown) || removed != c.removed {
			t.Errorf("apart %v: %v and %d removed, want %v and %d", c.apart, grown, removed, c.grown, c.removed)
		}
	}
}
