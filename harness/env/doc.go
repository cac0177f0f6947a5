// Package env says what a host is and whether it is fit to measure on. A
// result without a description of the machines says nothing (NetDB'11 §5 names
// processors, memory, disks and network), and a run that fails after ten
// minutes for want of a package is a run that a check would have saved.
//
// A host is asked everything with one shell script, in one call, which over
// ssh matters; what came back is taken apart by pure functions.
package env
