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

// maxConflicts bounds the conflicts that are told of one check.
const maxConflicts = 20

// compared returns those of some versions, which are in ascending order, that a level
// compares a new one with.
func (l Level) compared(versions []version) []version {
	switch {
	case l == None:
		return nil
	case !l.transitive() && len(versions) > 1:
		return versions[len(versions)-1:]
	}
	return versions
}

// conflicts says what a level has against a new schema beside older versions, in
// ascending order; nothing: they go together. The newest is looked at first, and one is
// parsed at a time, as there may be many.
func (l Level) conflicts(candidate *Schema, older []version) ([]string, error) {
	older = l.compared(older)
	var found []string
	for i := len(older) - 1; i >= 0 && len(found) < maxConflicts; i-- {
		v := older[i]
		old, err := Parse(v.of.text)
		if err != nil {
			return nil, errorf(CodeStore, "Version %d, of id %d, is no schema any more: %v", v.number, v.of.id, err)
		}
		if l.backward() {
			if err := avro.CheckCompatibility(old.avro, candidate.avro); err != nil {
				found = append(found, fmt.Sprintf("the new schema cannot read what version %d has written: %s", v.number, shorten(err.Error())))
			}
		}
		if l.forward() {
			if err := avro.CheckCompatibility(candidate.avro, old.avro); err != nil {
				found = append(found, fmt.Sprintf("version %d cannot read what the new schema writes: %s", v.number, shorten(err.Error())))
			}
		}
	}
	return found, nil
}
