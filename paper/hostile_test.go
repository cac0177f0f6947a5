package paper

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"unicode"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// hostile is a text that clears a terminal, turns what follows around, ends the
// link or the paragraph that it stands in, and is a link itself.
const hostile = " x\x1b[2J\u009b\u202e](javascript:1) [y](javascript:2) \\[z\\](javascript:3)\n\n[q](javascript:4)\n"

// writeHostile makes a run whose words are hostile, as nobody's testbed writes
// it, and returns its path.
func writeHostile(t testing.TB) string {
	t.Helper()
	dir := everyChart{name: "run", repeat: 1}.write(t, t.TempDir())
	path := filepath.Join(dir, "run.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var run resultfile.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	words := []*string{&run.Name, &run.Commit, &run.Command, &run.Testbed.Kind, &run.Testbed.LinkNote, &run.Testbed.BrokerLimits.Cores, &run.Testbed.BrokerLimits.Note, &run.Testbed.BrokerHost.Name, &run.Testbed.ClientHost.Name}
	facts := run.Testbed.BrokerHost.Facts
	words = append(words, &facts[0].Name, &facts[0].Value)
	for i := range run.Scenarios {
		s := &run.Scenarios[i]
		words = append(words, &s.Title, &s.Purpose, &s.Limit)
		if s.Axis != nil {
			words = append(words, &s.Axis.Label)
		}
		for j := range s.Systems {
			y := &s.Systems[j]
			words = append(words, &y.Label, &y.Driver, &y.Series, &y.Settings[0].Row, &y.Settings[0].Value, &y.Contract[1].Row, &y.Contract[0].Value, &y.Contract[0].Class)
		}
	}
	for i := range run.Attempts {
		a := &run.Attempts[i]
		a.Notes = []string{"a note"}
		words = append(words, &a.Notes[0])
		if i%3 == 0 {
			a.Outcome, a.Reason = resultfile.Invalid, "a reason"
			words = append(words, &a.Reason)
		}
	}
	for _, word := range words {
		*word += hostile
	}
	if data, err = json.Marshal(run); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

var (
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	madeLink = regexp.MustCompile(`(?m)(^|[^\\])(\\\\)*\]\(javascript`)
)

// What a foreign run.json says stays plain text wherever it is shown.
func TestHostileRunStaysText(t *testing.T) {
	dir := writeHostile(t)
	r, err := resultfile.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, report := forms(t, makeReport(t, dir))
	page, err := plots.Page(r)
	if err != nil {
		t.Fatal(err)
	}
	compared := plots.Compare(r, r)
	for _, made := range []struct {
		name     string
		markdown bool
		write    func(b *bytes.Buffer) error
	}{
		{MarkdownName, true, func(b *bytes.Buffer) error { b.Write(report); return nil }},
		{"tables.md", true, func(b *bytes.Buffer) error { b.Write(page); return nil }},
		{"rates as Markdown", true, func(b *bytes.Buffer) error { return plots.RatesMarkdown(b, r) }},
		{"rates", false, func(b *bytes.Buffer) error { return plots.RatesTable(b, r) }},
		{"comparison as Markdown", true, func(b *bytes.Buffer) error { return compared.Markdown(b) }},
		{"differing settings", false, func(b *bytes.Buffer) error { return plots.ContractDifferences(b, r) }},
		{"comparison", false, func(b *bytes.Buffer) error { return compared.Text(b) }},
	} {
		var b bytes.Buffer
		if err := made.write(&b); err != nil {
			t.Errorf("%s: %v", made.name, err)
		}
		if !bytes.Contains(b.Bytes(), []byte("javascript:4")) {
			t.Errorf("%s does not show the text at all", made.name)
		}
		for line := range bytes.Lines(b.Bytes()) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if bytes.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
				t.Errorf("%s: %q", made.name, line)
			}
			if made.markdown && madeLink.Match(codeSpan.ReplaceAll(line, nil)) {
				t.Errorf("%s has a link: %s", made.name, line)
			}
		}
	}
}
