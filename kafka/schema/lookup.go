package schema

import (
	"context"
	"slices"
)

// Latest stands for the newest version of a subject that is shown.
const Latest = -1

// ByID returns the schema of an id, also one whose versions are hidden. The error is
// an [*Error], of [CodeSchemaNotFound] only if no registry has given the id.
func (s *Store) ByID(ctx context.Context, id uint32) (text string, err error) {
	err = s.read(ctx, func(st *state) error {
		of := st.byID[id]
		if of == nil {
			return schemaNotFound(id)
		}
		text = of.text
		return nil
	})
	return text, err
}

// maxID returns the largest id that is given.
func (s *Store) maxID() uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.maxID
}

// Usages returns the versions that have the schema of an id, by subject and version.
func (s *Store) Usages(ctx context.Context, id uint32, deleted bool) (found []SubjectVersion, err error) {
	err = s.read(ctx, func(st *state) error {
		if st.byID[id] == nil {
			return schemaNotFound(id)
		}
		found = []SubjectVersion{}
		for _, name := range st.names(deleted) {
			for _, v := range st.subjects[name].shown(deleted) {
				if v.of.id == id {
					found = append(found, SubjectVersion{name, v.number, id, v.of.text})
				}
			}
		}
		return nil
	})
	return found, err
}

// Subjects returns the names of the subjects that have versions, sorted.
func (s *Store) Subjects(deleted bool) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.names(deleted)
}

// Versions returns the versions of a subject.
func (s *Store) Versions(ctx context.Context, subject string, deleted bool) (found []SubjectVersion, err error) {
	err = s.read(ctx, func(st *state) error {
		versions := st.subjects[subject].shown(deleted)
		if len(versions) == 0 {
			return subjectNotFound(subject)
		}
		found = make([]SubjectVersion, len(versions))
		for i, v := range versions {
			found[i] = SubjectVersion{subject, v.number, v.of.id, v.of.text}
		}
		return nil
	})
	return found, err
}

// Version returns a version of a subject, or the newest ([Latest]).
func (s *Store) Version(ctx context.Context, subject string, number int, deleted bool) (found SubjectVersion, err error) {
	err = s.read(ctx, func(st *state) error {
		versions := st.subjects[subject].shown(deleted)
		if len(versions) == 0 {
			return subjectNotFound(subject)
		}
		i := len(versions) - 1
		if number != Latest {
			i = slices.IndexFunc(versions, func(v version) bool { return v.number == number })
		}
		if i < 0 {
			return versionNotFound(number)
		}
		v := versions[i]
		found = SubjectVersion{subject, v.number, v.of.id, v.of.text}
		return nil
	})
	return found, err
}

// Lookup returns the version of a subject that has a schema.
func (s *Store) Lookup(ctx context.Context, subject string, schema *Schema, deleted bool) (found SubjectVersion, err error) {
	err = s.read(ctx, func(st *state) error {
		versions := st.subjects[subject].shown(deleted)
		if len(versions) == 0 {
			return subjectNotFound(subject)
		}
		v, ok := holds(versions, schema.key)
		if !ok {
			return errorf(CodeSchemaNotFound, "Schema not found")
		}
		found = SubjectVersion{subject, v.number, v.of.id, v.of.text}
		return nil
	})
	return found, err
}

// Level returns the level of a subject, or that of all others (""). Without orAll a
// subject that has none of its own is an error.
func (s *Store) Level(ctx context.Context, subject string, orAll bool) (level Level, err error) {
	err = s.read(ctx, func(st *state) error {
		if sub := st.subjects[subject]; subject != "" && !orAll && (sub == nil || sub.level == "") {
			return errorf(CodeSubjectWithoutLevel, "Subject '%s' does not have subject-level compatibility configured", subject)
		}
		level = st.levelOf(subject)
		return nil
	})
	return level, err
}

// Mode returns the mode of a subject, as Level does.
func (s *Store) Mode(ctx context.Context, subject string, orAll bool) (mode Mode, err error) {
	err = s.read(ctx, func(st *state) error {
		if sub := st.subjects[subject]; subject != "" && !orAll && (sub == nil || sub.mode == "") {
			return errorf(CodeSubjectWithoutMode, "Subject '%s' does not have subject-level mode configured", subject)
		}
		mode = st.modeOf(subject)
		return nil
	})
	return mode, err
}

// Conflicts says what the level of a subject has against a schema beside one of its
// versions, [Latest] for the newest; beside those that the level compares with if number
// is 0. A subject that
// has no versions goes with every schema, but a version must be there to be named.
func (s *Store) Conflicts(ctx context.Context, subject string, number int, schema *Schema) ([]string, error) {
	var versions []version
	var level Level
	err := s.read(ctx, func(st *state) error {
		level = st.levelOf(subject)
		versions = st.subjects[subject].shown(false)
		if number <= 0 {
			return nil
		}
		i := slices.IndexFunc(versions, func(v version) bool { return v.number == number })
		switch {
		case len(versions) == 0:
			return subjectNotFound(subject)
		case i < 0:
			return versionNotFound(number)
		}
		versions = versions[i : i+1]
		return nil
	})
	if err != nil {
		return nil, err
	}
	if number == Latest && len(versions) > 1 {
		versions = versions[len(versions)-1:]
	}
	return level.conflicts(schema, versions)
}
