package plots

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

// What was also measured stands in every table, marked, and in the figure of
// additions; neither in the paper's figure nor among its versions.
func TestAlsoMeasured(t *testing.T) {
	m := newMaker()
	m.messages, m.repeat = 50_000, 2
	consume := &m.scenario[1]
	plain := *consume
	plain.Systems = slices.Clone(plain.Systems)
	consume.Systems = append(consume.Systems, resultfile.System{
		ID: "nats", Label: "NATS", Driver: "nats", Role: resultfile.RoleAlso, Settings: []resultfile.Setting{{Row: "version", Value: "synthetic nats 2.0"}},
	})
	m.speeds["nats"] = 240_000
	r := read(t, m.make(t))
	s := r.Run.Scenarios[1]

	if hasExtras(plain) || !hasExtras(s) {
		t.Error("a scenario has a figure of additions if, and only if, something was also measured")
	}
	paper, additions := newFigure(r, s, paperView), newFigure(r, s, extrasView)
	isNATS := func(l line) bool { return l.label == "NATS" }
	if slices.ContainsFunc(paper.lines, isNATS) || strings.Contains(strings.Join(paper.caption, " "), "nats") {
		t.Errorf("it stands in the paper's figure: %+v, %q", paper.lines, paper.caption)
	}
	if !slices.ContainsFunc(additions.lines, isNATS) || !strings.Contains(strings.Join(additions.caption, " "), "synthetic nats 2.0") {
		t.Errorf("it does not stand in the figure of additions: %+v, %q", additions.lines, additions.caption)
	}
	// The systems of the paper look as they do without it.
	before, after := stylesOf(plain), stylesOf(s)
	for _, y := range plain.Systems {
		if before[y.ID].color != after[y.ID].color {
			t.Errorf("%s has another colour", y.ID)
		}
	}

	var page bytes.Buffer
	if err := RatesMarkdown(&page, r); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "| NATS (also measured) |"); n != 3 {
		t.Errorf("it stands in %d tables, want rates, ratios and costs:\n%s", n, text)
	}
	if n := strings.Count(text, "none of the systems that the paper compared"); n != 1 {
		t.Errorf("the mark is explained %d times, want under the one scenario that has it", n)
	}
	for _, rates := range RatesOf(r) {
		for _, y := range rates.Systems {
			if slices.ContainsFunc(y.Against, func(a Against) bool { return a.System == "nats" }) {
				t.Errorf("%s is compared with it", y.System)
			}
		}
	}
}

// A system of Figure 4 looks the same whatever is measured beside it, and a
// part of a stack has no system's colour.
func TestLooksDoNotChangeWithTheSelection(t *testing.T) {
	var all resultfile.Scenario
	for _, y := range [][2]string{{"kafka-b1", "kafka"}, {"kafka-b50", "kafka"}, {"kafka-b1-plain", "kafka"}, {"rabbitmq", "rabbitmq"}, {"rabbitmq-best", "rabbitmq"},
		{"activemq-receipt", "activemq"}, {"activemq", "activemq"}, {"activemq-best", "activemq"}, {"nats", "nats"}, {"nats-noack", "nats"}} {
		all.Systems = append(all.Systems, resultfile.System{ID: y[0], Driver: y[1], Role: resultfile.RoleSystem})
	}
	whole := stylesOf(all)
	for i, y := range all.Systems {
		alone := stylesOf(resultfile.Scenario{Systems: []resultfile.System{y}})[y.ID]
		without := all
		without.Systems = slices.Delete(slices.Clone(all.Systems), (i+1)%len(all.Systems), (i+1)%len(all.Systems)+1)
		for what, st := range map[string]style{"alone": alone, "without another": stylesOf(without)[y.ID]} {
			if st.color != whole[y.ID].color || st.shape != whole[y.ID].shape {
				t.Errorf("%s %s has another look", y.ID, what)
			}
		}
		for _, p := range storeParts {
			if p.fill.color == whole[y.ID].color {
				t.Errorf("%s has the colour of the part %q", y.ID, p.name)
			}
		}
	}
}
