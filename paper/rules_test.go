// Package paper_test keeps the list of rules and faults true to the tests.
package paper_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promised are the rules and faults that a test must be named after by now.
var promised = strings.Fields(`
	R01 R02 R03 R04 R05 R06 R07 R08 R09 R10 R11 R12 R13 R14 R15
	R16 R17 R18 R19 R20 R21 R22 R23 R24 R25 R26 R27 R28 R29 R30 R31
	B01 B02 B03 B04 B05 B06 B07 B08 B09 B10 B11 B12 B13 B14 B15 B16 B17 B18 B20 B21 B22 B23 B24 B25`)

var (
	rowID    = regexp.MustCompile(`^\| ([RBC]\d\d) \|`)
	testName = regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`")
	// What a test is named after. Every TestPaper has a number.
	numbered = regexp.MustCompile(`^Test(?:Paper([RC]\d\d)|(B\d\d))[A-Z]`)
)

// TestRulesAndTests: every test that rules.md names is there, every test that is
// named after a rule or a fault stands in its row, and those of rules are in a
// paper_test.go, or a part of it such as group_paper_test.go.
func TestRulesAndTests(t *testing.T) {
	files := testsOf(t)
	rows := readRows(t)
	for id, tests := range rows {
		for _, name := range tests {
			if files[name] == "" {
				t.Errorf("%s: there is no test %s", id, name)
			}
		}
	}
	own := map[string]int{} // tests named after each rule and fault
	for name, file := range files {
		function := name[strings.LastIndex(name, ".")+1:]
		m := numbered.FindStringSubmatch(function)
		if m == nil {
			if strings.HasPrefix(function, "TestPaper") {
				t.Errorf("%s: say which rule it is about, as in TestPaperR07VisibleAfterFlush", name)
			}
			continue
		}
		id := m[1] + m[2]
		own[id]++
		if !slices.Contains(rows[id], name) {
			t.Errorf("rules.md: %s does not stand in the row of %s", name, id)
		}
		if m[1] != "" && !strings.HasSuffix(file, "paper_test.go") {
			t.Errorf("%s is in %s: rules are tested in a paper_test.go", name, file)
		}
	}
	for _, id := range promised {
		if own[id] == 0 {
			t.Errorf("no test is named after %s", id)
		}
	}
}

// readRows returns the tests of each row of rules.md.
func readRows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("rules.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		m := rowID.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id := m[1]
		if rows[id] != nil {
			t.Errorf("rules.md has two rows for %s", id)
		}
		for _, name := range testName.FindAllStringSubmatch(line, -1) {
			rows[id] = append(rows[id], name[1]+"."+name[2])
		}
		if rows[id] == nil {
			t.Errorf("rules.md: %s has no tests", id)
		}
	}
	if len(rows) < len(promised) {
		t.Fatalf("rules.md has %d rows", len(rows))
	}
	return rows
}

// testsOf returns the file of every test of this repository, by the folder of its
// package and its name.
func testsOf(t *testing.T) map[string]string {
	t.Helper()
	root, files := os.DirFS(".."), map[string]string{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				files[filepath.ToSlash(filepath.Dir(path))+"."+fn.Name.Name] = path
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("%d tests were found in this repository", len(files))
	}
	return files
}
