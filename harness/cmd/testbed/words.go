package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counted writes so many things of a kind.
func counted(n int64, kind string) string {
	if n == 1 {
		return "1 " + kind
	}
	return thousands(n) + " " + kind + "s"
}

// minutes writes a duration as people say it.
func minutes(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return counted(int64(d.Seconds()+0.5), "second")
	case d < 90*time.Minute:
		return fmt.Sprintf("%d minutes", int(d.Minutes()+0.5))
	}
	return fmt.Sprintf("%.1f hours", d.Hours())
}

// calledAs is the path by which this program was called, for commands that a
// user is to type.
func calledAs() string { return os.Args[0] }

// thousands writes a number as the tables do.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// commandLine is how the testbed was called, for the result.
func commandLine() string {
	return strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
}
