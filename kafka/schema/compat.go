package schema

import (
	"fmt"

	"github.com/twmb/avro"
)

// Level says what the versions of a subject must be able to read of each other.
type Level string

// The levels of compatibility. Those that are transitive compare a new version with
// all others of the subject, the others with the newest alone.
const (
	None               Level = "NONE"
	Backward           Level = "BACKWARD" // the new one reads what the old one wrote
	BackwardTransitive Level = "BACKWARD_TRANSITIVE"
	Forward            Level = "FORWARD" // the old one reads what the new one writes
	ForwardTransitive  Level = "FORWARD_TRANSITIVE"
	Full               Level = "FULL" // both
	FullTransitive     Level = "FULL_TRANSITIVE"
)

// DefaultLevel is the level of a registry to which nobody has set another.
const DefaultLevel = Backward

// ParseLevel reads the name of a level.
func ParseLevel(name string) (Level, error) {
	switch l := Level(name); l {
	case None, Backward, BackwardTransitive, Forward, ForwardTransitive, Full, FullTransitive:
		return l, nil
	}
	return "", errorf(CodeInvalidCompatibility, "Invalid compatibility level %.40q. Valid values are none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive, in capitals.", name)
}

func (l Level) backward() bool {
	return l == Backward || l == BackwardTransitive || l == Full || l == FullTransitive
}

func (l Level) forward() bool {
	return l == Forward || l == ForwardTransitive || l == Full || l == FullTransitive
}

func (l Level) transitive() bool {
	return l == BackwardTransitive || l == ForwardTransitive || l == FullTransitive
}

// numbered is a version of a subject to compare with.
type numbered struct {
	version int
	schema  *Schema
}

// maxConflicts bounds the conflicts that are told of one check.
const maxConflicts = 20

// conflicts says what a level has against a new schema beside older versions, which
// are in ascending order; none: they go together. The newest is looked at first.
func (l Level) conflicts(candidate *Schema, older []numbered) []string {
	if !l.transitive() && len(older) > 1 {
		older = older[len(older)-1:]
	}
	var found []string
	for i := len(older) - 1; i >= 0 && len(found) < maxConflicts; i-- {
		old := older[i]
		if l.backward() {
			if err := avro.CheckCompatibility(old.schema.avro, candidate.avro); err != nil {
				found = append(found, fmt.Sprintf("the new schema cannot read what version %d has written: %v", old.version, err))
			}
		}
		if l.forward() {
			if err := avro.CheckCompatibility(candidate.avro, old.schema.avro); err != nil {
				found = append(found, fmt.Sprintf("version %d cannot read what the new schema writes: %v", old.version, err))
			}
		}
	}
	return found
}
