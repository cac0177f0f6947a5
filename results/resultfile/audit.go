package resultfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// AuditWindow is what the audit of a pipeline said of one tier for the messages
// that were made in one window of time (NetDB'11 §4), all producers together.
type AuditWindow struct {
	Tier    string  // one of [Tiers]
	Start   float64 // of the window, in seconds since the attempt's clock began; windows lie on a grid of their own, so the first may begin before that
	Seconds float64 // its length
	Made    int64   // by the monitoring events of the producers
	Counted int64   // in the tier, each once
	Missing int64
	Doubled int64
	// Unreported were counted in the tier, but no event says that they were made;
	// Open were made in a window of which more may come.
	Unreported int64
	Open       int64
}

var auditColumns = []string{"tier", "start_seconds", "seconds", "made", "counted", "missing", "doubled", "unreported", "open"}

// maxAuditWindows bounds what is read, far above what a run of a day has.
const maxAuditWindows = 1_000_000

// WriteAudit writes windows as CSV.
func WriteAudit(w io.Writer, windows []AuditWindow) error {
	c := newCSVWriter(w, auditColumns)
	for _, a := range windows {
		c.row(a.Tier, decimal(a.Start), decimal(a.Seconds), whole(a.Made), whole(a.Counted), whole(a.Missing), whole(a.Doubled), whole(a.Unreported), whole(a.Open))
	}
	return c.end()
}

// ReadAudit reads what WriteAudit wrote. It is strict: a tier that is none, a
// window without a length, or a number below 0 is an error that names the line.
func ReadAudit(r io.Reader) ([]AuditWindow, error) {
	c, err := newCSVReader(r, auditColumns)
	if err != nil {
		return nil, err
	}
	windows := []AuditWindow{}
	for c.next() {
		a := AuditWindow{
			Tier: c.fields[0], Start: c.decimal(1), Seconds: c.decimal(2), Made: c.whole(3), Counted: c.whole(4),
			Missing: c.whole(5), Doubled: c.whole(6), Unreported: c.whole(7), Open: c.whole(8),
		}
		if c.err == nil {
			c.fail(checkAuditWindow(a))
		}
		if c.err == nil && len(windows) == maxAuditWindows {
			c.fail(fmt.Errorf("more than %d windows", maxAuditWindows))
		}
		windows = append(windows, a)
	}
	if c.err != nil {
		return nil, c.err
	}
	return windows, nil
}

func checkAuditWindow(a AuditWindow) error {
	switch {
	case !slices.Contains(Tiers(), a.Tier):
		return fmt.Errorf("%w: tier %q: one of %v is wanted", errBroken, a.Tier, Tiers())
	case math.IsNaN(a.Start) || math.IsInf(a.Start, 0) || !(a.Seconds > 0) || math.IsInf(a.Seconds, 1):
		return fmt.Errorf("%w: a window from %v of %v seconds", errBroken, a.Start, a.Seconds)
	case min(a.Made, a.Counted, a.Missing, a.Doubled, a.Unreported, a.Open) < 0:
		return fmt.Errorf("%w: a count below 0", errBroken)
	}
	return nil
}

// PutAudit writes what the audit said of an attempt, before the attempt itself
// is put. What is there already is never written over.
func (w *Writer) PutAudit(attemptID string, windows []AuditWindow) error {
	if err := CheckName(attemptID); err != nil {
		return err
	}
	path := auditPath(w.dir, attemptID)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: what the audit said of attempt %q is there already", path, attemptID), err)
	}
	var b bytes.Buffer
	if err := WriteAudit(&b, windows); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// What could not be read back is not written.
	if _, err := ReadAudit(bytes.NewReader(b.Bytes())); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return ReplaceFile(path, b.Bytes())
}

// Audit returns what the audit said of an attempt, nil if it was not audited.
// The caller must not change it.
func (r *Result) Audit(attemptID string) []AuditWindow { return r.audits[attemptID] }

func auditPath(dir, id string) string { return filepath.Join(dir, "audit", id+".csv") }
