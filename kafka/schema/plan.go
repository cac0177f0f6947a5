package schema

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSubjectLength is the longest name of a subject in bytes (inclusive).
const MaxSubjectLength = 255

// CheckSubject says why a name cannot be that of a subject, or nil.
func CheckSubject(name string) error {
	switch {
	case name == "" || len(name) > MaxSubjectLength:
		return errorf(CodeInvalidSubject, "The specified subject of %d bytes is not a valid subject: 1 to %d are.", len(name), MaxSubjectLength)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return errorf(CodeInvalidSubject, "The specified subject %q is not a valid subject: it holds what is not text.", name)
	}
	return nil
}

// SubjectVersion is a version of a subject.
type SubjectVersion struct {
	Subject string
	Version int
	ID      uint32
	Schema  string // its text
}

// Registration is what is to be registered.
type Registration struct {
	Subject string
	Schema  *Schema
	// ID and Version are 0, and are found, or else those that it must get: with them
	// a registry is copied ([Import]).
	ID      uint32
	Version int
}

// facts are what a registration depends on, as they are after one record.
type facts struct {
	sequence uint64
	level    Level
	mode     Mode
	versions []version // of the subject, deleted ones too
	known    *stored   // the schema, if it has an id
	withID   *stored   // what has the id that is wanted
	spent    schemaKey // what had it
	isSpent  bool
	maxID    uint32
	bytes    int64
}

// factsOf returns the facts for a registration. They do not change with the state.
func (s *state) factsOf(reg Registration) facts {
	f := facts{
		sequence: s.sequence, level: s.levelOf(reg.Subject), mode: s.modeOf(reg.Subject),
		known: s.byKey[reg.Schema.key], withID: s.byID[reg.ID], maxID: s.maxID, bytes: s.bytes,
	}
	f.spent, f.isSpent = s.spent[reg.ID]
	if sub := s.subjects[reg.Subject]; sub != nil {
		f.versions = sub.versions[:len(sub.versions):len(sub.versions)]
	}
	return f
}

func (f *facts) shown() []version { return (&subject{versions: f.versions}).shown(false) }

// plan returns the version that a registration already is, or else the record that
// makes it.
func (f *facts) plan(reg Registration, maxBytes int64) (have SubjectVersion, r *record, err error) {
	if v, ok := holds(f.shown(), reg.Schema.key); ok && (reg.ID == 0 || reg.ID == v.of.id) && (reg.Version == 0 || reg.Version == v.number) {
		return SubjectVersion{reg.Subject, v.number, v.of.id, v.of.text}, nil, nil
	}
	r = &record{Sequence: f.sequence + 1, Kind: kindVersion, Subject: reg.Subject, Schema: reg.Schema.text}
	if r.ID, err = f.id(reg); err != nil {
		return have, nil, err
	}
	if r.Version, err = f.version(reg); err != nil {
		return have, nil, err
	}
	cost := versionCost + subjectCost(reg.Subject) // whether it is there already or not
	if f.known != nil {
		r.Schema = f.known.text // as it was first written
	} else {
		cost += int64(len(reg.Schema.text))
	}
	if f.bytes+cost > maxBytes {
		return have, nil, full(f.bytes, maxBytes)
	}
	if f.mode == Import {
		return have, r, nil // what is copied was compatible, or not, where it comes from
	}
	found, err := f.level.conflicts(reg.Schema, f.shown())
	if err != nil {
		return have, nil, err
	}
	if len(found) > 0 {
		return have, nil, errorf(CodeIncompatible, "Schema being registered is incompatible with an earlier schema for subject '%s' at level %s: %s",
			reg.Subject, f.level, shorten(strings.Join(found, "; ")))
	}
	return have, r, nil
}

// id returns the id that a registration gets.
func (f *facts) id(reg Registration) (uint32, error) {
	switch {
	case f.mode == ReadOnly:
		return 0, readOnly(reg.Subject)
	case f.mode == Import && reg.ID == 0:
		return 0, errorf(CodeNotPermitted, "Subject '%s' is in import mode: a registration must name its id", reg.Subject)
	case f.mode != Import && (reg.ID != 0 || reg.Version != 0 && reg.Version != f.last()+1):
		return 0, errorf(CodeNotPermitted, "Subject '%s' is not in import mode", reg.Subject)
	case reg.ID == 0 && f.known != nil:
		return f.known.id, nil
	case reg.ID == 0 && f.maxID == MaxID:
		return 0, errorf(CodeStore, "All ids up to %d are given", uint32(MaxID))
	case reg.ID == 0:
		return f.maxID + 1, nil
	case reg.ID > MaxID,
		f.known != nil && f.known.id != reg.ID,
		f.withID != nil && f.withID.key != reg.Schema.key,
		f.isSpent && f.spent != reg.Schema.key:
		return 0, errorf(CodeNotPermitted, "Overwrite new schema with id %d is not permitted.", reg.ID)
	}
	return reg.ID, nil
}

func (f *facts) last() int { return (&subject{versions: f.versions}).last() }

func (f *facts) version(reg Registration) (int, error) {
	last := f.last()
	switch {
	case last == math.MaxInt32:
		return 0, errorf(CodeNotPermitted, "Subject '%s' has all versions that it can have", reg.Subject)
	case reg.Version == 0:
		return last + 1, nil
	case reg.Version <= last || reg.Version > math.MaxInt32:
		return 0, errorf(CodeInvalidVersion, "The specified version '%d' is not a valid version id: those of subject '%s' go on behind %d", reg.Version, reg.Subject, last)
	}
	return reg.Version, nil
}

func full(bytes, maxBytes int64) error {
	return errorf(CodeNotPermitted, "The registry is full: it holds %d bytes, of at most %d", bytes, maxBytes)
}

func readOnly(subject string) error {
	return errorf(CodeNotPermitted, "Subject '%s' is in read-only mode", subject)
}

// planDelete returns the record that deletes a version of a subject, or all of them
// (0), and the numbers of those.
func (s *state) planDelete(name string, number int, forGood bool) (*record, []int, error) {
	sub := s.subjects[name]
	if len(sub.shown(true)) == 0 {
		return nil, nil, subjectNotFound(name)
	}
	if s.modeOf(name) == ReadOnly {
		return nil, nil, readOnly(name)
	}
	r := &record{Sequence: s.sequence + 1, Kind: kindDelete, Subject: name, Version: number}
	if forGood {
		r.Kind = kindPurge
	}
	if number != 0 {
		v, found := sub.find(number)
		switch {
		case !found:
			return nil, nil, versionNotFound(number)
		case v.deleted && !forGood:
			return nil, nil, errorf(CodeVersionSoftDeleted, "Subject '%s' Version %d was soft deleted. Set permanent=true to delete permanently", name, number)
		case !v.deleted && forGood:
			return nil, nil, errorf(CodeVersionNotDeleted, "Subject '%s' Version %d was not deleted first before being permanently deleted", name, number)
		}
		return r, []int{number}, nil
	}
	shown := sub.shown(false)
	switch {
	case len(shown) == 0 && !forGood:
		return nil, nil, errorf(CodeSubjectSoftDeleted, "Subject '%s' was soft deleted. Set permanent=true to delete permanently", name)
	case len(shown) > 0 && forGood:
		return nil, nil, errorf(CodeSubjectNotDeleted, "Subject '%s' was not deleted first before being permanently deleted", name)
	case forGood:
		shown = sub.versions
	}
	numbers := make([]int, len(shown))
	for i, v := range shown {
		numbers[i] = v.number
	}
	return r, numbers, nil
}
