package drivertest

import (
	"fmt"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// SettingsFollow fails for each two sets of options of which a driver's table
// of settings is the same: it must show what an option changes. Of h the driver
// asks for versions.
func SettingsFollow(t *testing.T, d driver.Driver, h host.Host, changes [][2]driver.Options) {
	t.Helper()
	tables := map[string]string{}
	table := func(o driver.Options) string {
		t.Helper()
		key := fmt.Sprint(o)
		if tables[key] == "" {
			rows, err := d.Settings(timeout(t), h, o)
			if err != nil {
				t.Fatalf("%v: %v", o, err)
			}
			tables[key] = fmt.Sprint(rows)
		}
		return tables[key]
	}
	for _, c := range changes {
		if table(c[0]) == table(c[1]) {
			t.Errorf("the table of %v is that of %v", c[1], c[0])
		}
	}
}
