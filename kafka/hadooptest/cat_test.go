//go:build hadoop

package hadooptest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHadoopLocalJobOfCat and TestHadoopYarnJobOfCat: what these tests stand on. A
// streaming job without anything of ours gives back the lines of its input, each by a
// map task of its own.
func TestHadoopLocalJobOfCat(t *testing.T) { testCat(t, localPlace(t)) }

func TestHadoopYarnJobOfCat(t *testing.T) { testCat(t, yarnPlace(t)) }

func testCat(t *testing.T, p place) {
	lines := []string{"one", "two", "three"}
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.dfs(t, "-mkdir", "-p", p.root)
	p.dfs(t, "-put", file, p.root+"/lines")
	_, err := p.submit(t, job{input: p.root + "/lines", output: p.root + "/out", mapper: "/bin/cat",
		settings: settings{"stream.map.input.ignoreKey": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for part := range strings.Lines(p.dfs(t, "-cat", p.root+"/out/part-*")) {
		got = append(got, strings.TrimSpace(part))
	}
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("the output is %q, want %q", got, lines)
	}
	if parts := strings.Count(p.dfs(t, "-ls", p.root+"/out"), "/part-"); parts != len(lines) {
		t.Errorf("%d map tasks, want %d", parts, len(lines))
	}
}
