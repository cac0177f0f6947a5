package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"kafkalab/harness/env"
	"kafkalab/harness/scenario"
)

func doctorCommand() command {
	return command{name: "doctor", summary: "say what is missing or off on both hosts, and the command that mends it", run: runDoctor}
}

func runDoctor(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("doctor", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	file := testbedFlag(flags)
	messages := flags.Int64("messages", scenario.DefaultMessages, "messages of the run that disk space is wanted for")
	raid10 := raidFlag(flags, "look at the RAID 10 that \"testbed up --raid10\" made in the place of the broker's plain disk")
	asJSON := flags.Bool("json", false, "print the findings as JSON")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed doctor [--testbed FILE] [--raid10] [--messages N] [--json]

Looks at everything that a run needs and changes nothing; to see how fast the
broker's disk is it writes a file of 1 GB at most there for 1.5 seconds, reads it
back and removes it. Then it sets both hosts beside the paper's machines. Exit
status 1 if something is missing without which a run cannot be complete.

`, flags.FlagUsagesWrapped(helpWidth), `
Example:
  testbed doctor --testbed my-testbed.toml
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *messages <= 0 {
		return usagef("--messages %d: more than 0 is wanted", *messages)
	}
	tb, err := scenario.LoadTestbed(*file)
	if err != nil {
		return err
	}
	array := raidOf(tb)
	if *raid10 {
		if err := onRAID(&tb, upWith(*file, true)); err != nil {
			return err
		}
	}
	site := env.Site{Array: array, Kind: tb.Kind, Client: tb.ClientHost, Broker: tb.BrokerHost, Link: tb.Link, Limits: tb.BrokerLimits, NeedBytes: env.NeedBytes(*messages), Program: calledAs()}
	if *file != "" {
		site.TestbedFlag = "--testbed " + *file
	}
	findings := []env.Finding{}
	if err := env.Check(ctx, site, func(f env.Finding) { findings = append(findings, f) }); err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(std.Out)
		enc.SetIndent("", "  ")
		err = enc.Encode(findings)
	} else {
		err = printFindings(std.Out, findings)
	}
	return errors.Join(err, verdict(findings))
}

// printFindings prints the table, and below it what is to be done.
func printFindings(out io.Writer, findings []env.Finding) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tCHECK\tSTATUS\tWHAT THERE IS")
	fixes := 0
	for _, f := range findings {
		if f.Paper != "" {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Host, f.Check, f.Status, oneLine(f.Detail))
		if f.Fix != "" {
			fixes++
		}
	}
	printComparison(w, findings)
	if err := w.Flush(); err != nil || fixes == 0 {
		return err
	}
	fmt.Fprintln(w, "\nWHAT MENDS IT")
	for _, f := range findings {
		if f.Fix != "" {
			fmt.Fprintf(w, "%s: %s\t%s\n", f.Host, f.Check, f.Fix)
		}
	}
	return w.Flush()
}

// printComparison prints the lines that set a host beside the paper's.
func printComparison(w *tabwriter.Writer, findings []env.Finding) {
	head := "\nTHE PAPER'S MACHINES\t\t\t\nHOST\tWHAT\tTHE PAPER\tHERE\n"
	for _, f := range findings {
		if f.Paper == "" {
			continue
		}
		same := ""
		if f.Status == env.OK {
			same = " (alike)"
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s%s\n", head, f.Host, f.Check, f.Paper, oneLine(f.Detail), same)
		head = ""
	}
}

// oneLine puts what another program said in several lines into one, as a row
// of a table has it.
func oneLine(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), "\t", " ")
}

func verdict(findings []env.Finding) error {
	missing := 0
	for _, f := range findings {
		if f.Status == env.Missing {
			missing++
		}
	}
	switch missing {
	case 0:
		return nil
	case 1:
		return errors.New("one thing is missing")
	}
	return fmt.Errorf("%d things are missing", missing)
}

// testbedFlag defines the flag that names the testbed file.
func testbedFlag(flags *pflag.FlagSet) *string {
	return flags.String("testbed", "", "testbed `file` that names two hosts; none: two emulated hosts on this machine")
}
