package schema

import (
	"fmt"
	"maps"
	"slices"
)

// state is what the records of the topic come to, up to some offset. Only apply
// changes it.
type state struct {
	sequence uint64 // of the last record that counts
	maxID    uint32
	bytes    int64 // of the texts, and what versions, subjects and spent ids cost
	byID     map[uint32]*stored
	byKey    map[schemaKey]*stored
	// spent are the ids whose schemas are gone for good. They may come back, but as
	// no other ones: a consumer that has seen an id keeps its schema for ever.
	spent    map[uint32]schemaKey
	subjects map[string]*subject
	level    Level
	mode     Mode
}

// stored is a schema. But for uses it does not change.
type stored struct {
	id   uint32
	text string
	key  schemaKey
	uses int // versions that have it, deleted ones too
}

type subject struct {
	versions []version // ascending
	level    Level     // "": that of all
	mode     Mode      // likewise
}

type version struct {
	number  int
	of      *stored
	deleted bool // not shown any more, and not compared with
}

// What a version, a subject and a spent id take in memory beside texts, about: so that
// many small ones are bounded, too.
const (
	versionCost = 64
	spentCost   = 64
)

func subjectCost(name string) int64 { return 128 + int64(len(name)) }

func newState() *state {
	return &state{
		byID: map[uint32]*stored{}, byKey: map[schemaKey]*stored{}, spent: map[uint32]schemaKey{}, subjects: map[string]*subject{},
		level: DefaultLevel, mode: ReadWrite,
	}
}

// apply makes the change of a record, if it counts. The error says that there can
// be no such record: whoever has written the topic was not one of us.
func (s *state) apply(r *record) (counts bool, err error) {
	if r.Format > recordFormat {
		return false, fmt.Errorf("record of format %d, of a newer version: this one knows %d", r.Format, recordFormat)
	}
	if r.Sequence != s.sequence+1 {
		return false, nil // another one was the first
	}
	switch r.Kind {
	case kindVersion:
		err = s.applyVersion(r)
	case kindDelete:
		err = s.applyDelete(r)
	case kindPurge:
		err = s.applyPurge(r)
	case kindConfig:
		s.of(r.Subject, func(sub *subject) { sub.level = r.Level }, func() { s.level = or(r.Level, DefaultLevel) })
	case kindMode:
		s.of(r.Subject, func(sub *subject) { sub.mode = r.Mode }, func() { s.mode = or(r.Mode, ReadWrite) })
	default:
		err = fmt.Errorf("unknown kind %.40q", r.Kind)
	}
	if err != nil {
		return false, fmt.Errorf("record %d: %w", r.Sequence, err)
	}
	s.sequence++
	return true, nil
}

func or[T ~string](v, otherwise T) T {
	if v == "" {
		return otherwise
	}
	return v
}

func (s *state) applyVersion(r *record) error {
	sub := s.subjects[r.Subject]
	if last := sub.last(); r.Subject == "" || r.Version <= last || r.ID < 1 || r.ID > MaxID {
		return fmt.Errorf("version %d of subject %.60q with id %d, behind version %d", r.Version, r.Subject, r.ID, last)
	}
	of := s.byID[r.ID]
	switch {
	case of == nil:
		_, key, err := normalize(r.Schema)
		if err != nil {
			return fmt.Errorf("schema of id %d: %w", r.ID, err)
		}
		if was, gone := s.spent[r.ID]; gone && was != key || s.byKey[key] != nil {
			return fmt.Errorf("id %d is given to a second schema, or a schema gets a second id", r.ID)
		}
		of = &stored{id: r.ID, text: r.Schema, key: key}
		s.byID[r.ID], s.byKey[key] = of, of
		if _, gone := s.spent[r.ID]; gone {
			delete(s.spent, r.ID)
			s.bytes -= spentCost
		}
		s.bytes += int64(len(of.text))
		s.maxID = max(s.maxID, r.ID)
	case of.text != r.Schema:
		return fmt.Errorf("id %d is given to a second schema", r.ID)
	}
	of.uses++
	s.bytes += versionCost
	s.of(r.Subject, func(sub *subject) {
		sub.versions = append(sub.versions, version{number: r.Version, of: of})
	}, nil)
	return nil
}

func (s *state) applyDelete(r *record) error {
	sub := s.subjects[r.Subject]
	if sub == nil {
		return fmt.Errorf("subject %.60q, which is not there, is deleted", r.Subject)
	}
	// In a copy, as others may read the one that there was.
	sub.versions = slices.Clone(sub.versions)
	for i := range sub.versions {
		if v := &sub.versions[i]; r.Version == 0 || r.Version == v.number {
			v.deleted = true
		}
	}
	return nil
}

func (s *state) applyPurge(r *record) error {
	sub := s.subjects[r.Subject]
	if sub == nil {
		return fmt.Errorf("subject %.60q, which is not there, is deleted for good", r.Subject)
	}
	var left []version
	for _, v := range sub.versions {
		if r.Version != 0 && r.Version != v.number {
			left = append(left, v)
			continue
		}
		s.bytes -= versionCost
		if v.of.uses--; v.of.uses == 0 {
			delete(s.byID, v.of.id)
			delete(s.byKey, v.of.key)
			s.spent[v.of.id] = v.of.key
			s.bytes += spentCost - int64(len(v.of.text))
		}
	}
	sub.versions = left
	if r.Version == 0 || len(left) == 0 && sub.level == "" && sub.mode == "" {
		s.forget(r.Subject) // its level and mode go with the whole of it alone
	}
	return nil
}

// of changes a subject, which is made if it is missing, or what is of all.
func (s *state) of(name string, one func(*subject), all func()) {
	if name == "" {
		all()
		return
	}
	sub := s.subjects[name]
	if sub == nil {
		sub = &subject{}
		s.subjects[name] = sub
		s.bytes += subjectCost(name)
	}
	one(sub)
	if len(sub.versions) == 0 && sub.level == "" && sub.mode == "" {
		s.forget(name) // nothing is left of it
	}
}

// forget removes a subject that is there.
func (s *state) forget(name string) {
	delete(s.subjects, name)
	s.bytes -= subjectCost(name)
}

// levelOf returns the level that holds for a subject.
func (s *state) levelOf(name string) Level {
	if sub := s.subjects[name]; sub != nil && sub.level != "" {
		return sub.level
	}
	return s.level
}

func (s *state) modeOf(name string) Mode {
	if sub := s.subjects[name]; sub != nil && sub.mode != "" {
		return sub.mode
	}
	return s.mode
}

// names returns the subjects that have versions, sorted.
func (s *state) names(deleted bool) []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.subjects)) {
		if len(s.subjects[name].shown(deleted)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// last returns the number of the last version, 0 if there is none.
func (sub *subject) last() int {
	if sub == nil || len(sub.versions) == 0 {
		return 0
	}
	return sub.versions[len(sub.versions)-1].number
}

// shown returns the versions, with those that are deleted or without.
func (sub *subject) shown(deleted bool) []version {
	if sub == nil {
		return nil
	}
	if deleted {
		return sub.versions
	}
	return slices.DeleteFunc(slices.Clone(sub.versions), func(v version) bool { return v.deleted })
}

// find returns the version with a number.
func (sub *subject) find(number int) (version, bool) {
	if sub != nil {
		for _, v := range sub.versions {
			if v.number == number {
				return v, true
			}
		}
	}
	return version{}, false
}

// holds returns the newest of some versions that has a schema.
func holds(versions []version, key schemaKey) (version, bool) {
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].of.key == key {
			return versions[i], true
		}
	}
	return version{}, false
}
