package rawlimit

import (
	"path/filepath"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host/hosttest"
)

// The contract, against the real server. Only path file stores the suite's
// messages as they are; the other paths know the workload's alone, and are
// tested with those.
func TestContract(t *testing.T) {
	binDir := hosttest.Programs(t, "testbed")
	t.Run("settings", func(t *testing.T) { settingsContract(t, binDir) })
	drivertest.Run(t, drivertest.Config{Driver: New(), Options: driver.Options{"path": string(PathFile)}, BinDir: binDir})
}

// settingsContract: a server is what its command line says, and nothing that is
// no broker's is compared.
func settingsContract(t *testing.T, binDir string) {
	h := hosttest.Local(t, binDir)
	for flush, o := range map[string]driver.Options{
		"interval 250ms": {"path": "file", "flush-interval": "250ms"},
		"count 500":      {"path": "disk", "flush-interval": "0s", "flush-messages": "500", "fetch-bytes": "204800"},
		"":               {"path": "tcp"},
	} {
		path := o["path"]
		s, err := New().Start(t.Context(), h, filepath.Join(h.Dir(), path), o)
		if err != nil {
			t.Fatal(err)
		}
		rows := drivertest.Contract(t, s, driver.Measurement{Options: o})
		prefetch := "none"
		if o["fetch-bytes"] != "" {
			prefetch = "200000"
		}
		if r := rows[driver.RowPrefetch]; r.Class != prefetch {
			t.Errorf("path %s: prefetch %+v", path, r)
		}
		if r := rows[driver.RowFlush]; r.Class != flush || !r.ReadBack {
			t.Errorf("path %s: flush %+v", path, r)
		}
		if r := rows[driver.RowProducerAck]; r.Class != "" {
			t.Errorf("path %s: %+v", path, r)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
