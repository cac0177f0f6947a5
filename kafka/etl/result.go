package etl

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// Result is what one attempt at a split has made. It counts only if it is the one
// that is kept, see [Folder.Commit].
type Result struct {
	Plan   string `json:"plan"`
	Number int    `json:"split"`
	Partition
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Files []Made `json:"files"`
	Gaps  []Gap  `json:"gaps,omitempty"` // retention was faster than the task
	Counts
}

// Made is a file that a task has made.
type Made struct {
	Name     string `json:"name"` // below the output folder: <topic>/2026/11/29/…
	Bytes    int64  `json:"file_bytes"`
	Messages int64  `json:"file_messages"`
	First    int64  `json:"first"` // offset of its first message
	Last     int64  `json:"last"`  // and of its last
}

// Line returns the result as one line, without its end.
func (r Result) Line() (string, error) {
	b, err := json.Marshal(r)
	return string(b), err
}

// parseResults reads lines of [Result.Line]. Hadoop Streaming puts a tab behind each.
func parseResults(text []byte) ([]Result, error) {
	var results []Result
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		var r Result
		if err := parseStrictly([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("line %.200q is not the result of a task: %w", line, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// covers reports why a result cannot be that of a split: it must be of exactly its
// offsets, name files as the split does, and count what they hold.
func (r Result) covers(s Split) error {
	if r.Plan != s.Plan || r.Number != s.Number || r.Partition != s.Partition || r.Start != s.Start || r.End != s.End {
		return fmt.Errorf("%v of plan %s: the result is of split %d: %v offsets %d to %d of plan %s",
			s, s.Plan, r.Number, r.Partition, r.Start, r.End, r.Plan)
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("result of %v: %w", s, fmt.Errorf(format, args...))
	}
	if err := r.Counts.check(); err != nil {
		return wrong("%w", err)
	}
	names := map[string]bool{}
	var messages int64
	for _, m := range r.Files {
		f, err := parseName(m.Name)
		if err == nil && (f.Partition != s.Partition || f.Start != s.Start || f.End != s.End) {
			err = errors.New("the name is not one of this split's")
		}
		switch {
		case err != nil:
			return wrong("file %.200q: %w", m.Name, err)
		case names[m.Name]:
			return wrong("file %q is there twice", m.Name)
		case m.Bytes <= 0 || m.Messages <= 0 || m.First < s.Start || m.Last < m.First || m.Last >= s.End:
			return wrong("file %q: %d bytes, %d messages from offset %d to %d make no sense", m.Name, m.Bytes, m.Messages, m.First, m.Last)
		}
		names[m.Name] = true
		messages += m.Messages
	}
	if messages != r.Messages {
		return wrong("its files hold %d messages, and it counts %d", messages, r.Messages)
	}
	at := s.Start
	for _, g := range r.Gaps {
		if g.Partition != s.Partition || g.Start < at || g.End <= g.Start || g.End > s.End {
			return wrong("gap %v makes no sense", g)
		}
		at = g.End
	}
	return nil
}

// Manifest says what a run has published.
type Manifest struct {
	Run    int64       `json:"run"`
	Plan   string      `json:"plan"`
	MadeMs int64       `json:"made_ms"` // when it was written, milliseconds since 1970 UTC
	Files  []Published `json:"files"`
	Gaps   []Gap       `json:"gaps,omitempty"`
	// Problems are those of the plan: what was left out.
	Problems []string `json:"problems,omitempty"`
	Splits   int      `json:"splits"`
	Counts
}

// Published is a file of a run.
type Published struct {
	From string `json:"from"` // below the folder of the run, until it is laid out
	Made
}

func (m *Manifest) check(run int64) error {
	if m.Run != run {
		return fmt.Errorf("it is that of run %d", m.Run)
	}
	if _, err := planNumber(m.Plan); err != nil {
		return err
	}
	for _, f := range m.Files {
		if _, err := parseName(f.Name); err != nil {
			return fmt.Errorf("file %.200q: %w", f.Name, err)
		}
		// A path that leads out of the folder of the run would move what is not ours.
		if f.From != path.Clean(f.From) || path.IsAbs(f.From) || strings.HasPrefix(f.From, "..") || f.Bytes <= 0 {
			return fmt.Errorf("file %.200q from %.200q with %d bytes makes no sense", f.Name, f.From, f.Bytes)
		}
	}
	return nil
}
