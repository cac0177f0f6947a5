package etl

import (
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each file has one name, which tells all about it; what is almost one is none.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := File{
			Partition: Partition{
				rapid.SampledFrom([]string{"clicks", "a.b", " ", "é", "_x", strings.Repeat("x", 249)}).Draw(t, "topic"),
				rapid.Int32Range(0, 1<<31-1).Draw(t, "broker"), rapid.Int32Range(0, 1<<31-1).Draw(t, "partition"),
			},
			Date:  time.Unix(rapid.Int64Range(0, maxArrivalMs/1000-1).Draw(t, "time"), 0).UTC().Truncate(24 * time.Hour),
			Start: rapid.Int64Range(0, 1<<62).Draw(t, "start"),
			Avro:  rapid.Bool().Draw(t, "avro"),
		}
		f.End = f.Start + rapid.Int64Range(1, 1<<40).Draw(t, "length")
		if f.Avro {
			f.SchemaID = rapid.Uint32().Draw(t, "schema")
		}
		got, err := parseName(f.name())
		if err != nil || got != f {
			t.Fatalf("%s: %+v, %v, want %+v", f.name(), got, err, f)
		}
	})
	for _, name := range []string{
		"", "clicks", "clicks/2026/11/29", "clicks/2026/11/29/", "clicks/2026/11/29/0-0-0-10", "clicks/2026/11/29/0-0-0-10.gz.tmp",
		"clicks/2026/11/31/0-0-0-10.gz", "clicks/2026/1/29/0-0-0-10.gz", "/2026/11/29/0-0-0-10.gz", "../2026/11/29/0-0-0-10.gz",
		"clicks/2026/11/29/00-0-0-10.gz", "clicks/2026/11/29/0-0-10-10.gz", "clicks/2026/11/29/0-0-10-9.gz", "clicks/2026/11/29/-1-0-0-10.gz",
		"clicks/2026/11/29/0-0-0-10-s07.avro", "clicks/2026/11/29/0-0-0-10-s7.gz", "clicks/2026/11/29/0-0-0-10.avro",
		"clicks/2026/11/29/0-0-0-99999999999999999999.gz", "clicks/2026/11/29/2147483648-0-0-10.gz", "_etl/2026/11/29/0-0-0-10.gz",
		"a/b/2026/11/29/0-0-0-10.gz",
	} {
		if f, err := parseName(name); err == nil {
			t.Errorf("%q is taken for %+v", name, f)
		}
	}
}

func TestPlanIDs(t *testing.T) {
	id := newPlanID(12, noon, true)
	if n, err := planNumber(id); n != 12 || err != nil || !isLocal(id) || isLocal(newPlanID(1, noon, false)) {
		t.Errorf("%s: %d, %v", id, n, err)
	}
	for _, id := range []string{"", "..", "00000000-20261130T153000Z-a1b2c3d4", "00000001-20261130T153000Z-a1b2c3d4/..", "1-20261130T153000Z-a1b2c3d4"} {
		if _, err := planNumber(id); err == nil {
			t.Errorf("%q is taken for a plan", id)
		}
	}
}

// A split survives its line, also behind the key of Hadoop Streaming; what is none is
// refused with a word of why.
func TestSplitLines(t *testing.T) {
	s := testSplit()
	line, err := s.Line()
	must(t, err)
	for _, l := range []string{line, "0\t" + line, "123456\t" + line, line + "\n", line + "\t"} {
		got, err := ParseSplit(l)
		if err != nil || got != s {
			t.Errorf("%q: %+v, %v", l, got, err)
		}
	}
	bad := func(change func(*Split)) string {
		b := s
		change(&b)
		line, err := b.Line()
		must(t, err)
		return line
	}
	for _, l := range []string{
		"", "x\t" + line, line + line, `{"unknown":1}`, "{", "null",
		bad(func(s *Split) { s.Topic = "../x" }), bad(func(s *Split) { s.Topic = bookkeeping }), bad(func(s *Split) { s.End = s.Start }),
		bad(func(s *Split) { s.Plan = "../../x" }), bad(func(s *Split) { s.Broker = -1 }), bad(func(s *Split) { s.By = "" }),
		bad(func(s *Split) { s.Address = "" }), bad(func(s *Split) { s.ArrivalMs = maxArrivalMs }), bad(func(s *Split) { s.Start = -1 }),
	} {
		if got, err := ParseSplit(l); err == nil {
			t.Errorf("%q is taken for %+v", l, got)
		}
	}
}

// A result must be of its split and nothing else.
func TestResultsAreChecked(t *testing.T) {
	s := testSplit()
	f := File{Partition: s.Partition, Date: noon.Truncate(24 * time.Hour), Start: s.Start, End: s.End}
	good := func() Result {
		return Result{
			Plan: s.Plan, Partition: s.Partition, Start: s.Start, End: s.End, Counts: Counts{Messages: 2, Bytes: 10},
			Files: []Made{{Name: f.name(), Bytes: 5, Messages: 2, First: 1000, Last: 1001}},
			Gaps:  []Gap{{s.Partition, 2000, 3000}},
		}
	}
	must(t, good().covers(s))
	for name, change := range map[string]func(*Result){
		"plan":       func(r *Result) { r.Plan = newPlanID(1, noon, false) },
		"number":     func(r *Result) { r.Number++ },
		"partition":  func(r *Result) { r.Partition.Broker++ },
		"start":      func(r *Result) { r.Start++ },
		"end":        func(r *Result) { r.End-- },
		"count":      func(r *Result) { r.Messages++ },
		"negative":   func(r *Result) { r.TooLate = -1 },
		"file twice": func(r *Result) { r.Files = append(r.Files, r.Files[0]); r.Messages *= 2 },
		"its name":   func(r *Result) { r.Files[0].Name = "clicks/2026/11/29/0-0-0-1.gz" },
		"outside":    func(r *Result) { r.Files[0].Name = "../" + r.Files[0].Name },
		"empty":      func(r *Result) { r.Files[0].Bytes = 0 },
		"before":     func(r *Result) { r.Files[0].First = 999 },
		"behind":     func(r *Result) { r.Files[0].Last = s.End },
		"gap":        func(r *Result) { r.Gaps[0].End = s.End + 1 },
		"its owner":  func(r *Result) { r.Gaps[0].Number++ },
	} {
		r := good()
		change(&r)
		if r.covers(s) == nil {
			t.Errorf("%s: %+v is taken", name, r)
		}
	}
	m := Manifest{Run: 1, Plan: s.Plan, Files: []Published{{From: path.Join("files", f.name()), Made: good().Files[0]}}}
	must(t, m.check(1))
	for _, from := range []string{"../x", "/x", "a/../../x", ""} {
		m.Files[0].From = from
		if m.check(1) == nil {
			t.Errorf("a file from %q is taken", from)
		}
	}
}
