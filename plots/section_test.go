package plots

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

// A section says what tables.md says, and holds the figures that Draw writes.
func TestSectionsAreWhatDrawWrites(t *testing.T) {
	dir, out := newMaker().make(t), t.TempDir()
	r := read(t, dir)
	if _, err := Draw(r, out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "tables.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := Sections(r)
	if err != nil || len(sections) != 2 {
		t.Fatalf("%d sections, %v", len(sections), err)
	}
	for _, s := range sections {
		for i, table := range []*Table{s.Rates, s.Ratios, s.Costs, s.Settings, s.Attempts} {
			var b bytes.Buffer
			if err := table.Markdown(&b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(page, b.Bytes()) {
				t.Errorf("%s: table %d is not in tables.md:\n%s", s.Title, i, &b)
			}
		}
		for _, f := range s.Figures {
			file, err := os.ReadFile(filepath.Join(out, f.Name+".svg"))
			if err != nil {
				t.Fatal(err)
			}
			for _, element := range []string{"<path", "<text"} {
				drawn, written := bytes.Count(f.SVG, []byte(element)), bytes.Count(file, []byte(element))
				if element == "<text" { // the lines of the caption
					written -= strings.Count(string(file), "font-size:7.6px")
				}
				if drawn != written || drawn == 0 {
					t.Errorf("%s has %d times %s, its file %d", f.Name, drawn, element, written)
				}
			}
			if len(f.Caption) < 3 {
				t.Errorf("%s: caption %q", f.Name, f.Caption)
			}
		}
	}
	if n := len(sections[0].Figures); n != 3 {
		t.Errorf("%d figures of fig4-producer", n)
	}
}

func TestQuantities(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Work: resultfile.Consume, PayloadBytes: 200, Systems: []resultfile.System{{ID: "x", Label: "x", Driver: "x", Role: resultfile.RoleSystem}}}
	a := resultfile.Attempt{
		Scenario: "s", System: "x", Repetition: 1, Outcome: resultfile.Valid, Messages: 1000, PayloadBytes: 200_000, StoredBytes: 209_000, Seconds: 0.5,
		BrokerCPUSeconds: 0.002, StoreBytesBefore: 4096, StoreBytesAfter: 304_096, BrokerDiskWriteBytes: 500, BrokerResidentBytes: 20_000,
	}
	w, err := resultfile.Create(filepath.Join(t.TempDir(), "run"), resultfile.Run{
		Testbed:   resultfile.Testbed{ClientHost: resultfile.Host{Name: "client"}, BrokerHost: resultfile.Host{Name: "broker", Facts: []resultfile.Fact{{Name: "sequential read", Value: "200 MB/s (direct I/O, 300 MB)"}}}, LinkGoodputMbps: 1, LinkReverseGoodputMbps: 8},
		Scenarios: []resultfile.Scenario{s},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if a, err = w.Begin(a); err != nil {
		t.Fatal(err)
	}
	sample := func(seconds float64, host string, tx int64) resultfile.Sample {
		return resultfile.Sample{Seconds: seconds, Host: host, NetTxBytes: tx}
	}
	samples := []resultfile.Sample{sample(0, "client", 0), sample(0, "broker", 1000), sample(0.5, "broker", 231_000), sample(0.5, "client", 9999)}
	if err := w.PutAttempt(a, []resultfile.Point{{}, {Seconds: 0.5, Messages: 1000, Bytes: 200_000, Arrived: 1000}}, samples); err != nil {
		t.Fatal(err)
	}
	r := read(t, w.Dir())
	for q, want := range map[Quantity]float64{
		MessageRate: 2000, DataRate: 400_000, LogRate: 418_000, LinkShare: 0.418, StoreOverhead: 100, StoreBytes: 300, WireBytes: 230, DiskWrites: 0.5,
		ResidentShare: 0.1, BrokerCPU: 2, DailyMessages: 172_800_000,
	} {
		if got := Values(r, "s", "x", q); len(got) != 1 || math.Abs(got[0]-want) > 1e-9*want {
			t.Errorf("%s: %v, want %v", q, got, want)
		}
	}
	for q, want := range map[Quantity]float64{WireRate: 460_000, OfDiskReads: 0.00209} {
		if got := Values(r, "s", "x", q); len(got) != 1 || math.Abs(got[0]-want) > 1e-9*want {
			t.Errorf("%s: %v, want %v", q, got, want)
		}
	}
	// TestOfFirst has the last one.
	if want := 14 + len(measured); len(quantities) != want { // DataRate is the eleventh
		t.Errorf("%d quantities, %d tested: one is without a test", len(quantities), want)
	}
	if Values(r, "s", "y", MessageRate) != nil || Values(r, "t", "x", MessageRate) != nil || Quantity("x").Known() {
		t.Error("values of what is not there")
	}
}
