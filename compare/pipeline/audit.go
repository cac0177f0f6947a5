package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

const (
	// auditPoll is the time between two questions for the verdict.
	auditPoll = time.Second
	// auditPatience is how long, beyond a window, the audit may take to have seen
	// all that has come.
	auditPatience = 30 * time.Second
	// saidBytes is how much of what a command complained of its error holds.
	saidBytes = 2 << 10
)

// verdict is what "kafka audit report --json" prints.
type verdict struct {
	Clean bool         `json:"clean"`
	Rows  []verdictRow `json:"rows"`
	Tiers []struct {
		Tier        string   `json:"tier"`
		Uncounted   int64    `json:"uncounted"`
		NotEnvelope int64    `json:"not_enveloped"`
		Malformed   int64    `json:"malformed"`
		Notes       []string `json:"notes"`
	} `json:"tiers"`
}

// verdictRow is of one tier, for the messages that one server made in one window.
type verdictRow struct {
	Topic      string    `json:"topic"`
	Window     time.Time `json:"window"` // its beginning
	LengthMs   int64     `json:"length_ms"`
	Server     string    `json:"server"`
	Tier       string    `json:"tier"`
	Made       int64     `json:"made"`
	Counted    int64     `json:"counted"` // each once
	Missing    int64     `json:"missing"`
	Doubled    int64     `json:"doubled"`
	Unreported int64     `json:"unreported"`
	Verdict    string    `json:"verdict"`
}

// verdictOpen is the word for a window that may still change.
const verdictOpen = "open"

// audit asks the audit for its verdict until no window is open any more and it has
// counted in each tier what has come there, or for as long as it may take. Then the
// load and the watches are ended, and what is asked for after that is kept.
func (r *run) audit(ctx context.Context) error {
	limit := time.Now().Add(r.opts.window + auditPatience)
	for {
		v, err := r.ask(ctx)
		if err != nil {
			return err
		}
		if missing := r.unseen(v); missing == "" {
			break
		} else if time.Now().After(limit) {
			r.plan.Note(fmt.Sprintf("the audit was not through after %v: %s", r.opts.window+auditPatience, missing))
			break
		}
		r.tell()
		if !sleep(ctx, auditPoll) {
			return context.Cause(ctx)
		}
	}
	if err := r.stopAll(append(slices.Clone(r.watches), r.loader)...); err != nil {
		return err
	}
	r.watches, r.loader = nil, nil
	v, err := r.ask(ctx)
	if err != nil {
		return err
	}
	r.result.Windows = v.windows()
	r.result.AuditComplete = v.Clean
	for _, t := range v.Tiers {
		if t.Uncounted+t.NotEnvelope+t.Malformed > 0 || len(t.Notes) > 0 {
			r.plan.Note(fmt.Sprintf("the audit of the tier %s: %d not counted, %d in no envelope, %d malformed; %s", t.Tier, t.Uncounted, t.NotEnvelope, t.Malformed, strings.Join(t.Notes, "; ")))
		}
	}
	return nil
}

// ask counts what is loaded, and has the audit compare the tiers. What could be
// loaded is loaded by now.
func (r *run) ask(ctx context.Context) (verdict, error) {
	var v verdict
	load := resultfile.Tiers()[loadTier]
	if out, err := command(ctx, r.plan.Program, "audit", "count", "--tier", load, "--dir", r.loadDir(), "--topic", topic, "--state", r.stateFile(load), "--audit-window", r.opts.window.String(), "--audit-topic", "", "--lag", "0s"); err != nil {
		return v, fmt.Errorf("counting what is loaded: %w: %s", err, out)
	}
	args := []string{"audit", "report", "--json", "--grace", "1s"}
	for _, tier := range resultfile.Tiers() {
		args = append(args, "--state", r.stateFile(tier))
	}
	out, err := command(ctx, r.plan.Program, args...)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1 && len(out) > 0) { // 1: it found something
		return v, fmt.Errorf("asking the audit: %w", err)
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return v, fmt.Errorf("what the audit says: %w: %.200s", err, out)
	}
	return v, nil
}

// unseen says what the audit has not seen yet; "" if nothing. Messages that came and copies
// of them are told apart: many copies are no sign that all messages are counted.
func (r *run) unseen(v verdict) string {
	for i, tier := range resultfile.Tiers() {
		distinct, doubled, _ := r.ledger.counts(i)
		var counted, copies int64
		for _, row := range v.Rows {
			if row.Tier == tier && row.Topic == topic {
				counted += row.Counted
				copies += row.Doubled
				if row.Verdict == verdictOpen {
					return fmt.Sprintf("the window from %s of %s is open in the tier %s", row.Window.Format(time.TimeOnly), row.Server, tier)
				}
			}
		}
		switch {
		case counted < distinct:
			return fmt.Sprintf("in the tier %s it has counted %d of %d messages", tier, counted, distinct)
		case copies < doubled:
			return fmt.Sprintf("in the tier %s it has counted %d of %d copies of messages", tier, copies, doubled)
		}
	}
	return ""
}

// windows are the rows of the topic, all servers together.
func (v verdict) windows() []resultfile.AuditWindow {
	var out []resultfile.AuditWindow
	for _, row := range v.Rows {
		tier := slices.Index(resultfile.Tiers(), row.Tier)
		if row.Topic != topic || tier < 0 {
			continue
		}
		start := float64(row.Window.UnixMilli()) / 1000
		i := slices.IndexFunc(out, func(w resultfile.AuditWindow) bool { return w.Tier == row.Tier && w.Start == start })
		if i < 0 {
			i = len(out)
			out = append(out, resultfile.AuditWindow{Tier: row.Tier, Start: start, Seconds: float64(row.LengthMs) / 1000})
		}
		w := &out[i]
		w.Made += row.Made
		w.Counted += row.Counted
		w.Doubled += row.Doubled
		w.Unreported += row.Unreported
		if row.Verdict == verdictOpen {
			w.Open += row.Made
		} else {
			w.Missing += row.Missing
		}
	}
	slices.SortStableFunc(out, func(a, b resultfile.AuditWindow) int {
		return cmp.Or(cmp.Compare(slices.Index(resultfile.Tiers(), a.Tier), slices.Index(resultfile.Tiers(), b.Tier)), cmp.Compare(a.Start, b.Start))
	})
	return out
}

// command runs a command to its end and returns what it wrote to its standard
// output. An error holds the end of what it wrote to the other.
func command(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	said := host.NewTail(saidBytes)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, said
	cmd.WaitDelay = closeLimit
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil && said.String() != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return out.Bytes(), err
}
