package rawlimit

import (
	"os/exec"
	"path/filepath"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
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
	drivertest.Run(t, drivertest.Config{Driver: New(), Options: driver.Options{"path": string(PathFile)}, BinDir: binDir})
}
