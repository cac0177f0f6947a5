package paper

import (
	"fmt"
	"testing"
)

func TestClaimsAreComplete(t *testing.T) {
	next := 1
	for _, c := range Claims() {
		switch c.ID {
		case fmt.Sprintf("C%d", next):
			next++
		case fmt.Sprintf("C%d", next-1): // another number of the same claim
		default:
			t.Errorf("%s stands where C%d should", c.ID, next)
		}
		if c.Section == "" || c.Statement == "" || c.System == "" || c.Judged == "" {
			t.Errorf("%s leaves something out: %+v", c.ID, c)
		}
		if (c.Relation == InWords) != (c.Unit == "") {
			t.Errorf("%s: relation %q with unit %q", c.ID, c.Relation, c.Unit)
		}
	}
	if next != 23 {
		t.Errorf("%d claims", next-1)
	}
}

// The paper's numbers must agree with each other as its text says.
func TestArithmetic(t *testing.T) {
	value := func(id string) float64 {
		for _, c := range Claims() {
			if c.ID == id {
				return c.Value
			}
		}
		t.Fatalf("no claim %s", id)
		return 0
	}
	if got := value("C2") * (PayloadBytes + KafkaOverheadBytes) * 8 / 1e6; int(got+0.5) != int(value("C5")) {
		t.Errorf("batch 50 makes %v Mbit/s", got)
	}
	if got := value("C2") / value("C1"); got != value("C6") {
		t.Errorf("batch 50 over batch 1 is %v", got)
	}
}

func TestMarks(t *testing.T) {
	if m := Marks("4"); len(m) != 2 || m[0].Rate != 50_000 || m[1].Label != "Kafka, batch 50" {
		t.Errorf("Figure 4: %v", m)
	}
	if m := Marks("5"); len(m) != 1 || m[0].Rate != 22_000 {
		t.Errorf("Figure 5: %v", m)
	}
}
