package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kafkalab/harness/scenario"
	"kafkalab/paper"
	"kafkalab/plots"
	"kafkalab/results/resultfile"
	"kafkalab/scenarios"
)

func reportCommand() command {
	return command{name: "report", summary: "judge the paper's claims by runs, and write the report", run: runReport}
}

func runReport(_ context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("report", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	out := flags.String("out", "", "folder to write to (default: of one run its own folder, of several the one that holds them)")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed report DIR... [--out DIR]

Judges each claim of the paper by the result folders alone, and writes a page
that opens without a network (report.html: figures, tables, settings, hosts) and
the same as Markdown (REPORT.md). The same folders give the same files. A folder
or a file that is damaged is named in the report, and the others count. The names of the
files written go to standard output.

`, flags.FlagUsagesWrapped(helpWidth), `
Example:
  testbed report results/reference/*/ --out results/reference
`)
	}
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	if flags.NArg() == 0 {
		return usagef("name the folder of a run, or of several")
	}
	to, err := reportFolder(*out, flags.Args())
	if err != nil {
		return err
	}
	known, err := knownSystems()
	if err != nil {
		return err
	}
	report, err := paper.New(flags.Args(), to, known)
	if err != nil {
		return err
	}
	for _, b := range report.Broken {
		fmt.Fprintf(std.Err, "testbed report: left out: %s: %s\n", b.Link, b.Why)
	}
	for _, p := range report.Runs {
		for _, fault := range p.Faults {
			fmt.Fprintf(std.Err, "testbed report: damaged, and so left out: %s: %s\n", p.Run.Name, fault)
		}
	}
	written, err := report.Write(to)
	if err := errors.Join(printLines(std, written), err); err != nil {
		return err
	}
	fmt.Fprintf(std.Err, "Of %d claims: %s.\n", len(report.Claims), report.Counts())
	return nil
}

// reportFolder is where a report of these runs goes.
func reportFolder(out string, dirs []string) (string, error) {
	if out != "" {
		return out, nil
	}
	if len(dirs) == 1 {
		return filepath.Clean(dirs[0]), nil
	}
	parent := filepath.Dir(filepath.Clean(dirs[0]))
	for _, dir := range dirs[1:] {
		if filepath.Dir(filepath.Clean(dir)) != parent {
			return "", usagef("%s and %s lie in different folders: say with --out where the report is to go", dirs[0], dir)
		}
	}
	return parent, nil
}

// knownSystems lists the systems of every scenario that the testbed has.
func knownSystems() (map[string][]string, error) {
	entries, err := scenario.NewLibrary(scenarios.Files).List()
	if err != nil {
		return nil, err
	}
	known := make(map[string][]string)
	for _, e := range entries {
		known[e.Name] = []string{}
		for _, y := range e.Systems {
			known[e.Name] = append(known[e.Name], y.ID)
		}
	}
	return known, nil
}

// goalsOf is the table of the goals that a run bears on; none where it bears on
// none.
func goalsOf(r *resultfile.Result) ([]plots.NamedTable, error) {
	known, err := knownSystems()
	if err != nil {
		return nil, err
	}
	goals, err := paper.LoadGoals(known)
	if err != nil {
		return nil, err
	}
	judged := goals.Judge(r)
	if len(judged) == 0 {
		return nil, nil
	}
	return []plots.NamedTable{paper.GoalsTable(judged)}, nil
}

// judgeRun writes the report of one run into its folder, and says which of the
// paper's claims the run decides, and how.
func judgeRun(dir string, std stdio) error {
	known, err := knownSystems()
	if err != nil {
		return err
	}
	report, err := paper.New([]string{dir}, dir, known)
	if err != nil {
		return err
	}
	written, err := report.Write(dir)
	if err != nil {
		return err
	}
	decided := report.Decided()
	if decided == "" {
		decided = "none of the paper's, since " + whyNone(report.Claims)
	}
	_, err = fmt.Fprintf(std.Err, "Claims decided by it: %s. Report: %s\n", decided, written[0])
	return err
}

// whyNone says why a run decides nothing: each reason once, with the claims
// whose numbers it has.
func whyNone(claims []paper.Judged) string {
	var reasons []string
	of := map[string][]string{}
	for _, c := range claims {
		for _, k := range c.Checks {
			why := ""
			switch {
			case k.Verdict != paper.NotMeasured:
				if k.Beside {
					why = "what it measured only stands beside a verdict"
				}
			case len(k.Passed) > 0:
				why = k.Passed[len(k.Passed)-1].Why
			case len(k.Findings) > 0:
				why = k.Why
			}
			if why == "" {
				continue
			}
			if of[why] == nil {
				reasons = append(reasons, why)
			}
			if !slices.Contains(of[why], c.ID) {
				of[why] = append(of[why], c.ID)
			}
		}
	}
	if len(reasons) == 0 {
		return "no claim asks for what it measured, or not enough of it is valid"
	}
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("%s (%s)", why, strings.Join(of[why], ", "))
	}
	return strings.Join(reasons, "; ")
}
