package disktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait for something that should come soon.
const patience = 30 * time.Second

// The ioctl that shuts an ext4 file system down, and how: without writing what
// is in memory of its journal. Neither is in a header for programs.
const (
	ext4Shutdown    = 2<<30 | 4<<16 | 'X'<<8 | 125 // _IOR('X', 125, __u32)
	goingNoLogFlush = 2                            // EXT4_GOING_FLAGS_NOLOGFLUSH
)

// disk is an ext4 file system on a file.
type disk struct {
	t     *testing.T
	image string // the file
	dir   string // where it is mounted
	root  *os.File
}

// newDisk makes a file system of so many bytes and mounts it until the end of
// the test.
func newDisk(t *testing.T, size int64) *disk {
	t.Helper()
	needDisks(t)
	// The kernel names the file behind a loop device by its true path.
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{t: t, image: filepath.Join(base, "kafkalab-disk.ext4"), dir: filepath.Join(base, "disk")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.remove)
	d.format()
	return d
}

// format makes the file system anew, empty, and mounts it.
func (d *disk) format() {
	d.t.Helper()
	d.unmount()
	// All of it is for us (-m 0), and nothing is written later, in the background.
	d.run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", d.image)
	d.mount()
}

// mount mounts the file system. After a loss of power this replays its journal.
func (d *disk) mount() {
	d.t.Helper()
	d.run("mount", "-t", "ext4", "-o", "loop,noatime,noinit_itable", d.image, d.dir)
	root, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	d.root = root
}

func (d *disk) run(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %s: %v\n%s(these tests need root, loop devices (/dev/loop*, /dev/loop-control) and ext4 in the kernel)",
			name, strings.Join(args, " "), err, out)
	}
}

// cutPower makes the file system forget what it has not written, and refuse
// everything from now on.
func (d *disk) cutPower() {
	d.t.Helper()
	if err := unix.IoctlSetPointerInt(int(d.root.Fd()), ext4Shutdown, goingNoLogFlush); err != nil {
		d.t.Fatalf("shut down the file system: EXT4_IOC_SHUTDOWN: %v", err)
	}
}

// restorePower mounts the file system after cutPower. No process may use it.
func (d *disk) restorePower() {
	d.t.Helper()
	d.unmount()
	d.mount()
}

// unmount ends the mount, if there is one, and waits until its loop device is
// free: another one for the same file would not see what this one still holds.
func (d *disk) unmount() {
	d.t.Helper()
	if d.root == nil {
		return
	}
	d.root.Close()
	d.root = nil
	eventually(d.t, "the file system is unmounted", func() bool {
		err := unix.Unmount(d.dir, 0)
		if err != nil && err != unix.EBUSY {
			d.t.Fatalf("unmount %s: %v", d.dir, err)
		}
		return err == nil
	})
	eventually(d.t, "its loop device is free", func() bool { return len(loopsOf(d.image)) == 0 })
}

// remove unmounts the file system at the end of the test, or detaches it at
// least, so that the temporary folder can be removed.
func (d *disk) remove() {
	if d.root == nil {
		return
	}
	d.root.Close()
	d.root = nil
	if err := unix.Unmount(d.dir, 0); err != nil {
		d.t.Errorf("unmount %s: %v: something still uses it", d.dir, errors.Join(err, unix.Unmount(d.dir, unix.MNT_DETACH)))
	}
}

// loopsOf returns the loop devices that a file is behind.
func loopsOf(image string) []string {
	names, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	var loops []string
	for _, name := range names {
		// One that is being freed has no such file any more.
		if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == image {
			loops = append(loops, strings.Split(name, "/")[3])
		}
	}
	return loops
}

// needDisks skips a test that needs a file system of its own where there can be
// none. In CI it fails.
func needDisks(t *testing.T) {
	t.Helper()
	switch err := disksMissing(); {
	case err == nil:
	case os.Getenv("CI") == "true", !errors.Is(err, errNotRoot):
		t.Fatalf("no file system can be made for this test: %v", err)
	default:
		t.Skip(err)
	}
}

var errNotRoot = errors.New("mounting a file system needs root")

// disksMissing says what is missing for mounting a file system, or nil.
var disksMissing = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	if namespaceErr != nil {
		return fmt.Errorf("no mount namespace: %w: the right CAP_SYS_ADMIN is missing", namespaceErr)
	}
	for _, program := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: call \"make setup\", or install e2fsprogs and mount (util-linux)", err)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("no loop devices: %w: load the kernel's module loop, or give the container its loop devices", err)
	}
	return nil
})

// used returns how many bytes of the file system are taken.
func (d *disk) used() int64 {
	d.t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(d.dir, &s); err != nil {
		d.t.Fatal(err)
	}
	return int64(s.Blocks-s.Bfree) * int64(s.Bsize)
}

// writeBack writes pieces of files to the disk, as the kernel does at times of
// its own and in no order, until ctx ends. So a loss of power leaves files with
// holes and torn ends. files is a pattern of names.
func (d *disk) writeBack(ctx context.Context, rng *rand.Rand, files string) {
	for ctx.Err() == nil {
		// What goes wrong here does so because the power is gone, or the file.
		if names, _ := filepath.Glob(files); len(names) > 0 {
			writePiece(names[rng.IntN(len(names))], rng)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Millisecond))))
	}
}

func writePiece(name string, rng *rand.Rand) {
	file, err := os.Open(name)
	if err != nil {
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	const page, most = 4096, 16
	pages := (info.Size() + page - 1) / page
	first := max(pages-most, 0)
	first += rng.Int64N(pages - first)
	_ = unix.SyncFileRange(int(file.Fd()), first*page, page*(1+rng.Int64N(most/4)),
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}
