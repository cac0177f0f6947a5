package schema

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// defaultListed is how many versions one list holds unless fewer are asked for.
const defaultListed = 1000

// listed is a version in an answer.
type listed struct {
	Subject string `json:"subject"`
	Version int    `json:"version"`
	ID      uint32 `json:"id"`
	Schema  string `json:"schema"`
}

func list(v SubjectVersion) listed { return listed(v) }

// flag says whether a parameter of the query is set.
func (r *request) flag(name string) bool { return r.URL.Query().Get(name) == "true" }

func (r *request) subject() string { return r.PathValue("subject") }

// id reads the id of the path.
func (r *request) id() (uint32, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	if err != nil || id > MaxID {
		return 0, errorf(http.StatusNotFound, "HTTP 404 Not Found: %.20q is no id", r.PathValue("id"))
	}
	return uint32(id), nil
}

// number reads the version of the path; a path without one is 0.
func (r *request) number() (int, error) {
	v := r.PathValue("version")
	switch v {
	case "":
		return 0, nil
	case "latest", "-1":
		return Latest, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 1 {
		return 0, errorf(CodeInvalidVersion, "The specified version '%.20s' is not a valid version id. Allowed values are between [1, 2^31-1] and the string \"latest\"", v)
	}
	return int(n), nil
}

func (r *request) schemas() (any, error) {
	q := r.URL.Query()
	from, err := strconv.Atoi(or(q.Get("offset"), "0"))
	if err != nil || from < 0 {
		return nil, errorf(http.StatusBadRequest, "offset %.20q: 0 or more is wanted", q.Get("offset"))
	}
	limit, err := strconv.Atoi(or(q.Get("limit"), "-1"))
	if err != nil {
		return nil, errorf(http.StatusBadRequest, "limit %.20q: a number is wanted", q.Get("limit"))
	}
	if limit < 0 || limit > defaultListed {
		limit = defaultListed
	}
	all := []listed{}
	err = r.store.look(func(st *state) error {
		for _, name := range st.names(r.flag("deleted")) {
			if !strings.HasPrefix(name, q.Get("subjectPrefix")) {
				continue
			}
			versions := st.subjects[name].shown(r.flag("deleted"))
			if r.flag("latestOnly") {
				versions = versions[len(versions)-1:]
			}
			for _, v := range versions {
				if from--; from >= 0 {
					continue
				}
				if len(all) == limit {
					return nil
				}
				all = append(all, listed{name, v.number, v.of.id, v.of.text})
			}
		}
		return nil
	})
	return all, err
}

func (r *request) byID() (any, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	t, err := r.store.ByID(r.Context(), id)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Schema string  `json:"schema"`
		MaxID  *uint32 `json:"maxId,omitempty"`
	}{Schema: t}
	if r.flag("fetchMaxId") {
		answer.MaxID = new(r.store.maxID())
	}
	return answer, nil
}

func (r *request) textByID() (any, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	t, err := r.store.ByID(r.Context(), id)
	return text(t), err
}

// usages returns the versions with the id of the path.
func (r *request) usages() ([]SubjectVersion, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	return r.store.Usages(r.Context(), id, r.flag("deleted"))
}

func (r *request) subjectsByID() (any, error) {
	found, err := r.usages()
	names := []string{}
	for _, v := range found { // by subject
		if len(names) == 0 || names[len(names)-1] != v.Subject {
			names = append(names, v.Subject)
		}
	}
	return names, err
}

func (r *request) versionsByID() (any, error) {
	type subjectVersion struct {
		Subject string `json:"subject"`
		Version int    `json:"version"`
	}
	found, err := r.usages()
	versions := []subjectVersion{}
	for _, v := range found {
		versions = append(versions, subjectVersion{v.Subject, v.Version})
	}
	return versions, err
}

func (r *request) subjects() (any, error) {
	names := []string{}
	for _, name := range r.store.Subjects(r.flag("deleted")) {
		if strings.HasPrefix(name, r.URL.Query().Get("subjectPrefix")) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (r *request) lookup() (any, error) {
	_, s, err := r.schema()
	if err != nil {
		return nil, err
	}
	v, err := r.store.Lookup(r.Context(), r.subject(), s, r.flag("deleted"))
	return list(v), err
}

func (r *request) register() (any, error) {
	b, s, err := r.schema()
	if err != nil {
		return nil, err
	}
	reg := Registration{Subject: r.subject(), Schema: s}
	switch { // -1 is what some clients send for none
	case b.ID > MaxID:
		return nil, errorf(CodeNotPermitted, "id %d: at most %d is one", b.ID, uint32(MaxID))
	case b.Version > math.MaxInt32:
		return nil, errorf(CodeInvalidVersion, "The specified version '%d' is not a valid version id. Allowed values are between [1, 2^31-1]", b.Version)
	}
	reg.ID, reg.Version = uint32(max(b.ID, 0)), int(max(b.Version, 0))
	v, err := r.store.Register(r.Context(), reg)
	if err != nil {
		return nil, err
	}
	return struct {
		ID uint32 `json:"id"`
	}{v.ID}, nil
}

func (r *request) versions() (any, error) {
	found, err := r.store.Versions(r.Context(), r.subject(), r.flag("deleted"))
	numbers := make([]int, len(found))
	for i, v := range found {
		numbers[i] = v.Version
	}
	return numbers, err
}

// one returns the version of the path.
func (r *request) one(deleted bool) (SubjectVersion, error) {
	n, err := r.number()
	if err != nil {
		return SubjectVersion{}, err
	}
	return r.store.Version(r.Context(), r.subject(), n, deleted)
}

func (r *request) version() (any, error) {
	v, err := r.one(r.flag("deleted"))
	return list(v), err
}

func (r *request) textByVersion() (any, error) {
	v, err := r.one(r.flag("deleted"))
	return text(v.Schema), err
}

func (r *request) referencedBy() (any, error) {
	_, err := r.one(true)
	return []uint32{}, err
}

func (r *request) deleteSubject() (any, error) {
	numbers, err := r.store.Delete(r.Context(), r.subject(), 0, r.flag("permanent"))
	return numbers, err
}

func (r *request) deleteVersion() (any, error) {
	n, err := r.number()
	if err == nil && n == Latest {
		var v SubjectVersion
		v, err = r.store.Version(r.Context(), r.subject(), Latest, r.flag("permanent"))
		n = v.Version
	}
	if err != nil {
		return nil, err
	}
	if _, err := r.store.Delete(r.Context(), r.subject(), n, r.flag("permanent")); err != nil {
		return nil, err
	}
	return n, nil
}

func (r *request) compatible() (any, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	_, s, err := r.schema()
	if err != nil {
		return nil, err
	}
	found, err := r.store.Conflicts(r.Context(), r.subject(), n, s)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Compatible bool     `json:"is_compatible"`
		Messages   []string `json:"messages,omitempty"`
	}{Compatible: len(found) == 0}
	if r.flag("verbose") {
		answer.Messages = found
	}
	return answer, nil
}

// levelAnswer has both names that clients look for.
type levelAnswer struct {
	Level Level `json:"compatibilityLevel,omitempty"`
	Set   Level `json:"compatibility,omitempty"`
}

func (r *request) level() (any, error) {
	l, err := r.store.Level(r.Context(), r.subject(), r.flag("defaultToGlobal"))
	return levelAnswer{Level: l}, err
}

func (r *request) setLevel() (any, error) {
	var b struct {
		Level            string          `json:"compatibility"`
		Alias            string          `json:"alias"`
		Group            string          `json:"compatibilityGroup"`
		DefaultMetadata  json.RawMessage `json:"defaultMetadata"`
		OverrideMetadata json.RawMessage `json:"overrideMetadata"`
		DefaultRuleSet   json.RawMessage `json:"defaultRuleSet"`
		OverrideRuleSet  json.RawMessage `json:"overrideRuleSet"`
	}
	if err := r.body(&b); err != nil {
		return nil, err
	}
	if b.Alias != "" || b.Group != "" || given(b.DefaultMetadata) || given(b.OverrideMetadata) || given(b.DefaultRuleSet) || given(b.OverrideRuleSet) {
		return nil, errorf(CodeNotPermitted, "Aliases, compatibility groups, metadata and rules are not kept here")
	}
	l, err := ParseLevel(b.Level)
	if err != nil {
		return nil, err
	}
	return levelAnswer{Set: l}, r.store.SetLevel(r.Context(), r.subject(), l)
}

func (r *request) resetLevel() (any, error) {
	l, err := r.store.Level(r.Context(), r.subject(), false)
	if err != nil {
		return nil, err
	}
	return levelAnswer{l, l}, r.store.SetLevel(r.Context(), r.subject(), "")
}

type modeAnswer struct {
	Mode Mode `json:"mode"`
}

func (r *request) mode() (any, error) {
	m, err := r.store.Mode(r.Context(), r.subject(), r.flag("defaultToGlobal"))
	return modeAnswer{m}, err
}

func (r *request) setMode() (any, error) {
	var b struct {
		Mode string `json:"mode"`
	}
	if err := r.body(&b); err != nil {
		return nil, err
	}
	m, err := ParseMode(b.Mode)
	if err != nil {
		return nil, err
	}
	return modeAnswer{m}, r.store.SetMode(r.Context(), r.subject(), m, r.flag("force"))
}

func (r *request) resetMode() (any, error) {
	m, err := r.store.Mode(r.Context(), r.subject(), false)
	if err != nil {
		return nil, err
	}
	return modeAnswer{m}, r.store.SetMode(r.Context(), r.subject(), "", false)
}
