package runner

import (
	"fmt"
	"strings"

	"kafkalab/results/resultfile"
)

// noBacklog says why there is nothing to consume after a produce, "" if there
// is.
func (t *trial) noBacklog() string {
	switch {
	case t.notInstalled:
		return t.failure
	case t.failure == "" && t.result != nil && t.result.Failure == "" && t.result.Sent > 0:
		return ""
	}
	return fmt.Sprintf("there is no backlog: %s left none", t.attempt.ID)
}

// decide settles the outcomes of a group: what each attempt is by itself, then
// what the contents say, and at last that a group stands or falls as one.
// measured says that consume is an attempt of its own, and not only the
// produce's verification.
func (r *run) decide(produce, consume *trial, measured bool) {
	produce.attempt.Outcome, produce.attempt.Reason = produce.alone()
	if measured {
		consume.attempt.Outcome, consume.attempt.Reason = consume.alone()
		r.contents(consume, consume)
	}
	r.contents(produce, consume)
	if measured && produce.attempt.Outcome != resultfile.Valid {
		consume.degrade(resultfile.Invalid, "what it consumed is the backlog of %s, which is %s: %s", produce.attempt.ID, produce.attempt.Outcome, produce.attempt.Reason)
	}
}

// decideSingle settles the outcome of an attempt that is a group by itself and
// checks its own contents.
func (r *run) decideSingle(t *trial) {
	t.attempt.Outcome, t.attempt.Reason = t.alone()
	r.contents(t, t)
}

// alone is the outcome of an attempt by what it knows itself.
func (t *trial) alone() (resultfile.Outcome, string) {
	switch {
	case t.interrupted:
		return resultfile.Interrupted, orElse(t.failure, "interrupted")
	case t.notInstalled:
		return resultfile.NotInstalled, t.failure
	case t.failure != "":
		return resultfile.Failed, join(t.failure, t.told())
	case t.result == nil:
		return resultfile.Failed, "the client left no result"
	case t.result.Failure != "":
		return resultfile.Failed, t.told()
	case t.result.Fault != "" || len(t.result.Blocked) > 0:
		return resultfile.Invalid, t.told()
	case t.result.Messages == 0 || t.result.Seconds <= 0:
		return resultfile.Failed, "no message was measured"
	}
	return resultfile.Valid, ""
}

// told is what the client itself said was wrong.
func (t *trial) told() string {
	if t.result == nil {
		return ""
	}
	blocked := ""
	if len(t.result.Blocked) > 0 {
		blocked = "blocked by the broker: " + strings.Join(t.result.Blocked, ", ")
	}
	return join(t.result.Failure, t.result.Fault, blocked)
}

// contents records in t what consuming found. An attempt whose contents were
// not looked at cannot be valid; one that was looked at in part, since time
// was over, can, and says so.
func (r *run) contents(t, consumed *trial) {
	res := consumed.result
	if res != nil && (res.Checked || res.Partly && res.Contents.Received > 0) {
		c := res.Contents
		t.attempt.Lost, t.attempt.Doubled, t.attempt.Damaged, t.attempt.Reordered = c.Lost, c.Doubled, c.Damaged, c.Reordered
		t.attempt.Verified = res.Checked
		if t.system.MayReorder {
			c.Reordered = 0
		}
		if err := c.Err(); err != nil && t != consumed {
			t.degrade(resultfile.Invalid, "contents: %v", err)
		}
	}
	switch {
	case consumed.interrupted:
		t.degrade(resultfile.Interrupted, "interrupted before its contents were verified")
	case consumed.failure != "" || res == nil || res.Failure != "":
		if t != consumed {
			t.degrade(resultfile.Invalid, "its contents could not be verified: %s", join(consumed.failure, consumed.told()))
		}
	case res.Partly:
		before := ""
		if n := min(t.stored, res.Contents.Received); n > 0 && t.scenario.Work == resultfile.Produce {
			before = fmt.Sprintf(", of which %d were there before the measuring", n)
		}
		r.note(t, "contents checked in part, without a fault: %d messages within the time for it%s", res.Contents.Received, before)
	}
}

// degrade takes a valid attempt's validity; any other keeps its first reason.
func (t *trial) degrade(o resultfile.Outcome, format string, args ...any) {
	if t.attempt.Outcome == resultfile.Valid {
		t.attempt.Outcome, t.attempt.Reason = o, fmt.Sprintf(format, args...)
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// join puts the texts that are not empty into one.
func join(texts ...string) string {
	var said []string
	for _, t := range texts {
		if t != "" {
			said = append(said, t)
		}
	}
	return strings.Join(said, "; ")
}
