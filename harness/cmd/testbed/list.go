package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"kafkalab/harness/scenario"
	"kafkalab/scenarios"
)

func listCommand() command {
	return command{name: "list", summary: "list the scenarios, what they are for, and their systems", run: runList}
}

func runList(_ context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("list", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	asJSON := flags.Bool("json", false, "print the list as JSON")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed list [--json]

Lists the scenarios that "testbed run --scenario NAME" takes, and the systems
that "--system NAME" takes with each.

`, flags.FlagUsages(), `
Example:
  testbed list --json
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	entries, err := scenario.NewLibrary(scenarios.Files).List()
	if err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(std.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(entries)
	}
	return printScenarios(std.Out, entries)
}

func printScenarios(out io.Writer, entries []scenario.Entry) error {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n", e.Name, e.Title)
		for _, line := range wrap(e.Purpose, 76) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		if len(e.Include) > 0 {
			fmt.Fprintf(&b, "    runs %s\n", strings.Join(e.Include, ", "))
		}
		for _, s := range e.Systems {
			var marks []string
			if s.Role != scenario.RoleSystem {
				marks = append(marks, s.Role)
			}
			if s.OnRequest {
				marks = append(marks, "on request: --system "+s.ID)
			}
			mark := ""
			if len(marks) > 0 {
				mark = " (" + strings.Join(marks, ", ") + ")"
			}
			fmt.Fprintf(&b, "      %-18s %s%s\n", s.ID, s.Label, mark)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// wrap breaks a text into lines of at most so many characters, at blanks.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
