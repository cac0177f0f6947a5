//go:build hadoop

package hadooptest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain runs the tests, unless this program was started as a mapper or as the
// program hdfs.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == hdfsName:
		os.Exit(runHDFS())
	case os.Getenv(planVariable) != "":
		os.Exit(runMapper())
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintf(os.Stderr, "end of the mini cluster: %v\n", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
