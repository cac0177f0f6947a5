package zkserver_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest/zktest"
)

// With -update the real server's answers become those that are wanted.
var update = flag.Bool("update", false, "write what the real ZooKeeper answers into testdata/conformance")

const scriptFolder = "testdata/conformance"

// What a server answers to each script is what is written in it, which the real
// one has answered.
func TestConformanceScripts(t *testing.T) {
	for _, kind := range []zktest.Kind{zktest.Embedded, zktest.Real} {
		t.Run(kind.String(), func(t *testing.T) {
			// One of its own: no other test may make changes that would be counted.
			c := zktest.Start(t, kind)
			for _, name := range scripts(t) {
				t.Run(name, func(t *testing.T) { checkScript(t, c, filepath.Join(scriptFolder, name+".txt")) })
			}
		})
	}
}

func checkScript(t *testing.T, c *zktest.Cluster, file string) {
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := playScript(t, c, string(want))
	if *update && c.Kind == zktest.Real {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := difference(string(want), got); d != "" {
		t.Errorf("%s:\n%s", file, d)
	}
}

// difference shows the answers that are not the wanted ones, each below its
// command.
func difference(want, got string) string {
	var out strings.Builder
	wanted, given := answers(want), answers(got)
	for i, g := range given {
		if i >= len(wanted) || wanted[i] != g {
			w := "nothing\n"
			if i < len(wanted) {
				w = wanted[i][strings.IndexByte(wanted[i], '\n')+1:]
			}
			command, a, _ := strings.Cut(g, "\n")
			out.WriteString(command + "\n  want\n" + w + "  got\n" + a)
		}
	}
	return out.String()
}

// answers cuts a script into its commands, each with the lines below it.
func answers(script string) []string {
	var list []string
	for line := range strings.Lines(script) {
		switch {
		case line == "\n" || line[0] == '#':
		case strings.HasPrefix(line, "    ") && len(list) > 0:
			list[len(list)-1] += line
		default:
			list = append(list, line)
		}
	}
	return list
}
