package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"kafkalab/kafka/storage"
)

// repairedThing is what repair found, in JSON.
type repairedThing struct {
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Path      string `json:"path"`
	Offset    int64  `json:"offset"`
	End       int64  `json:"end"`
	Problem   string `json:"problem"`
	Action    string `json:"action,omitempty"`
	Saved     string `json:"saved,omitempty"`
	Advice    string `json:"advice,omitempty"`
	Error     string `json:"error,omitempty"`
	Left      bool   `json:"left"`
	DryRun    bool   `json:"dry_run,omitempty"`
}

func repairLog(ctx context.Context, path string, out io.Writer, opt storage.RepairOptions, asJSON bool) error {
	w := bufio.NewWriter(out)
	var printErr error
	report, err := storage.Repair(ctx, path, opt, func(m storage.Mend) {
		var err error
		if asJSON {
			err = writeJSON(w, repaired(m, opt.DryRun))
		} else {
			_, err = fmt.Fprintln(w, repairText(m, opt.DryRun))
		}
		// What was changed is said at once, whatever becomes of the rest.
		printErr = errors.Join(printErr, err, w.Flush())
	})
	if err == nil && !asJSON {
		fmt.Fprintln(w, repairSummary(report, opt.DryRun))
	}
	if err = errors.Join(err, printErr, w.Flush()); err == nil && report.Left > 0 {
		err = fmt.Errorf("%s: %d left that have not been mended", path, report.Left)
	}
	return err
}

func repaired(m storage.Mend, dryRun bool) repairedThing {
	r := repairedThing{Topic: m.Topic, Partition: m.Partition, Path: m.Path, Offset: m.Offset, End: m.End, Problem: m.Problem,
		Action: m.Action, Saved: m.Saved, Advice: m.Advice, Left: m.Left(), DryRun: dryRun}
	if m.Err != nil {
		r.Error = m.Err.Error()
	}
	return r
}

func repairText(m storage.Mend, dryRun bool) string {
	var b strings.Builder
	b.WriteString(m.Path)
	if m.End > m.Offset {
		fmt.Fprintf(&b, " from offset %d to %d", m.Offset, m.End)
	}
	fmt.Fprintf(&b, ": %s\n", m.Problem)
	switch {
	case m.Err != nil:
		fmt.Fprintf(&b, "  LEFT: this failed: %s: %v", m.Action, m.Err)
	case m.Left():
		b.WriteString("  LEFT")
	case dryRun:
		fmt.Fprintf(&b, "  would be mended: %s", m.Action)
	default:
		fmt.Fprintf(&b, "  mended: %s", m.Action)
	}
	if m.Saved != "" {
		fmt.Fprintf(&b, "; what was there is in %s", m.Saved)
	}
	if m.Advice != "" {
		fmt.Fprintf(&b, ": %s", m.Advice)
	}
	return b.String()
}

func repairSummary(r storage.RepairReport, dryRun bool) string {
	switch {
	case r.Mended == 0 && r.Left == 0:
		return "nothing to mend"
	case dryRun:
		return fmt.Sprintf("%d would be mended, %d left", r.Mended, r.Left)
	}
	return fmt.Sprintf("%d mended, %d left", r.Mended, r.Left)
}
