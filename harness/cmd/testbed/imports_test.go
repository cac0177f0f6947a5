package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "kafkalab"

// allowed says which packages of this module each package may import. It is
// the architecture: kafka is a product that knows nothing of the testbed; the
// harness knows systems only as drivers; plots and paper know results alone;
// and cmd/testbed is the only place that joins them. A new arrow is a decision
// to be made here.
//
// A pattern ending in /... stands for a folder with everything below it. The
// first line that matches a package counts. Packages of one folder below an
// internal one may be used by that folder, as Go itself has it.
var allowed = []struct {
	from string
	to   []string
}{
	// The system of the paper.
	{"kafka/cmd/...", []string{"kafka/..."}},
	{"kafka/internal/...", nil},
	{"kafka/message", nil},
	{"kafka/envelope", nil},
	{"kafka/wire", []string{"kafka/message"}},
	{"kafka/storage", []string{"kafka/message"}},
	{"kafka/client", []string{"kafka/wire", "kafka/message"}},
	{"kafka/coord", nil},
	{"kafka/registry", []string{"kafka/coord"}},
	{"kafka/zkserver", nil},
	{"kafka/broker", []string{"kafka/storage", "kafka/wire", "kafka/message", "kafka/registry", "kafka/coord"}},
	// The producer lays a batch out as the request that carries it, so that it
	// is copied once.
	{"kafka/producer", []string{"kafka/client", "kafka/wire", "kafka/message", "kafka/registry", "kafka/coord"}},
	{"kafka/consumer", []string{"kafka/client", "kafka/wire", "kafka/message", "kafka/registry", "kafka/coord"}},
	// Its store is a topic: it appends records acknowledged as flushed, and asks what a
	// refusal means.
	{"kafka/schema", []string{"kafka/client", "kafka/wire", "kafka/producer", "kafka/consumer", "kafka/envelope", "kafka/message"}},
	// A mirror lays what it has read out as the requests that carry it on.
	{"kafka/mirror", append([]string{"kafka/wire", "kafka/coord"}, section4...)},
	{"kafka/audit", section4},
	{"kafka/etl", section4},
	{"kafka/stream", section4},
	{"kafka/replica", []string{"kafka/storage", "kafka/client", "kafka/registry", "kafka/coord"}},
	{"kafka/kafkatest", []string{"kafka/..."}},
	// What a real broker is tortured with knows it from outside alone.
	{"kafka/kafkatest/torture", []string{"kafka/client", "kafka/wire", "kafka/message"}},
	{"kafka/kafkatest/zktest", []string{"kafka/zkserver"}},
	// A consumer and a producer as an application has them.
	{"kafka/kafkatest/chaos", []string{"kafka/consumer", "kafka/producer", "kafka/client", "kafka/registry", "kafka/coord", "kafka/kafkatest", "kafka/kafkatest/torture", "kafka/kafkatest/zktest"}},
	// Tests alone.
	{"kafka/kafkatest/disktest", nil},
	{"kafka/hadooptest", nil},

	// The testbed.
	{"harness/cmd/testbed", []string{"harness/...", "scenarios", "compare/...", "plots", "paper", "results/..."}},
	{"scenarios", nil},
	{"harness/internal/...", nil},
	{"harness/raid", nil},
	{"harness/host", []string{"results/resultfile"}},
	{"harness/link", []string{"harness/host", "results/resultfile"}},
	{"harness/env", []string{"harness/host", "harness/link", "harness/raid", "results/resultfile"}},
	{"harness/workload", []string{"results/resultfile"}},
	{"harness/measure", []string{"harness/host", "results/resultfile"}},
	// The null driver makes its own payloads.
	{"harness/driver", []string{"harness/host", "harness/workload", "results/resultfile"}},
	{"harness/driver/drivertest", []string{"harness/driver", "harness/host", "harness/workload", "results/resultfile"}},
	{"harness/host/hosttest", []string{"harness/host", "harness/link", "harness/raid"}},
	{"harness/scenario", []string{"scenarios", "harness/driver", "harness/host", "harness/link", "results/resultfile"}},
	{"harness/runner", []string{"harness/scenario", "harness/driver", "harness/workload", "harness/measure", "harness/host", "results/resultfile"}},

	// The systems compared. None knows another one. What each tells of its settings
	// is kept as it is in the result.
	{"compare/internal/...", []string{"harness/driver", "harness/host", "results/resultfile"}},
	// Its consumers of a group check what they are handed, each in a process of its
	// own, and count what they ask of ZooKeeper.
	{"compare/kafka", []string{"harness/driver", "harness/host", "harness/workload", "results/resultfile", "kafka/coord", "kafka/producer", "kafka/consumer", "kafka/client", "kafka/registry", "kafka/message"}},
	// The pipeline's clusters and all around them are processes. It reads each tier
	// itself, for a truth beside the audit's, and knows a request well enough to leave
	// one out.
	{"compare/pipeline", []string{"harness/driver", "harness/host", "results/resultfile", "kafka/coord", "kafka/consumer", "kafka/registry", "kafka/envelope", "kafka/message", "kafka/wire"}},
	// The raw limit stores no messages and makes those that it sends.
	{"compare/rawlimit", []string{"harness/driver", "harness/host", "harness/workload", "results/resultfile"}},
	{"compare/rabbitmq", []string{"harness/driver", "harness/host", "results/resultfile"}},
	{"compare/activemq", []string{"harness/driver", "harness/host", "results/resultfile"}},
	{"compare/nats", []string{"harness/driver", "harness/host", "results/resultfile"}},

	// What becomes of the results.
	{"results/resultfile", nil},
	{"results/paper", nil},
	{"plots", []string{"results/resultfile", "results/paper"}},
	{"paper", []string{"results/resultfile", "results/paper", "plots"}},
}

// section4 is what the packages of the paper's section 4 may import.
var section4 = []string{"kafka/producer", "kafka/consumer", "kafka/client", "kafka/registry", "kafka/schema", "kafka/envelope", "kafka/message"}

// testKits are packages for tests. Nothing but tests, and kits, may import one.
var testKits = []string{"kafka/kafkatest", "kafka/kafkatest/chaos", "kafka/kafkatest/torture", "kafka/kafkatest/zktest", "harness/driver/drivertest", "harness/host/hosttest"}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImportGraph(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 10 {
		t.Fatalf("go list named %d packages only", len(packages))
	}
	for _, p := range packages {
		from := own(p.ImportPath)
		to, known := arrowsOf(from)
		if !known {
			t.Errorf("%s stands in no line of the table in imports_test.go: decide what it may import", from)
			continue
		}
		for _, i := range ours(p.Imports) {
			switch {
			case slices.Contains(testKits, i) && !slices.Contains(testKits, from):
				t.Errorf("%s imports %s, which is for tests", from, i)
			case !matchesAny(i, to) && !internalTo(from, i):
				t.Errorf("%s imports %s: design and table allow it %v", from, i, to)
			}
		}
		// Tests may use more, but the product must stand without the testbed.
		if strings.HasPrefix(from, "kafka/") {
			for _, i := range ours(append(p.TestImports, p.XTestImports...)) {
				if !strings.HasPrefix(i, "kafka/") {
					t.Errorf("a test of %s imports %s: nothing in kafka may know the testbed", from, i)
				}
			}
		}
	}
}

// The table itself must hold what it is there for.
func TestImportTable(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"kafka/broker", "kafka/storage", true},
		{"kafka/broker", "kafka/client", false},
		{"kafka/producer", "kafka/storage", false},
		{"kafka/storage", "kafka/internal/vfs", true},
		{"kafka/storage", "harness/host", false},
		{"kafka/mirror", "kafka/audit", false},
		{"kafka/cmd/kafka", "kafka/broker", true},
		{"kafka/cmd/kafka", "results/resultfile", false},
		{"harness/runner", "compare/kafka", false},
		{"harness/runner", "plots", false},
		{"harness/cmd/testbed", "compare/kafka", true},
		{"harness/cmd/testbed", "kafka/broker", false},
		{"compare/kafka", "kafka/producer", true},
		{"compare/kafka", "compare/rabbitmq", false},
		{"compare/pipeline", "kafka/envelope", true},
		{"compare/pipeline", "kafka/audit", false},
		{"compare/rabbitmq", "compare/internal/launch", true},
		{"plots", "results/resultfile", true},
		{"plots", "harness/driver", false},
	} {
		to, known := arrowsOf(c.from)
		if got := known && (matchesAny(c.to, to) || internalTo(c.from, c.to)); got != c.want {
			t.Errorf("%s → %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	// -e: the arrows of a package count also while another one does not build.
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func own(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

func ours(imports []string) []string {
	var out []string
	for _, i := range imports {
		if strings.HasPrefix(i, module+"/") {
			out = append(out, own(i))
		}
	}
	return out
}

func arrowsOf(from string) (to []string, known bool) {
	for _, line := range allowed {
		if matches(from, line.from) {
			return line.to, true
		}
	}
	return nil, false
}

func matches(p, pattern string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == folder || strings.HasPrefix(p, folder+"/")
	}
	return p == pattern
}

func matchesAny(p string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(p, pattern) })
}

// internalTo says whether to lies in an internal folder of a folder that from
// is in.
func internalTo(from, to string) bool {
	i := strings.Index(to, "/internal/")
	return i >= 0 && matches(path.Clean(from), to[:i]+"/...")
}
