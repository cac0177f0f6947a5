package host

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Limits are the cores and the memory that what is started on a host may use.
type Limits struct {
	// Cores as taskset writes them: "0-1,4"; empty: not held.
	Cores string
	// MemoryBytes of all processes together. The kernel counts the page cache of
	// the files that they read and write too. 0: not held.
	MemoryBytes int64
}

// PaperMemoryBytes is the memory of the paper's machines (NetDB'11 §5: "16GB of
// memory").
const PaperMemoryBytes = 16 << 30

// leastMemoryBytes is too little for any of the servers compared; less is a
// slip in a file.
const leastMemoryBytes = 64 << 20

// coresPattern is a list of numbers and ranges.
var coresPattern = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$`)

// Validate says what no host could be held to; whether this host has the cores
// is found when something is to be held to them.
func (l Limits) Validate() error {
	var errs []error
	if l.Cores != "" {
		if !coresPattern.MatchString(l.Cores) {
			errs = append(errs, fmt.Errorf("cores %q: a list such as 0-1 or 0,2,4-7 is wanted", l.Cores))
		}
		for first, last := range coreRanges(l.Cores) {
			if last < first {
				errs = append(errs, fmt.Errorf("cores %q: %d-%d runs backwards", l.Cores, first, last))
			}
		}
	}
	if l.MemoryBytes != 0 && l.MemoryBytes < leastMemoryBytes {
		errs = append(errs, fmt.Errorf("memory of %d bytes: at least 64MiB is wanted", l.MemoryBytes))
	}
	return errors.Join(errs...)
}

// coreRanges are the first and the last core of each part of a list.
func coreRanges(list string) iter.Seq2[int, int] {
	return func(yield func(first, last int) bool) {
		for part := range strings.SplitSeq(list, ",") {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			first, _ := strconv.Atoi(from)
			last, _ := strconv.Atoi(to)
			if !yield(first, last) {
				return
			}
		}
	}
}

// countCores counts the cores of a list, each once.
func countCores(list string) int {
	cores := map[int]bool{}
	for first, last := range coreRanges(list) {
		for core := first; core <= last; core++ {
			cores[core] = true
		}
	}
	return len(cores)
}

// CountCores counts the cores of a list as taskset writes them, each once; "" has
// none.
func CountCores(list string) int {
	if list == "" {
		return 0
	}
	return countCores(list)
}

// FirstCores are the first n cores of a list, in its order; all of them where
// there are no more.
func FirstCores(list string, n int) string {
	var first []string
	taken := map[int]bool{}
	for from, to := range coreRanges(list) {
		for core := from; core <= to && len(first) < n; core++ {
			if !taken[core] {
				taken[core] = true
				first = append(first, strconv.Itoa(core))
			}
		}
	}
	return strings.Join(first, ",")
}

// sizeUnits are those of ParseSize.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseSize reads a number of bytes with its unit: "12GiB", "1.5GB".
func ParseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if bytes := v * float64(u.bytes); err == nil && v > 0 && bytes < math.MaxInt64/2 {
			return int64(math.Round(bytes)), nil
		}
		break
	}
	return 0, fmt.Errorf("size %q: a number with a unit is wanted, such as 12GiB or 16GB", text)
}

// FormatSize writes a number of bytes in the largest binary unit without a
// rest, as ParseSize reads it, or else with three digits in the largest that
// fits and "about" in front.
func FormatSize(bytes int64) string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; bytes >= u.bytes && bytes%u.bytes == 0 {
			return fmt.Sprintf("%d%s", bytes/u.bytes, u.name)
		}
	}
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; bytes >= u.bytes {
			return fmt.Sprintf("about %.3g%s", float64(bytes)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}
