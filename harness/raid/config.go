// Package raid makes a RAID 10 of six disks for the broker's data folder on a
// machine that has none: six files, each behind a loop device, in one btrfs
// file system whose data and metadata have the profile raid10. The paper's
// machines had six disks in RAID 10 (NetDB'11 §5). All six files lie on one
// disk here, so that it is such an array in its structure and in what it
// writes (everything twice, in stripes), and not in its speed.
package raid

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Disks is how many files the array is made of.
const Disks = 6

// The size of each file.
const (
	// DefaultDiskBytes makes room for half of Disks times that, 19 GB: the
	// paper's ten million messages in the greediest system's format.
	DefaultDiskBytes = 6 << 30
	// MinDiskBytes is what btrfs needs to keep stripes on six devices.
	MinDiskBytes = 256 << 20
)

// Config says where the array is, and of what size.
type Config struct {
	// Dir is the folder that holds the files and the mount point. It is made
	// and removed with the array. An absolute path without commas, which would
	// end a mount option.
	Dir string
	// DiskBytes is the size of each file; 0 is DefaultDiskBytes.
	DiskBytes int64
}

// For returns the array that belongs to a host whose data folder is dir: it
// lies beside it, on the same disk.
func For(dir string) Config { return Config{Dir: filepath.Clean(dir) + "-raid10"} }

// Data is the folder on the array: its mount point.
func (c Config) Data() string { return filepath.Join(c.Dir, "data") }

func (c Config) disk(i int) string {
	return filepath.Join(c.Dir, "disk-"+strconv.Itoa(i+1)+".img")
}

// mark is the file by which a folder is known to be ours, made as the first
// thing in it.
func (c Config) mark() string { return filepath.Join(c.Dir, ".made-by-kafkalab") }

func (c Config) diskBytes() int64 {
	if c.DiskBytes == 0 {
		return DefaultDiskBytes
	}
	return c.DiskBytes
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) == "/" || strings.ContainsAny(c.Dir, ",\n\x00") {
		return fmt.Errorf("raid: folder %q: an absolute path without commas is wanted", c.Dir)
	}
	if c.diskBytes() < MinDiskBytes {
		return fmt.Errorf("raid: disks of %d bytes: %d or more are wanted", c.DiskBytes, MinDiskBytes)
	}
	return nil
}

// ErrNoKernel says that this kernel cannot do it, whatever is installed.
var ErrNoKernel = errors.New("this kernel cannot make the RAID 10")

// wayOut is what is left to those whose kernel cannot do it.
const wayOut = "leave out --raid10 (the results then say on what disk they were measured), use a kernel with btrfs and loop devices " +
	"(CONFIG_BTRFS_FS, CONFIG_BLK_DEV_LOOP), or let dir in a testbed file lie on a RAID of your own"

// programs are what is called, each with its package.
var programs = []struct{ name, pack string }{
	{"mkfs.btrfs", "btrfs-progs"}, {"losetup", "mount"}, {"mount", "mount"}, {"umount", "mount"}, {"fallocate", "util-linux"},
}

// Rights says what this process lacks to make the array: root rights, or a
// program. Whether the kernel can do it is not looked at.
func Rights() error {
	if os.Geteuid() != 0 {
		return errors.New("loop devices and mounts need root rights: call it with sudo, such as \"sudo testbed up --raid10\"")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			return fmt.Errorf("the program %s is missing: install the package %s (\"make setup\")", p.name, p.pack)
		}
	}
	return nil
}

// Ready says what keeps this machine from making the array, as far as can be
// seen without trying: a module that "up" can load shows as missing.
func Ready() error {
	if err := Rights(); err != nil {
		return err
	}
	missing, err := lacking()
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the kernel has no %s loaded", strings.Join(missing, " and no "))
	}
	return err
}

// lacking names what the running kernel does not offer, so far as modules are
// loaded; each by the name of its module.
func lacking() ([]string, error) {
	text, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return nil, err
	}
	var out []string
	if !slices.Contains(strings.Fields(string(text)), "btrfs") {
		out = append(out, "btrfs")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		out = append(out, "loop")
	}
	return out, nil
}
