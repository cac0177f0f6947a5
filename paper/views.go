package paper

import (
	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// ViewsRow sets a rival as the paper had it beside the same one as its own
// documentation recommends it for the work.
type ViewsRow struct {
	Scenario        string
	Paper, Best     string // labels
	PaperRate, Rate string // messages a second, with the number of repetitions
	Ratio           string // best over the paper's view
	Run             RunPart
}

// viewsNote says why there are two views.
const viewsNote = "Where a rival's own documentation recommends something else for such work than what the paper had, both are measured: claims are judged in the paper's view, and the best view stands beside them. How each is set is in the settings of its run."

// views lists, of each scenario, the rivals that were measured in both views,
// from the run that says most of it.
func (r *Report) views(runs []*resultfile.Result) []ViewsRow {
	type key struct{ scenario, paper, best string }
	at := map[key]int{}
	var out []ViewsRow
	var from []resultfile.Run
	for _, run := range runs {
		for _, s := range run.Run.Scenarios {
			for _, pair := range viewPairs(s) {
				old := plots.Values(run, s.Name, pair[0].ID, plots.MessageRate)
				best := plots.Values(run, s.Name, pair[1].ID, plots.MessageRate)
				ratio := plots.RatioOf(best, old)
				if ratio == nil {
					continue
				}
				row := ViewsRow{
					Scenario: s.Name, Paper: pair[0].Label, Best: pair[1].Label, Run: r.part(run),
					PaperRate: rateText(plots.Summarise(old)), Rate: rateText(plots.Summarise(best)), Ratio: plots.Times(ratio),
				}
				k := key{s.Name, pair[0].ID, pair[1].ID}
				i, known := at[k]
				switch {
				case !known:
					at[k] = len(out)
					out, from = append(out, row), append(from, run.Run)
				case saysMore(run.Run, from[i]):
					out[i], from[i] = row, run.Run
				}
			}
		}
	}
	return out
}

// viewPairs are the systems of a scenario that show one rival in both views,
// the paper's first. Points of sweeps are left out: their figures show both.
func viewPairs(s resultfile.Scenario) [][2]resultfile.System {
	var out [][2]resultfile.System
	for _, best := range s.Systems {
		if best.View != resultfile.ViewBest || best.Series != "" {
			continue
		}
		for _, old := range s.Systems {
			if old.View == resultfile.ViewPaper && old.Driver == best.Driver && old.Series == "" {
				out = append(out, [2]resultfile.System{old, best})
			}
		}
	}
	return out
}
