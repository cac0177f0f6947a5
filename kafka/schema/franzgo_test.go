package schema_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
)

// franzGo returns the schema registry client of franz-go, unchanged.
func franzGo(t testing.TB, url string) *sr.Client {
	t.Helper()
	c, err := sr.NewClient(sr.URLs(url), sr.HTTPClient(httpClient))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFranzGoRegistryClient: the registry client of franz-go (pkg/sr) does all that it
// offers for Avro with our registry, and knows our errors.
func TestFranzGoRegistryClient(t *testing.T) {
	registry, _, _ := newRegistry(t)
	c, ctx := franzGo(t, registry.URL), bounded(t)
	same := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if g, w := quotedValue(got), quotedValue(want); g != w {
			t.Errorf("%s: %s, want %s", what, g, w)
		}
	}
	v1, v2, v3, bad := sr.Schema{Schema: viewV1}, sr.Schema{Schema: viewV2}, sr.Schema{Schema: viewV3}, sr.Schema{Schema: viewBad}
	first := sr.SubjectSchema{Subject: "s", Version: 1, ID: 1, Schema: v1}
	second := sr.SubjectSchema{Subject: "s", Version: 2, ID: 2, Schema: v2}

	types, err := c.SupportedTypes(ctx)
	same("types", types, []sr.SchemaType{sr.TypeAvro}, err)
	contexts, err := c.Contexts(ctx)
	same("contexts", contexts, []string{"."}, err)
	got, err := c.CreateSchema(ctx, "s", v1)
	same("create", got, first, err)
	got, err = c.CreateSchema(ctx, "s", v2)
	same("create a second", got, second, err)
	got, err = c.CreateSchema(ctx, "s", v1)
	same("create again", got, first, err)
	id, err := c.RegisterSchema(ctx, "s/t u", v1, -1, -1)
	same("register", id, 1, err)
	got, err = c.LookupSchema(ctx, "s", v2)
	same("look up", got, second, err)
	got, err = c.SchemaByVersion(ctx, "s", -1)
	same("latest", got, second, err)
	byID, err := c.SchemaByID(ctx, 1)
	same("by id", byID, v1, err)
	text, err := c.SchemaTextByID(ctx, 2)
	same("text by id", text, viewV2, err)
	text, err = c.SchemaTextByVersion(ctx, "s", 1)
	same("text by version", text, viewV1, err)
	subjects, err := c.Subjects(ctx)
	same("subjects", subjects, []string{"s", "s/t u"}, err)
	subjects, err = c.SubjectsByID(ctx, 2)
	same("subjects by id", subjects, []string{"s"}, err)
	versions, err := c.SubjectVersions(ctx, "s")
	same("versions", versions, []int{1, 2}, err)
	uses, err := c.SchemaVersionsByID(ctx, 1)
	same("versions by id", uses, []sr.SubjectVersion{{Subject: "s", Version: 1}, {Subject: "s/t u", Version: 1}}, err)
	all, err := c.Schemas(ctx, "s")
	same("schemas", all, []sr.SubjectSchema{first, second}, err)
	all, err = c.AllSchemas(ctx)
	same("all schemas", len(all), 3, err)
	all, err = c.SchemaReferences(ctx, "s", 1)
	same("references", len(all), 0, err)

	check, err := c.CheckCompatibility(ctx, "s", -1, v3)
	same("compatible", check.Is, true, err)
	check, err = c.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "s", -1, bad)
	same("not compatible", check.Is, false, err)
	if len(check.Messages) != 1 {
		t.Errorf("why not: %q", check.Messages)
	}
	check, err = c.CheckCompatibility(ctx, "s", -2, v3)
	same("compatible with all", check.Is, true, err)
	for _, subject := range []string{sr.GlobalSubject, "s"} {
		for _, level := range []sr.CompatibilityLevel{sr.CompatNone, sr.CompatBackward, sr.CompatBackwardTransitive, sr.CompatForward, sr.CompatForwardTransitive, sr.CompatFull, sr.CompatFullTransitive} {
			set := c.SetCompatibility(ctx, sr.SetCompatibility{Level: level}, subject)[0]
			same("set level", set.Level, level, set.Err)
			is := c.Compatibility(ctx, subject)[0]
			same("level", is.Level, level, is.Err)
		}
	}
	reset := c.ResetCompatibility(ctx, "s")[0]
	same("reset level", reset.Level, sr.CompatFullTransitive, reset.Err)
	for _, mode := range []sr.Mode{sr.ModeReadOnly, sr.ModeReadWrite} {
		set := c.SetMode(ctx, mode, "s")[0]
		same("set mode", set.Mode, mode, set.Err)
		is := c.Mode(ctx, "s")[0]
		same("mode", is.Mode, mode, is.Err)
	}
	back := c.ResetMode(ctx, "s")[0]
	same("reset mode", back.Mode, sr.ModeReadWrite, back.Err)
	imported := c.SetMode(ctx, sr.ModeImport, "copy")[0]
	same("import mode", imported.Mode, sr.ModeImport, imported.Err)
	got, err = c.CreateSchemaWithIDAndVersion(ctx, "copy", sr.Schema{Schema: `"int"`}, 100, 7)
	same("import", got, sr.SubjectSchema{Subject: "copy", Version: 7, ID: 100, Schema: sr.Schema{Schema: `"int"`}}, err)

	refused := func(what string, err error, want *sr.Error) {
		t.Helper()
		var answered *sr.ResponseError
		if !errors.As(err, &answered) || answered.SchemaError() != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err = c.CreateSchema(ctx, "s", bad)
	refused("incompatible", err, sr.ErrIncompatibleSchema)
	_, err = c.CreateSchema(ctx, "s", sr.Schema{Schema: `{"type":"nothing"}`})
	refused("no schema", err, sr.ErrInvalidSchema)
	_, err = c.CreateSchema(ctx, "s", sr.Schema{Schema: `{}`, Type: sr.TypeJSON})
	refused("another type", err, sr.ErrInvalidSchema)
	_, err = c.SchemaByID(ctx, 99)
	refused("unknown id", err, sr.ErrSchemaNotFound)
	_, err = c.SubjectVersions(ctx, "none")
	refused("unknown subject", err, sr.ErrSubjectNotFound)
	_, err = c.SchemaByVersion(ctx, "s", 9)
	refused("unknown version", err, sr.ErrVersionNotFound)
	refused("not hidden yet", c.DeleteSchema(ctx, "s", 1, sr.HardDelete), sr.ErrSchemaVersionNotSoftDeleted)
	if err := c.DeleteSchema(ctx, "s", 1, sr.SoftDelete); err != nil {
		t.Error(err)
	}
	refused("hidden already", c.DeleteSchema(ctx, "s", 1, sr.SoftDelete), sr.ErrSchemaVersionSoftDeleted)
	versions, err = c.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), "s")
	same("versions with hidden ones", versions, []int{1, 2}, err)
	versions, err = c.DeleteSubject(ctx, "s", sr.SoftDelete)
	same("hide all", versions, []int{2}, err)
	_, err = c.DeleteSubject(ctx, "s", sr.SoftDelete)
	refused("all hidden already", err, sr.ErrSubjectSoftDeleted)
	versions, err = c.DeleteSubject(ctx, "s", sr.HardDelete)
	same("delete for good", versions, []int{1, 2}, err)
}

func quotedValue(v any) string {
	switch v := v.(type) {
	case interface{ MarshalText() ([]byte, error) }:
		b, _ := v.MarshalText()
		return string(b)
	case string:
		return v
	}
	return jsonOf(v)
}

// TestFranzGoSerde: franz-go's encoder and decoder of payloads, with its own look-ups,
// read what ours has written, and ours what it has.
func TestFranzGoSerde(t *testing.T) {
	registry, _, _ := newRegistry(t)
	ctx := bounded(t)
	c := newClient(t, registry.URL)
	type view struct {
		Member int64  `avro:"member"`
		Page   string `avro:"page"`
	}
	e, err := c.Encoder(ctx, "views-value", mustParse(t, viewV2))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := e.Append(nil, view{42, "/in"})
	if err != nil {
		t.Fatal(err)
	}
	var serde sr.Serde
	id, _, err := serde.DecodeID(ours)
	if err != nil || id != int(e.ID()) {
		t.Fatalf("it reads id %d, %v", id, err)
	}
	text, err := franzGo(t, registry.URL).SchemaByID(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	parsed := avro.MustParse(text.Schema)
	serde.Register(id, view{}, sr.EncodeFn(func(v any) ([]byte, error) { return parsed.Encode(v) }),
		sr.DecodeFn(func(b []byte, v any) error { _, err := parsed.Decode(b, v); return err }))
	var got view
	if err := serde.Decode(ours, &got); err != nil || got != (view{42, "/in"}) {
		t.Errorf("franz-go reads %+v, %v", got, err)
	}
	theirs, err := serde.Encode(view{43, "/out"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(ctx, theirs, &got); err != nil || got != (view{43, "/out"}) {
		t.Errorf("ours reads %+v, %v", got, err)
	}
}

// TestFranzGoFailsOver: a client that knows two registries goes on with the second when
// the first is away: both know the same.
func TestFranzGoFailsOver(t *testing.T) {
	first, _, b := newRegistry(t)
	second := serve(t, openStore(t, b))
	c, err := sr.NewClient(sr.URLs(first.URL, second.URL), sr.HTTPClient(httpClient))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.CreateSchema(ctx, "s", sr.Schema{Schema: viewV1}); err != nil {
		t.Fatal(err)
	}
	first.stop()
	got, err := c.CreateSchema(ctx, "s", sr.Schema{Schema: viewV2})
	if err != nil || got.ID != 2 || got.Version != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	versions, err := c.SubjectVersions(ctx, "s")
	if err != nil || !slices.Equal(versions, []int{1, 2}) {
		t.Errorf("%v, %v", versions, err)
	}
}
