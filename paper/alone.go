package paper

import (
	"fmt"

	"kafkalab/plots"
)

// Alone says whether the report is of one run and nothing else. Who made a run
// looks for its figures first, so they come before the claims then.
func (r *Report) Alone() bool { return len(r.Runs) == 1 && len(r.Drawn) == 0 }

// Bearing are the claims of which the runs have a number, also one that decides
// nothing.
func (r *Report) Bearing() []Judged { return r.claims(true) }

// Others are the claims of which the runs have none.
func (r *Report) Others() []Judged { return r.claims(false) }

func (r *Report) claims(bearing bool) []Judged {
	var out []Judged
	for _, c := range r.Claims {
		if c.bears() == bearing {
			out = append(out, c)
		}
	}
	return out
}

func (j Judged) bears() bool {
	for _, k := range j.Checks {
		if len(k.Findings)+len(k.Passed) > 0 {
			return true
		}
	}
	return false
}

// BearsOn says in a sentence what one run means for the claims.
func (r *Report) BearsOn() string {
	bearing := r.Bearing()
	if len(bearing) == 0 {
		return fmt.Sprintf("It has numbers for none of the paper's %d claims.", len(r.Claims))
	}
	return fmt.Sprintf("It has numbers for %d of the paper's %d claims: %s.", len(bearing), len(r.Claims), counts(bearing))
}

// OthersTitle heads the claims that a run says nothing of.
func (r *Report) OthersTitle() string {
	return fmt.Sprintf("The other %d claims, for which this run has no numbers", len(r.Others()))
}

// aloneHead writes the head of a report of one run.
func (m *page) aloneHead() error {
	m.line("# What one run measured\n")
	m.line("One run of the experiments of Kreps, Narkhede, Rao: *Kafka: a Distributed Messaging System for Log Processing* (NetDB'11, June 2011), repeated with kafkalab. %s\n", m.report.BearsOn())
	return nil
}

// aloneClaims writes the claims that one run bears on, and the others folded.
func (m *page) aloneClaims() error {
	m.line("## Claims that it bears on\n")
	bearing, others := m.report.Bearing(), m.report.Others()
	if len(bearing) == 0 {
		m.line("%s\n", m.report.BearsOn())
	} else {
		m.claimTable(bearing)
	}
	m.line("%s\n\n%s\n", plots.Escape(method), plots.Escape(emulatedNote))
	m.claims(bearing)
	if len(others) > 0 {
		m.line("<details>\n<summary>%s</summary>\n", m.report.OthersTitle())
		m.claimTable(others)
		m.claims(others)
		m.line("</details>\n")
	}
	return nil
}
