package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"
)

// sectorBytes is the unit of /proc/diskstats, whatever the disk's own.
const sectorBytes = 512

// diskCounter adds up what some disks have read and written.
type diskCounter struct {
	fs    blockdevice.FS
	names []string // of the disks, as in /proc/diskstats
}

// newDiskCounter returns a counter of the disk or partition that holds path,
// or of all disks if the file system of path says none.
func newDiskCounter(path string) (*diskCounter, error) {
	bfs, err := blockdevice.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return nil, fmt.Errorf("disk of %s: %w", path, err)
	}
	d := &diskCounter{fs: bfs}
	stats, err := bfs.ProcDiskstats()
	if err != nil {
		return nil, err
	}
	for _, s := range stats {
		if s.MajorNumber == unix.Major(stat.Dev) && s.MinorNumber == unix.Minor(stat.Dev) {
			d.names = []string{s.DeviceName}
			return d, nil
		}
	}
	return d, d.useAll()
}

// useAll takes all disks that are no image of something else: neither memory,
// nor a file, nor put together from other disks, which are counted themselves.
func (d *diskCounter) useAll() error {
	all, err := d.fs.SysBlockDevices()
	if err != nil {
		return err
	}
	for _, name := range all {
		if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") {
			continue
		}
		// A device without the folder "slaves" has none.
		if parts, err := d.fs.SysBlockDeviceUnderlyingDevices(name); err == nil && len(parts.DeviceNames) > 0 {
			continue
		}
		d.names = append(d.names, name)
	}
	return nil
}

// read returns the bytes read and written since the machine started.
func (d *diskCounter) read() (read, written int64, err error) {
	stats, err := d.fs.ProcDiskstats()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range stats {
		if slices.Contains(d.names, s.DeviceName) {
			read += int64(s.ReadSectors) * sectorBytes
			written += int64(s.WriteSectors) * sectorBytes
		}
	}
	return read, written, nil
}
