package raid

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// state is what there is of an array.
type state struct {
	there bool // the folder
	ours  bool // made by us, or empty
	// kind is the file system that is mounted, "" for none.
	kind  string
	loops []string // devices in front of the files, such as /dev/loop3
	disks int      // files
}

// whole says whether nothing of the array is missing.
func (s state) whole() bool {
	return s.there && s.ours && s.kind == "btrfs" && s.disks == Disks && len(s.loops) == Disks
}

// Exists reports whether the array is there, whole and mounted.
func Exists(c Config) (bool, error) {
	s, err := inspect(c)
	return s.whole(), err
}

// Left reports whether anything of the array is there, such as what a call
// that was killed left.
func Left(c Config) (bool, error) {
	s, err := inspect(c)
	return s.there && s.ours, err
}

func inspect(c Config) (state, error) {
	var s state
	if err := c.Validate(); err != nil {
		return s, err
	}
	entries, err := os.ReadDir(c.Dir)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("raid: %w", err)
	}
	s.there = true
	_, err = os.Lstat(c.mark())
	s.ours = err == nil || len(entries) == 0
	for i := range Disks {
		if _, err := os.Lstat(c.disk(i)); err == nil {
			s.disks++
		}
	}
	// The kernel names both by their real paths.
	real, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return s, fmt.Errorf("raid: %w", err)
	}
	if s.kind, err = mounted(filepath.Join(real, "data")); err != nil {
		return s, err
	}
	s.loops, err = loops(real)
	return s, err
}

// mounted is the kind of the file system that is mounted last on a folder.
func mounted(point string) (kind string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("raid: %w", err)
	}
	// Mountinfo writes a blank as \040, a tab as \011, a backslash as \134.
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`).Replace(point)
	for line := range strings.Lines(string(text)) {
		left, right, cut := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if cut && len(l) > 4 && len(r) > 0 && l[4] == escaped {
			kind = r[0]
		}
	}
	return kind, nil
}

// loops lists the loop devices in front of files of a folder.
func loops(dir string) ([]string, error) {
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range backing {
		text, err := os.ReadFile(b)
		if err != nil {
			continue // it was let go of since it was listed
		}
		file := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)")
		if filepath.Dir(file) == dir {
			out = append(out, "/dev/"+strings.Split(b, "/")[3])
		}
	}
	sort.Strings(out)
	return slices.Compact(out), nil
}
