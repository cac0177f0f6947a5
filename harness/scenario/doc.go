// Package scenario reads what the testbed is told to do: scenario files, one
// for each figure or question, and testbed files, which say on which hosts.
// Both are TOML and are read strictly: a key that is not known is an error
// with its line and the nearest key that is, never passed over.
package scenario
