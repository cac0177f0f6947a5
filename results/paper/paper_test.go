package paper

import "testing"

func TestMarks(t *testing.T) {
	if m := Marks("4"); len(m) != 2 || m[0].Rate != 50_000 || m[1].Label != "Kafka, batch 50" {
		t.Errorf("Figure 4: %v", m)
	}
	if m := Marks("5"); len(m) != 1 || m[0].Rate != 22_000 {
		t.Errorf("Figure 5: %v", m)
	}
	if m := Marks("6"); m != nil {
		t.Errorf("Figure 6: %v", m)
	}
}
