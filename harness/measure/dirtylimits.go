package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DirtyLimits are how much of what was written to files may wait in memory before
// writers are held back, and before writing to the disk begins. The kernel takes
// them as parts of the memory that is free or holds files; memory that a process
// holds is neither, so that they would shrink with what is held.
type DirtyLimits struct {
	folder string
	put    []sysctl // what puts back what was there
}

// sysctl is a file of a setting and what is to be in it.
type sysctl struct{ name, value string }

// KeepDirtyLimits fixes the limits at what they are now, in bytes, until Restore.
// Those that were set in bytes already stay as they are.
func KeepDirtyLimits() (*DirtyLimits, error) {
	return keepDirtyLimits("/proc/sys/vm", "/proc/vmstat", int64(os.Getpagesize()))
}

func keepDirtyLimits(folder, counters string, page int64) (*DirtyLimits, error) {
	text, err := os.ReadFile(counters)
	if err != nil {
		return nil, err
	}
	now := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			now[name], _ = strconv.ParseInt(value, 10, 64) // one that is no number is missed below
		}
	}
	d := &DirtyLimits{folder: folder}
	for _, limit := range []struct{ name, counter string }{
		{"dirty", "nr_dirty_threshold"},
		{"dirty_background", "nr_dirty_background_threshold"},
	} {
		bytes, err := os.ReadFile(filepath.Join(folder, limit.name+"_bytes"))
		if err == nil && strings.TrimSpace(string(bytes)) != "0" {
			continue
		}
		ratio, ratioErr := os.ReadFile(filepath.Join(folder, limit.name+"_ratio"))
		pages := now[limit.counter]
		if err = errors.Join(err, ratioErr); err == nil && pages <= 0 {
			err = fmt.Errorf("%s has no %s", counters, limit.counter)
		}
		if err == nil {
			// The ratio that is written puts the bytes out of force again.
			d.put = append(d.put, sysctl{limit.name + "_ratio", strings.TrimSpace(string(ratio))})
			err = d.write(sysctl{limit.name + "_bytes", strconv.FormatInt(pages*page, 10)})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("keeping the kernel's limit of what waits to be written (vm.%s_bytes): %w", limit.name, err), d.Restore())
		}
	}
	return d, nil
}

// Restore puts the limits back to what they were. It does so once.
func (d *DirtyLimits) Restore() error {
	var errs []error
	for _, s := range d.put {
		if err := d.write(s); err != nil {
			errs = append(errs, fmt.Errorf("putting back vm.%s (\"sysctl vm.%s=%s\" does so): %w", s.name, s.name, s.value, err))
		}
	}
	d.put = nil
	return errors.Join(errs...)
}

func (d *DirtyLimits) write(s sysctl) error {
	return os.WriteFile(filepath.Join(d.folder, s.name), []byte(s.value), 0o644)
}
