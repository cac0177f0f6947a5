package env

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
)

// The rates are measured within the bounds, and nothing is left.
func TestMeasureDisk(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		before, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := MeasureDisk(t.Context(), dir, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if r.WriteBytes <= 0 || r.WriteBytes > diskRateBytes || r.ReadBytes <= 0 || r.ReadBytes > r.WriteBytes || r.WriteSeconds <= 0 || r.ReadSeconds <= 0 {
			t.Errorf("%s: %+v", dir, r)
		}
		if after, err := os.ReadDir(dir); err != nil || len(after) > len(before) {
			t.Errorf("%s: left %v, %v", dir, after, err)
		}
		for _, f := range r.Facts() {
			if !strings.Contains(f.Value, " MB/s (") {
				t.Errorf("%s: %+v", dir, f)
			}
		}
	}
	if _, err := MeasureDisk(t.Context(), "/no/such", DiskRateTime); err == nil {
		t.Error("a folder that is not there is measured")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := MeasureDisk(ctx, t.TempDir(), DiskRateTime); err != nil || r.WriteBytes != 0 {
		t.Errorf("after the end: %+v, %v", r, err)
	}
}

// Every line of the comparison is there for every kind of testbed, and what is
// alike is told from what is not.
func TestLinesBesideThePaper(t *testing.T) {
	machine := func(cores int, mhz string, kib, raid, speed string) sections {
		return sections{"cpuinfo": strings.Repeat("processor\t: 0\ncpu MHz\t\t: "+mhz+"\n\n", cores), "meminfo": "MemTotal: " + kib + " kB",
			"realdir": "/d", "mounts": "22 1 9:0 / / rw - ext4 /dev/md0 rw\n", "device": "eth0", "speed": speed,
			"blocks": "md0|9:0|1|8||raid10|" + raid + "|sda||0|||\nsda|8:0|1|8|||||||||\n"}
	}
	paper := machine(8, "2000.1", "16300000", "6", "1000")
	for _, c := range []struct {
		name  string
		kind  host.Kind
		rate  int
		s     sections
		alike string // of cores, clock, memory, disks, link
	}{
		{"the paper's", host.SSH, 1000, paper, "yyyyy"},
		{"another one", host.SSH, 1000, machine(64, "3500", "528000000", "4", "10000"), "nnnnn"},
		{"shared", host.Namespace, 1000, paper, "nynyy"},
		{"without a rate", host.Namespace, 0, paper, "nynyn"},
		{"without a link", host.Local, 0, paper, "nynyn"},
		{"an address that is not there", host.SSH, 1000, sections{"speed": "1000"}, "nnnnn"},
		{"nothing known", host.SSH, 0, sections{}, "nnnnn"},
		{"declared", host.SSH, 1000, machine(8, "2000", "16300000", "6", "-1"), "yyyyy"},
	} {
		l := link.Default()
		l.RateMbps = c.rate
		got, said := "", []Finding{}
		checker{site: Site{Kind: c.kind, Link: l}, each: func(f Finding) { said = append(said, f) }}.paper("broker", c.s)
		for _, f := range said {
			if f.Paper == "" || f.Detail == "" || f.Host != "broker" {
				t.Errorf("%s: %+v", c.name, f)
			}
			got += map[Status]string{OK: "y", Note: "n"}[f.Status]
		}
		if got != c.alike {
			text, _ := json.MarshalIndent(said, "", " ") // for the message only
			t.Errorf("%s: %s, want %s: %s", c.name, got, c.alike, text)
		}
	}
}
