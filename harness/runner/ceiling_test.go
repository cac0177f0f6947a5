package runner

import (
	"os"
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

func TestCeilingsOfTheHarness(t *testing.T) {
	for _, size := range []int{10, 200, 1 << 20} {
		dir := t.TempDir()
		all, err := Ceilings(t.Context(), dir, size, 30*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 || all[0].Work != resultfile.Produce || all[1].Work != resultfile.Consume {
			t.Fatalf("ceilings %+v, want one of each work", all)
		}
		for _, c := range all {
			if c.PayloadBytes != size || c.MessagesPerSecond <= 0 {
				t.Errorf("%+v", c)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in the folder: %v, %v", left, err)
		}
	}
	if _, err := Ceilings(t.Context(), t.TempDir(), 9, time.Second); err == nil || !strings.Contains(err.Error(), "9 bytes") {
		t.Errorf("payloads of 9 bytes: %v", err)
	}
}
