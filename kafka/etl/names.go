package etl

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Names in the output folder, with slashes, below it.
const (
	bookkeeping  = "_etl"
	plansFolder  = bookkeeping + "/plans"
	outputFolder = bookkeeping + "/output" // of what the tasks of plans make
	runsFolder   = bookkeeping + "/runs"
	lockFile     = bookkeeping + "/lock"
	planFile     = "plan.json"
	splitsFile   = "splits"
	manifestFile = "manifest.json"
	offsetsFile  = "offsets.json"
	filesFolder  = "files" // of a task
	localMark    = "-local"
)

const (
	rawSuffix  = ".gz"
	avroSuffix = ".avro"
	dateLayout = "2006/01/02"
)

func runFolder(n int64) string { return fmt.Sprintf("%s/%08d", runsFolder, n) }

// planOutput returns the folder of what the tasks of a plan make, until it is published.
func planOutput(plan string) string { return outputFolder + "/" + plan }

// newPlanID returns the name of a plan that is to become a run: the number, so that
// it can be told without reading anything which plans are out of date, and what
// makes it unique.
func newPlanID(run int64, now time.Time, local bool) string {
	var unique [4]byte
	_, _ = rand.Read(unique[:]) // never fails (see crypto/rand)
	id := fmt.Sprintf("%08d-%s-%s", run, now.UTC().Format("20060102T150405Z"), hex.EncodeToString(unique[:]))
	if local {
		id += localMark
	}
	return id
}

var planPattern = regexp.MustCompile(`^([0-9]{8,18})-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}(` + localMark + `)?$`)

// planNumber returns the number of the run that a plan is to become.
func planNumber(id string) (int64, error) {
	m := planPattern.FindStringSubmatch(id)
	if m == nil {
		return 0, fmt.Errorf("%.100q is not the name of a plan, such as 00000001-20261130T153000Z-a1b2c3d4", id)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err == nil && n < 1 {
		err = fmt.Errorf("plan %s: runs count from 1", id)
	}
	return n, err
}

// File is a file of the output: the messages of one split and one day.
type File struct {
	Path string // where it is
	Partition
	Date       time.Time // the day, UTC
	Start, End int64     // offsets of the split, end exclusive
	Avro       bool      // an Avro container file; else messages as they are, see [ReadFile]
	SchemaID   uint32    // of an Avro file
}

// name returns the name of the file below the output folder.
func (f File) name() string {
	name := fmt.Sprintf("%d-%d-%d-%d", f.Broker, f.Number, f.Start, f.End)
	if f.Avro {
		name += "-s" + strconv.FormatUint(uint64(f.SchemaID), 10) + avroSuffix
	} else {
		name += rawSuffix
	}
	return path.Join(f.Topic, f.Date.Format(dateLayout), name)
}

var filePattern = regexp.MustCompile(`^([0-9]+)-([0-9]+)-([0-9]+)-([0-9]+)(?:-s([0-9]+)\.avro|\.gz)$`)

// parseName reads what [File.name] has made, and nothing else: each file has one name.
func parseName(name string) (File, error) {
	wrong := fmt.Errorf("not a name such as topic/2026/11/29/0-1-0-1000.gz")
	topic, rest, found := strings.Cut(name, "/")
	if !found || len(rest) < len(dateLayout)+1 || rest[len(dateLayout)] != '/' {
		return File{}, wrong
	}
	f := File{Partition: Partition{Topic: topic}}
	var err error
	if f.Date, err = time.ParseInLocation(dateLayout, rest[:len(dateLayout)], time.UTC); err != nil {
		return File{}, wrong
	}
	m := filePattern.FindStringSubmatch(rest[len(dateLayout)+1:])
	if m == nil {
		return File{}, wrong
	}
	var n [4]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(m[i+1], 10, 64); err != nil || i < 2 && n[i] > math.MaxInt32 {
			return File{}, wrong
		}
	}
	f.Broker, f.Number, f.Start, f.End = int32(n[0]), int32(n[1]), n[2], n[3]
	if m[5] != "" {
		id, err := strconv.ParseUint(m[5], 10, 32)
		if err != nil {
			return File{}, wrong
		}
		f.Avro, f.SchemaID = true, uint32(id)
	}
	if f.End <= f.Start || f.name() != name {
		return File{}, wrong
	}
	return f, f.Partition.check()
}

// isLocal reports whether a plan is one of [Folder.Run].
func isLocal(plan string) bool { return strings.HasSuffix(plan, localMark) }
