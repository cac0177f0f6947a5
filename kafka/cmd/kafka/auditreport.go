package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"kafkalab/kafka/audit"
)

const auditReportAbout = `Compares what the states of one or several tiers have counted with the monitoring
events of all of them, by topic, window, server and tier. The states may be in use.
See "kafka audit --help" for the verdicts.

With --json it prints one document: "clean", "rows", "older" (sums over what is
no longer kept by windows) and "tiers" with the sums and notes of each.`

const auditReportExamples = `  kafka audit report --state live.state --state mirror.state --state load.state
  kafka audit report --state live.state --since 2026-01-31T12:00:00Z --problems
  kafka audit report --state live.state --state load.state --json --figure completeness.svg
`

// auditReportOptions are the flags of audit report.
type auditReportOptions struct {
	states   []string
	grace    time.Duration
	since    string
	problems bool
	json     bool
	figure   string
}

// errNotClean is how a report fails.
var errNotClean = errors.New("not all messages are known to have arrived")

func runAuditReport(_ context.Context, args []string, std stdio) error {
	f := newFlags(std, "kafka audit report --state FILE… [--grace D] [--since TIME] [--json] [--figure FILE]", auditReportAbout, auditReportExamples)
	var o auditReportOptions
	f.StringArrayVar(&o.states, "state", nil, "file of a tier, may be given several times")
	f.DurationVar(&o.grace, "grace", audit.DefaultGrace, "how long a window stays open after its end")
	f.StringVar(&o.since, "since", "", "leave out windows that began before a time (RFC 3339)")
	f.BoolVar(&o.problems, "problems", false, "leave out windows that are complete or open")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.figure, "figure", "", "file for an SVG image of the completeness of each tier over time")
	f.require("state")
	if err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if o.grace < 0 {
		return usagef("--grace %v: 0 or more is wanted", o.grace)
	}
	options := audit.ReportOptions{At: time.Now(), Grace: max(o.grace, 1)} // 0 would be the default
	if o.since != "" {
		var err error
		if options.Since, err = time.Parse(time.RFC3339, o.since); err != nil {
			return usagef("--since %q: a time is wanted, such as 2026-01-31T12:00:00Z", o.since)
		}
	}
	report, err := o.compare(options)
	if err != nil {
		return err
	}
	if err := o.print(std.Out, report); err != nil {
		return err
	}
	if !report.Clean {
		return errNotClean
	}
	return nil
}

// compare reads the states and compares them; the figure is of all windows.
func (o *auditReportOptions) compare(options audit.ReportOptions) (*audit.Report, error) {
	var states []*audit.State
	for _, name := range o.states {
		s, err := audit.ReadState(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: \"kafka audit watch --state %s\" makes it", err, name)
		}
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	report, err := audit.Compare(states, options)
	if err != nil {
		return nil, err
	}
	if o.figure != "" {
		var image bytes.Buffer
		if err := report.Figure(&image); err != nil {
			return nil, err
		}
		if err := os.WriteFile(o.figure, image.Bytes(), 0o644); err != nil {
			return nil, err
		}
	}
	if o.problems {
		kept := report.Rows[:0]
		for _, r := range report.Rows {
			if r.Verdict != audit.Complete && r.Verdict != audit.Open {
				kept = append(kept, r)
			}
		}
		report.Rows = kept
	}
	return report, nil
}

func (o *auditReportOptions) print(out io.Writer, r *audit.Report) error {
	if o.json {
		return writeJSON(out, r)
	}
	if len(r.Rows) > 0 {
		rows := [][]string{{"WINDOW", "LENGTH", "TOPIC", "SERVER", "TIER", "MADE", "COUNTED", "VERDICT"}}
		for i := range r.Rows {
			row := &r.Rows[i]
			rows = append(rows, []string{
				row.Window.Format(time.RFC3339Nano), (time.Duration(row.LengthMs) * time.Millisecond).String(), row.Topic, row.Server, row.Tier,
				fmt.Sprint(row.Made), fmt.Sprint(row.Counted), verdictText(row),
			})
		}
		if err := table(out, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	tiers := [][]string{{"TIER", "CAUGHT UP", "WINDOWS", "COMPLETE", "OPEN", "MADE", "COUNTED", "MISSING", "DOUBLED", "IN DOUBT", "UNREPORTED"}}
	for _, t := range r.Tiers {
		caughtUp := "never"
		if !t.CaughtUp.IsZero() {
			caughtUp = t.CaughtUp.Format(time.RFC3339)
		}
		row := []string{t.Tier, caughtUp}
		for _, n := range []any{t.Windows, t.Complete, t.Open, t.Made, t.Counted, t.Missing, t.Doubled, t.InDoubt, t.Unreported} {
			row = append(row, fmt.Sprint(n))
		}
		tiers = append(tiers, row)
	}
	if err := table(out, tiers); err != nil {
		return err
	}
	for _, t := range r.Tiers {
		for _, n := range t.Notes {
			if _, err := fmt.Fprintf(out, "%s: %s\n", t.Tier, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// verdictText is a verdict with its numbers.
func verdictText(r *audit.Row) string {
	var parts []string
	for _, p := range []struct {
		what string
		n    uint64
	}{{"missing", r.Missing}, {"unreported", r.Unreported}, {"doubled", r.Doubled}, {"in doubt", r.InDoubt}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.what, p.n))
		}
	}
	switch {
	case r.Verdict == audit.Open:
		return strings.Join(append([]string{"open"}, parts...), ", ")
	case r.Verdict == audit.Complete:
		return strings.Join(append([]string{"complete"}, parts...), ", ")
	}
	return strings.Join(parts, ", ")
}
