package paper

import (
	"fmt"
	"reflect"
	"testing"

	"kafkalab/plots"
)

// Few systems stand side by side; of many, a row has each value once, with
// those that have it.
func TestFolded(t *testing.T) {
	few := plots.NewWordsTable("setting", "a", "b")
	if folded(few) != few || folded(nil) != nil {
		t.Error("a table of two systems was folded")
	}
	head := []string{"setting"}
	same, batch, driver := []string{"disk"}, []string{"batch"}, []string{"version"}
	for i := range 9 {
		head = append(head, fmt.Sprintf("s%d", i))
		same, batch = append(same, "plain"), append(batch, fmt.Sprint(i/5))
		if i == 8 {
			driver = append(driver, "2")
		} else {
			driver = append(driver, "1")
		}
	}
	many := plots.NewWordsTable(head...)
	many.Rows = [][]string{same, batch, driver}
	want := [][]string{
		{"disk", "plain", "all"},
		{"batch", "0", "all but s5; s6; s7; s8"}, {"", "1", "s5; s6; s7; s8"},
		{"version", "1", "all but s8"}, {"", "2", "s8"},
	}
	if got := folded(many); !reflect.DeepEqual(got.Rows, want) || !got.IsLeft(2) {
		t.Errorf("%q", got.Rows)
	}
}
