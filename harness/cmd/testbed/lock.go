package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
)

// Two runs on the same hosts measure each other. So run, up and down hold a
// lock of the testbed as long as they last: a file that is locked with flock,
// on this machine, or on the broker host of two machines. The kernel lets go of
// it when its holder ends, however it ends.

// lockFolder is the same for every user and every way of being called.
const lockFolder = "/tmp"

// lockPath is the lock file of a testbed: one for its hosts, whatever else its
// file says.
func lockPath(tb scenario.Testbed) string {
	name := string(tb.Kind) + "-" + tb.BrokerHost.Addr
	switch tb.Kind {
	case host.Namespace:
		name = tb.Link.Client.Namespace + "-" + tb.Link.Broker.Namespace
	case host.Local:
		dir := tb.BrokerHost.Dir
		if dir == "" {
			dir = host.DefaultDir
		}
		name = string(tb.Kind) + "-" + strings.Trim(filepath.Clean(dir), "/")
	}
	name = strings.ReplaceAll(name, "/", "-")
	const longest = 200 // of a file's name, which may have 255 bytes
	return filepath.Join(lockFolder, "kafkalab-"+name[max(len(name)-longest, 0):]+".lock")
}

// lockHolder says who holds a lock, to whoever is refused.
func lockHolder() string {
	name, err := os.Hostname()
	if err != nil {
		name = "a machine without a name"
	}
	return fmt.Sprintf("process %d on %s: %s", os.Getpid(), name, commandLine())
}

// inUse is the error of who is refused.
func inUse(by string) error {
	return fmt.Errorf("this testbed is in use, and two at once would measure each other: wait for the end of %s", by)
}

// maxHolderBytes is as much of a holder's command as is kept.
const maxHolderBytes = 1000

// lockTries bounds the search for a file that is not just being removed.
const lockTries = 100

// lockFile locks the file path for holder, and makes it if need be. If another
// process has it, heldBy is what that wrote there, and release is nil.
func lockFile(path, holder string) (release func() error, heldBy string, err error) {
	for range lockTries {
		f, err := openLockFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			continue // made or removed by another in between
		}
		if err != nil {
			return nil, "", err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			by, err := io.ReadAll(io.LimitReader(f, maxHolderBytes))
			if len(by) == 0 {
				by = []byte("a process that has only just begun")
			}
			return nil, string(by), errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, "", errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
		if !stillThere(f, path) {
			// Its last holder has removed it after we had opened it.
			if err := f.Close(); err != nil {
				return nil, "", err
			}
			continue
		}
		_, err = f.WriteAt([]byte(holder[:min(len(holder), maxHolderBytes)]), 0)
		if err != nil {
			return nil, "", errors.Join(err, f.Close())
		}
		return func() error {
			// Another user may not remove it, and need not: without a holder it
			// keeps nobody away.
			err := f.Truncate(0)
			_ = os.Remove(path)
			return errors.Join(err, f.Close())
		}, "", nil
	}
	return nil, "", fmt.Errorf("%s: it is made and removed again all the time", path)
}

// openLockFile opens a file that is there without asking for it to be made:
// the kernel refuses that for the files of others in a folder of all.
func openLockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	// Another user must be able to take it too, whatever the mask of this one.
	if err := f.Chmod(0o666); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func stillThere(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// holdHere locks a testbed whose broker host is this machine, and does nothing
// for any other.
func holdHere(tb scenario.Testbed) (release func() error, err error) {
	if tb.Kind == host.SSH {
		return func() error { return nil }, nil
	}
	release, by, err := lockFile(lockPath(tb), lockHolder())
	if err == nil && release == nil {
		err = inUse(by)
	}
	return release, err
}

// lockGrace is how long the holder on another machine has to end after its
// input has: it has nothing to do but to let go.
const lockGrace = time.Second

// holdThere locks a testbed whose broker host is another machine, and does
// nothing for any other. A process there holds the lock, which ends with the
// connection to this one.
func holdThere(ctx context.Context, tb scenario.Testbed, broker host.Host) (release func() error, err error) {
	if tb.Kind != host.SSH {
		return func() error { return nil }, nil
	}
	program, err := broker.Binary(ctx, "testbed")
	if err != nil {
		return nil, err
	}
	in, keep := io.Pipe()
	answer := host.NewAnswers(1, 16*maxHolderBytes)
	said := host.NewTail(maxHolderBytes)
	p, err := broker.Start(ctx, host.Command{
		Name: "lock", Args: []string{program, "lock", "--file", lockPath(tb), "--holder", lockHolder()},
		In: in, Out: answer, Err: said,
	})
	if err != nil {
		return nil, errors.Join(err, keep.Close())
	}
	release = func() error {
		err := keep.Close()
		return errors.Join(err, p.Stop(context.WithoutCancel(ctx), lockGrace))
	}
	var got lockAnswer
	if err := answer.Next(ctx, p, &got); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the testbed: %w: %s", err, said), release())
	}
	if got.HeldBy != "" {
		return nil, errors.Join(inUse(got.HeldBy), release())
	}
	return release, nil
}

// lockAnswer is what "testbed lock" says once it knows.
type lockAnswer struct {
	HeldBy string `json:"held_by"` // the other that has it; "": we have it
}

// lockCommand is what holds the lock on a broker host of its own.
func lockCommand() command {
	return command{name: "lock", summary: "hold a lock until the end of standard input", hidden: true, run: runLock}
}

func runLock(_ context.Context, args []string, std stdio) (err error) {
	flags := pflag.NewFlagSet("lock", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	file := flags.String("file", "", "the `file` to lock")
	holder := flags.String("holder", "", "what to say of the holder to others")
	flags.Usage = func() {
		fmt.Fprint(std.Err, `Usage: testbed lock --file FILE [--holder TEXT]

Locks a file and holds it until the end of standard input. A line of JSON says
whether it did: held_by is empty, or tells who has it, and then this ends.
"testbed run" starts it on the broker host.

`, flags.FlagUsagesWrapped(helpWidth), `
Example:
  testbed lock --file /tmp/kafkalab-test.lock
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *file == "" {
		return usagef("--file is wanted")
	}
	release, by, err := lockFile(*file, *holder)
	if err != nil {
		return err
	}
	if release != nil {
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := json.NewEncoder(std.Out).Encode(lockAnswer{by}); err != nil || release == nil {
		return err
	}
	_, err = io.Copy(io.Discard, std.In)
	return err
}
