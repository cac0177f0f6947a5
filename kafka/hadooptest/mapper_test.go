//go:build hadoop

package hadooptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A mapper with faults is this test program: Hadoop starts it in place of "kafka etl
// map", it starts that, and does to it what the plan says for the attempt. The plan is
// "split.attempt=fault,...", such as "0.0=killed-after"; splits and attempts are
// numbered from 0.
const (
	planVariable  = "KAFKALAB_TEST_MAPPER_FAULTS"
	kafkaVariable = "KAFKALAB_TEST_KAFKA" // the path of the real mapper
	marksVariable = "KAFKALAB_TEST_MARKS" // the folder of the marks
)

// The faults.
const (
	killedBefore = "killed-before" // with -9, before it has done anything
	killedAmid   = "killed-amid"   // with -9, when its first file is begun
	killedAfter  = "killed-after"  // with -9, when all is written and told to Hadoop
	failedAfter  = "failed-after"  // exit status 1, when all is written
	// The attempt has written all of its output and does not end: until Hadoop kills
	// it, because another attempt has won;
	late = "late"
	// or until another attempt has written all of its output as well, so that this one
	// wins with the other's output being there, whichever of the two began first.
	slow = "slow"
)

// noFaults is a plan for a mapper that only leaves marks.
const noFaults = "none"

// lateLimit is how long an attempt waits for another one at most: less than Hadoop
// waits for a sign of life.
const lateLimit = 5 * time.Minute

// attempt is what Hadoop has told this program about itself.
type attempt struct {
	split, number string
	marks         string // folder
}

// mark leaves word for the test, and for other attempts, that something has
// happened. It is a file, named split.attempt.what.
func (a attempt) mark(what string) error {
	return os.WriteFile(filepath.Join(a.marks, a.split+"."+a.number+"."+what), nil, 0o644)
}

// othersWritten says whether another attempt of this split has written its output.
func (a attempt) othersWritten() (bool, error) {
	found, err := filepath.Glob(filepath.Join(a.marks, a.split+".*.written"))
	for _, f := range found {
		if filepath.Base(f) != a.split+"."+a.number+".written" {
			return true, err
		}
	}
	return false, err
}

// runMapper is the mapper with faults. It returns its exit status, if it lives to do
// so.
func runMapper() int {
	id := os.Getenv("mapreduce_task_attempt_id")
	a := attempt{
		split:  os.Getenv("mapreduce_task_partition"),
		number: id[strings.LastIndexByte(id, '_')+1:],
		marks:  os.Getenv(marksVariable),
	}
	fault := ""
	for entry := range strings.SplitSeq(os.Getenv(planVariable), ",") {
		if f, ok := strings.CutPrefix(entry, a.split+"."+a.number+"="); ok {
			fault = f
		}
	}
	if err := a.run(fault); err != nil {
		fmt.Fprintf(os.Stderr, "mapper with fault %q, attempt %s: %v\n", fault, id, err)
		return 1
	}
	return 0
}

func (a attempt) run(fault string) error {
	if fault == killedBefore {
		return a.die(fault)
	}
	kafka := exec.Command(os.Getenv(kafkaVariable), "etl", "map")
	kafka.Stdin, kafka.Stdout, kafka.Stderr = os.Stdin, os.Stdout, os.Stderr
	if fault == killedAmid {
		kafka.Env = append(os.Environ(), amidVariable+"="+filepath.Join(a.marks, a.split+"."+a.number+".begun"))
	}
	if err := kafka.Start(); err != nil {
		return err
	}
	if fault == killedAmid {
		if err := a.killWhenBegun(kafka); err != nil {
			return err
		}
		return a.die(fault)
	}
	if err := kafka.Wait(); err != nil {
		return fmt.Errorf("kafka etl map: %w", err)
	}
	if fault == late { // it may be killed as soon as others see that it has written
		if err := a.mark(fault); err != nil {
			return err
		}
	}
	if err := a.mark("written"); err != nil {
		return err
	}
	switch fault {
	case killedAfter:
		return a.die(fault)
	case failedAfter:
		return errors.Join(errors.New("as planned"), a.mark(fault))
	case late:
		time.Sleep(lateLimit)
		return errors.New("no other attempt has won")
	case slow:
		return a.awaitOther()
	}
	return nil
}

// die ends this process as it would end if its machine ran out of memory.
func (a attempt) die(fault string) error {
	if err := a.mark(fault); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {} // the signal is on its way
}

// killWhenBegun kills the mapper when the first of its files is begun, but not
// whole: one in a folder of this machine when there is something in it, one in HDFS when
// the stand-in for its command line has got half of it there.
func (a attempt) killWhenBegun(kafka *exec.Cmd) error {
	begun := filepath.Join(a.marks, a.split+"."+a.number+".begun")
	folder, local := strings.CutPrefix(os.Getenv("mapreduce_task_output_dir"), "file:")
	for end := time.Now().Add(lateLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		is := exists(begun)
		if local {
			is = holdsBytes(folder)
		}
		if is {
			return kill(kafka)
		}
	}
	return errors.Join(errors.New("it has begun no file"), kill(kafka))
}

// awaitOther waits until another attempt has written its output.
func (a attempt) awaitOther() error {
	for end := time.Now().Add(lateLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok, err := a.othersWritten(); ok || err != nil {
			return errors.Join(err, a.mark(slow))
		}
	}
	return errors.New("no other attempt has written its output")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// holdsBytes says whether a file below a folder, which need not be there, has bytes.
func holdsBytes(folder string) bool {
	found := false
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it comes or goes
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// kill kills a program and waits for its end. It may have ended just before.
func kill(cmd *exec.Cmd) error {
	err := cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	waited := cmd.Wait()
	if ended := (*exec.ExitError)(nil); errors.As(waited, &ended) {
		waited = nil
	}
	return errors.Join(err, waited)
}
