// Package scenarios holds the scenario files, one for each figure or question,
// so that the testbed's program carries them with it.
package scenarios

import "embed"

// Files are the scenario files, and the template of a testbed file.
//
//go:embed *.toml
var Files embed.FS
