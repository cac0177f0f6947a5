package rawlimit

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/host"
)

// The contract, against the real server. Only path file stores the suite's
// messages as they are; the other paths know the workload's alone, and are
// tested with those.
func TestContract(t *testing.T) {
	binDir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(binDir, "testbed"), "kafkalab/harness/cmd/testbed")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("settings", func(t *testing.T) { settingsContract(t, binDir) })
	drivertest.Run(t, drivertest.Config{Driver: New(), Options: driver.Options{"path": string(PathFile)}, BinDir: binDir})
}

// settingsContract: a server is what its command line says, and nothing that is
// no broker's is compared.
func settingsContract(t *testing.T, binDir string) {
	h, err := host.Open(t.Context(), host.Config{Name: "local", Kind: host.Local, Dir: t.TempDir(), BinDir: binDir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for path, flush := range map[Path]string{PathFile: "interval 250ms", PathTCP: ""} {
		o := driver.Options{"path": string(path)}
		if flush != "" {
			o["flush-interval"] = "250ms"
		}
		s, err := New().Start(t.Context(), h, filepath.Join(h.Dir(), string(path)), o)
		if err != nil {
			t.Fatal(err)
		}
		rows := drivertest.Contract(t, s, driver.Measurement{})
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
