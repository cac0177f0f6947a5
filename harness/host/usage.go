package host

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// usageFiles are the files below /proc/PID from which Usage is read.
var usageFiles = [3]string{"stat", "status", "io"}

// ticksPerSecond is the unit of processor time in /proc/PID/stat: the kernel
// fixes USER_HZ at 100 for programs on every architecture that we run on.
const ticksPerSecond = 100

// parseUsage reads Usage from the three files.
func parseUsage(stat, status, io []byte) (Usage, error) {
	var u Usage
	// The second field is the program's name in parentheses and may hold
	// anything; the fields are counted from behind it.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return u, fmt.Errorf("stat %q has no program name", stat)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("stat has %d fields after the name, 13 are wanted", len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	// A process that has ended but was not waited for has no VmRSS.
	resident, err3 := keyed(status, "VmRSS:", true)
	read, err4 := keyed(io, "read_bytes:", false)
	written, err5 := keyed(io, "write_bytes:", false)
	readCalls, err6 := keyed(io, "syscr:", false)
	writeCalls, err7 := keyed(io, "syscw:", false)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return u, err
	}
	return Usage{
		UserSeconds:   float64(user) / ticksPerSecond,
		SystemSeconds: float64(system) / ticksPerSecond,
		ResidentBytes: resident * 1024,
		ReadBytes:     read,
		WrittenBytes:  written,
		Syscalls:      readCalls + writeCalls,
	}, nil
}

// keyed finds the line that begins with key and returns its number.
func keyed(text []byte, key string, optional bool) (int64, error) {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			f := strings.Fields(rest)
			if len(f) == 0 {
				return 0, fmt.Errorf("%s has no value", key)
			}
			return strconv.ParseInt(f[0], 10, 64)
		}
	}
	if optional {
		return 0, nil
	}
	return 0, fmt.Errorf("there is no %s", key)
}
