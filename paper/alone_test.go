package paper

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kafkalab/results/resultfile"
)

// claimIDs are the claims in a part of a page, in order.
func claimIDs(n *node) []string {
	var out []string
	for _, s := range n.all("section") {
		if s.attr("class") == "claim" {
			out = append(out, s.attr("id"))
		}
	}
	return out
}

// A report of one run begins with its figures, and folds what it says nothing
// of; one of two begins with the claims, and folds nothing.
func TestReportOfOneRun(t *testing.T) {
	dir := t.TempDir()
	one, two := small("one").write(t, dir), small("two").write(t, dir)
	r := makeReport(t, one)
	page, markdown := forms(t, r)
	for _, form := range []struct {
		text  []byte
		parts []string
	}{
		{page, []string{"<h2>Run one", "<svg", "<h4>Rates", "<h2>Claims that it bears on", `id="C9"`, "<details>", r.OthersTitle(), `id="C1"`, "</details>", "<h2>How to read"}},
		{markdown, []string{"## Run one", "#### Rates", "## Claims that it bears on", "### C9", "<details>", r.OthersTitle(), "### C1\n", "</details>", "## How to read"}},
	} {
		var at []int
		for _, part := range form.parts {
			at = append(at, strings.Index(string(form.text), part))
		}
		if at[0] < 0 || !slices.IsSorted(at) {
			t.Errorf("%q stand at %d", form.parts, at)
		}
	}
	doc := parsePage(t, page)
	checkLinks(t, doc, dir)
	claims := doc.byID(t, "claims")
	folded := claimIDs(claims.all("details")[0])
	all := claimIDs(claims)
	if want := []string{"C9", "C10", "C11", "C15"}; !slices.Equal(all[:len(want)], want) || !slices.Equal(all[len(want):], folded) || len(all) != lastClaim {
		t.Errorf("claims %q, of which %q are folded", all, folded)
	}
	if want := "It has numbers for 4 of the paper's 22 claims: holds in part: 4."; r.BearsOn() != want {
		t.Errorf("%q, want %q", r.BearsOn(), want)
	}

	page, markdown = forms(t, makeReport(t, one, two))
	if s := string(page); strings.Contains(s, "<details>") || strings.Index(s, `id="claims"`) > strings.Index(s, "<h2>Run one") {
		t.Error("two runs stand before the claims")
	}
	if s := string(markdown); strings.Contains(s, "<details>") || strings.Index(s, "## Claims") > strings.Index(s, "## Run one") {
		t.Error("two runs stand before the claims in the Markdown")
	}
}

// A run that is too short bears on its claims, and why it decides none stands
// beside them.
func TestReportOfAShortRun(t *testing.T) {
	dir := t.TempDir()
	short := small("short")
	short.messages = 20_000
	r := makeReport(t, short.write(t, dir))
	page, markdown := forms(t, r)
	const why = "passed over, since it asked for 20,000 messages in an attempt, and 1,000,000 are wanted"
	if want := "It has numbers for 4 of the paper's 22 claims: not measured yet: 4."; r.BearsOn() != want {
		t.Errorf("%q, want %q", r.BearsOn(), want)
	}
	if !strings.Contains(parsePage(t, page).byID(t, "claims").all("table")[0].text(), why) || !strings.Contains(string(markdown), ", "+why+" |") {
		t.Errorf("no claim says %q", why)
	}
}

// A run is marked as its figures are.
func TestLabel(t *testing.T) {
	for want, bed := range map[string]resultfile.Testbed{
		"emulated": {Kind: "netns", Emulated: true}, "one machine, no link": {Kind: "local", Emulated: true}, "": {Kind: "ssh"},
	} {
		p, err := newPart(&resultfile.Result{Run: resultfile.Run{Name: "run", Testbed: bed}}, "run/")
		if err != nil || p.Label != want {
			t.Errorf("%s: %q, %v", bed.Kind, p.Label, err)
		}
	}
}

func TestApart(t *testing.T) {
	wide := func(columns int) laidOut {
		var out laidOut
		out.Rows = make([][]cell, 2)
		for i := range columns {
			out.Head = append(out.Head, cell{Text: fmt.Sprint("h", i)})
			for j := range out.Rows {
				out.Rows[j] = append(out.Rows[j], cell{Text: fmt.Sprint(j, ".", i)})
			}
		}
		out.Class = "words"
		return out
	}
	for columns, want := range map[int][]int{1: {1}, 2: {2}, 6: {6}, 7: {4, 4}, 11: {6, 6}, 12: {4, 5, 5}} {
		next := 1
		parts := apart(wide(columns), 6)
		for i, part := range parts {
			if i >= len(want) || len(part.Head) != want[i] || part.Class != "words" || part.Head[0].Text != "h0" {
				t.Fatalf("%d columns: part %d of %d is %+v", columns, i, len(parts), part)
			}
			for k := 1; k < len(part.Head); k++ {
				if part.Head[k].Text != fmt.Sprint("h", next) || part.Rows[1][k].Text != fmt.Sprint("1.", next) {
					t.Errorf("%d columns: column %d of part %d is %q, %q", columns, k, i, part.Head[k].Text, part.Rows[1][k].Text)
				}
				next++
			}
		}
		if len(parts) != len(want) || next != columns {
			t.Errorf("%d columns became %d parts with %d of them", columns, len(parts), next)
		}
	}
}
