package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kafkalab/harness/scenario"
	"kafkalab/paper"
	"kafkalab/scenarios"
)

func listCommand() command {
	return command{name: "list", summary: "list the scenarios; with a name, what it is for, its limit, claims and systems", prints: true, run: runList}
}

func runList(_ context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("list", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	asJSON := flags.Bool("json", false, "print all that is known of each as JSON")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed list [NAME...] [--json]

Lists the scenarios that "testbed run --scenario NAME" takes. Of those named, it
prints what they are for, what the hardware allows, which of the paper's claims
they bear on, and the systems that "--system NAME" takes with each; the name of a
driver (kafka, rabbitmq, activemq, nats, rawlimit) stands for all its systems.
The path of a scenario file is taken as a name too.

`, flags.FlagUsagesWrapped(helpWidth), `
Examples:
  testbed list
  testbed list acks
`)
	}
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	library := scenario.NewLibrary(scenarios.Files)
	entries, err := library.List()
	if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		entries = nil
		for _, name := range flags.Args() {
			e, err := library.Describe(name)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
	}
	switch {
	case *asJSON:
		enc := json.NewEncoder(std.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(entries)
	case flags.NArg() == 0:
		return printOverview(std.Out, entries)
	}
	return printScenarios(std.Out, entries)
}

// printOverview prints a line or two for each scenario.
func printOverview(out io.Writer, entries []scenario.Entry) error {
	width := 0
	for _, e := range entries {
		width = max(width, len(e.Name))
	}
	var b strings.Builder
	for _, e := range entries {
		text := e.Title
		if len(e.Include) > 0 {
			text += ": runs " + strings.Join(e.Include, ", ")
		}
		for i, line := range wrap(text, listWidth-width-2) {
			name := e.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%-*s  %s\n", width, name, line)
		}
	}
	fmt.Fprintf(&b, "\nOne of them, with its systems: %s list NAME\n", calledAs())
	_, err := io.WriteString(out, b.String())
	return err
}

// listWidth is how many columns the lists of scenarios take.
const listWidth = 100

// printScenarios prints all of each scenario.
func printScenarios(out io.Writer, entries []scenario.Entry) error {
	claims, err := claimsOf()
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n", e.Name, e.Title)
		for _, part := range []struct{ head, text string }{
			{"", e.Purpose},
			{"limit: ", e.Limit},
			{"the paper's claims: ", strings.Join(claims[e.Name], ", ")},
			{"runs ", strings.Join(e.Include, ", ")},
		} {
			if part.text == "" {
				continue
			}
			for _, line := range wrap(part.head+part.text, listWidth-4) {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
		printSystems(&b, e.Systems)
	}
	_, err = io.WriteString(out, b.String())
	return err
}

func printSystems(b *strings.Builder, systems []scenario.EntrySystem) {
	width := 0
	for _, s := range systems {
		width = max(width, len(s.ID))
	}
	for _, s := range systems {
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
		fmt.Fprintf(b, "      %-*s  %s%s\n", width, s.ID, s.Label, mark)
	}
}

// claimsOf lists the paper's claims that each scenario bears on.
func claimsOf() (map[string][]string, error) {
	known, err := knownSystems()
	if err != nil {
		return nil, err
	}
	claims, err := paper.LoadClaims(known)
	if err != nil {
		return nil, err
	}
	of := map[string][]string{}
	for _, c := range claims.Claims {
		for _, k := range c.Checks {
			if k.Scenario != "" && !slices.Contains(of[k.Scenario], c.ID) {
				of[k.Scenario] = append(of[k.Scenario], c.ID)
			}
		}
	}
	return of, nil
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
