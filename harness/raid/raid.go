package raid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kafkalab/harness/internal/command"
)

// downWait bounds the removal of an array: of the wait for those that still
// use it, mostly.
const downWait = 20 * time.Second

// Up makes the array, or makes it again where an interrupted call has left a
// part of it. An array that is whole stays as it is. Each command that changes
// something is printed to out. If it fails, what it made is removed. Where the
// kernel cannot do it the error is ErrNoKernel.
func Up(ctx context.Context, c Config, out io.Writer) error {
	s, err := ready(c)
	if err != nil {
		return err
	}
	if s.whole() {
		return c.sameSize()
	}
	if s.there {
		fmt.Fprintln(out, "# part of the RAID 10 is there, from a call that was interrupted: it is made again")
		if err := Down(ctx, c, out); err != nil {
			return err
		}
	}
	if err := kernel(ctx, out); err != nil {
		return err
	}
	if err := c.make(ctx, out); err != nil {
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downWait)
		defer cancel()
		return errors.Join(err, Down(dctx, c, out))
	}
	return nil
}

// ready looks whether the array can be made here.
func ready(c Config) (state, error) {
	s, err := inspect(c)
	if err != nil {
		return s, err
	}
	if s.there && !s.ours {
		return s, fmt.Errorf("the folder %s is there but was not made by testbed: remove it, or give the testbed file another dir", c.Dir)
	}
	return s, Rights()
}

// sameSize refuses an array of another size than was asked for.
func (c Config) sameSize() error {
	info, err := os.Stat(c.disk(0))
	if err != nil {
		return fmt.Errorf("raid: %w", err)
	}
	if c.DiskBytes != 0 && info.Size() != c.DiskBytes {
		return fmt.Errorf("the RAID 10 in %s has disks of %d bytes, not of %d: \"testbed down\" removes it", c.Dir, info.Size(), c.DiskBytes)
	}
	return nil
}

// kernel makes sure that the kernel offers what is needed, and loads modules
// where there are some.
func kernel(ctx context.Context, out io.Writer) error {
	missing, err := lacking()
	if err != nil || len(missing) == 0 {
		return err
	}
	var said []error
	for _, module := range missing {
		if err := command.Change(ctx, out, "modprobe", module); err != nil {
			said = append(said, err)
		}
	}
	if missing, err = lacking(); err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%w: it has no %s (%w): %s", ErrNoKernel, strings.Join(missing, " and no "), errors.Join(said...), wayOut)
}

func (c Config) make(ctx context.Context, out io.Writer) error {
	change := func(args ...string) error { return command.Change(ctx, out, args...) }
	if err := change("mkdir", "-p", c.Dir); err != nil {
		return err
	}
	if err := change("touch", c.mark()); err != nil {
		return err
	}
	devices, err := c.makeDisks(ctx, out)
	if err != nil {
		return err
	}
	// Discarding blocks would give back the space of the files.
	if err := change(append([]string{"mkfs.btrfs", "-q", "-f", "-K", "-d", "raid10", "-m", "raid10"}, devices...)...); err != nil {
		return err
	}
	if err := change("mkdir", c.Data()); err != nil {
		return err
	}
	err = change("mount", "-t", "btrfs", "-o", "noatime,nodiscard,device="+strings.Join(devices, ",device="), devices[0], c.Data())
	if err != nil {
		if strings.Contains(err.Error(), "unknown filesystem type") || strings.Contains(err.Error(), "ermission denied") {
			err = fmt.Errorf("%w: %w: %s", ErrNoKernel, err, wayOut)
		}
		return err
	}
	// The devices are in use, so this lets the kernel let go of each when the
	// file system is unmounted, whoever does that.
	return change(append([]string{"losetup", "--detach"}, devices...)...)
}

// makeDisks makes the files, all of their space taken at once so that a full
// disk shows here, and a loop device in front of each.
func (c Config) makeDisks(ctx context.Context, out io.Writer) (devices []string, err error) {
	for i := range Disks {
		if err := command.Change(ctx, out, "fallocate", "--length", strconv.FormatInt(c.diskBytes(), 10), c.disk(i)); err != nil {
			return nil, fmt.Errorf("%w (six such files are made: --disk-size asks for smaller ones, and dir in a testbed file for another disk)", err)
		}
	}
	for i := range Disks {
		device, err := loopDevice(ctx, out, c.disk(i))
		if err != nil {
			return nil, err
		}
		devices = append(devices, device)
	}
	return devices, nil
}

// loopDevice puts a loop device in front of a file: past the page cache, which
// would otherwise hold everything a second time and write it when it likes.
// Not every file system below lets it.
func loopDevice(ctx context.Context, out io.Writer, file string) (string, error) {
	text, err := command.ChangeAndTell(ctx, out, "losetup", "--find", "--show", "--direct-io=on", file)
	if err != nil && ctx.Err() == nil {
		text, err = command.ChangeAndTell(ctx, out, "losetup", "--find", "--show", file)
	}
	if err != nil {
		return "", err
	}
	device := strings.TrimSpace(string(text))
	if !strings.HasPrefix(device, "/dev/") {
		return "", fmt.Errorf("losetup %s: it named no device but %q", file, device)
	}
	return device, nil
}

// Down unmounts the array and removes its devices and files, whatever part of
// it is there. What is not there is no error; what is not ours is left alone.
// Who still uses it is waited for, for 20 seconds at most.
func Down(ctx context.Context, c Config, out io.Writer) error {
	s, err := inspect(c)
	if err != nil || !s.there || !s.ours {
		return err
	}
	if os.Geteuid() != 0 {
		return Rights()
	}
	ctx, cancel := context.WithTimeout(ctx, downWait)
	defer cancel()
	for s.kind != "" {
		if err := unmount(ctx, c, out); err != nil {
			return err
		}
		if s, err = inspect(c); err != nil {
			return err
		}
	}
	if len(s.loops) > 0 {
		if err := command.Change(ctx, out, append([]string{"losetup", "--detach"}, s.loops...)...); err != nil {
			return err
		}
	}
	return c.removeFiles(ctx, out)
}

// removeFiles removes what make has made and nothing else: the mark last, so
// that what is left of an interrupted call is still known as ours.
func (c Config) removeFiles(ctx context.Context, out io.Writer) error {
	files := []string{"rm", "-f"}
	for i := range Disks {
		files = append(files, c.disk(i))
	}
	if err := command.Change(ctx, out, files...); err != nil {
		return err
	}
	if _, err := os.Lstat(c.Data()); err == nil {
		if err := command.Change(ctx, out, "rmdir", c.Data()); err != nil {
			return err
		}
	}
	if err := command.Change(ctx, out, "rm", "-f", c.mark()); err != nil {
		return err
	}
	return command.Change(ctx, out, "rmdir", c.Dir)
}

// unmount tries until nobody uses the file system any more: processes that
// were killed a moment ago, or a guard that removes a run's folder.
func unmount(ctx context.Context, c Config, out io.Writer) error {
	fmt.Fprintln(out, command.Words([]string{"umount", c.Data()}))
	for {
		err := syscall.Unmount(c.Data(), 0)
		if err == nil || !errors.Is(err, syscall.EBUSY) {
			if err != nil {
				err = fmt.Errorf("umount %s: %w", c.Data(), err)
			}
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("umount %s: some program still uses it (\"fuser -vm %[1]s\" names it): %w", c.Data(), err)
		}
	}
}
