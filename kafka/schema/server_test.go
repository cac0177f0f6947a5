package schema_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/schema"
)

// TestPaths: the answers, codes and statuses of all paths, in the order of a life of
// some subjects.
func TestPaths(t *testing.T) {
	r, _, _ := newRegistry(t)
	r.want("GET", "/", "", 200, `{}`)
	r.want("GET", "/schemas/types", "", 200, `["AVRO"]`)
	r.want("GET", "/subjects", "", 200, `[]`)
	r.want("GET", "/schemas", "", 200, `[]`)
	r.want("GET", "/config", "", 200, `{"compatibilityLevel":"BACKWARD"}`)
	r.want("GET", "/mode", "", 200, `{"mode":"READWRITE"}`)
	r.wantCode("GET", "/subjects/s/versions", "", 404, 40401)
	r.wantCode("GET", "/subjects/s/versions/1", "", 404, 40401)
	r.wantCode("POST", "/subjects/s", bodyOf(viewV1), 404, 40401)
	r.wantCode("DELETE", "/subjects/s", "", 404, 40401)
	r.wantCode("GET", "/schemas/ids/1", "", 404, 40403)
	r.wantCode("GET", "/schemas/ids/0", "", 404, 40403)
	r.wantCode("GET", "/schemas/ids/x", "", 404, 404)
	r.wantCode("GET", "/schemas/ids/4294967296", "", 404, 404)

	// Registering: the same schema is the same version and id, written otherwise or
	// not; in another subject it keeps its id.
	r.want("POST", "/subjects/s/versions", bodyOf(viewV1), 200, `{"id":1}`)
	r.want("POST", "/subjects/s/versions", bodyOf(" "+strings.ReplaceAll(viewV1, ":", " : ")), 200, `{"id":1}`)
	r.want("POST", "/subjects/s/versions?normalize=true", bodyOf(`{"fields":[{"type":"long","name":"member"}],"name":"View","type":"record"}`), 200, `{"id":1}`)
	r.want("POST", "/subjects/s/versions", bodyOf(viewV2), 200, `{"id":2}`)
	r.want("POST", "/subjects/other/versions", bodyOf(viewV2), 200, `{"id":2}`)
	r.want("GET", "/subjects", "", 200, `["other","s"]`)
	r.want("GET", "/subjects?subjectPrefix=ot", "", 200, `["other"]`)
	r.want("GET", "/subjects/s/versions", "", 200, `[1,2]`)
	r.want("GET", "/subjects/s/versions/1", "", 200, `{"subject":"s","version":1,"id":1,"schema":`+quoted(viewV1)+`}`)
	r.want("GET", "/subjects/s/versions/latest", "", 200, `{"subject":"s","version":2,"id":2,"schema":`+quoted(viewV2)+`}`)
	r.want("GET", "/subjects/s/versions/-1", "", 200, `{"subject":"s","version":2,"id":2,"schema":`+quoted(viewV2)+`}`)
	r.want("GET", "/subjects/s/versions/1/schema", "", 200, viewV1)
	r.want("GET", "/subjects/s/versions/1/referencedby", "", 200, `[]`)
	r.want("GET", "/schemas/ids/2", "", 200, `{"schema":`+quoted(viewV2)+`}`)
	r.want("GET", "/schemas/ids/2?fetchMaxId=true", "", 200, `{"schema":`+quoted(viewV2)+`,"maxId":2}`)
	r.want("GET", "/schemas/ids/2/schema", "", 200, viewV2)
	r.want("GET", "/schemas/ids/2/subjects", "", 200, `["other","s"]`)
	r.want("GET", "/schemas/ids/2/versions", "", 200, `[{"subject":"other","version":1},{"subject":"s","version":2}]`)
	listed := func(subject string, version, id int, text string) string {
		return fmt.Sprintf("{\"subject\":%q,\"version\":%d,\"id\":%d,\"schema\":%s}\n", subject, version, id, quoted(text))
	}
	r.want("GET", "/schemas?latestOnly=true&subjectPrefix=s", "", 200, `[`+listed("s", 2, 2, viewV2)+`]`)
	r.want("GET", "/schemas?offset=1&limit=1", "", 200, `[`+listed("s", 1, 1, viewV1)+`]`)
	r.want("GET", "/schemas", "", 200, `[`+listed("other", 1, 2, viewV2)+`,`+listed("s", 1, 1, viewV1)+`,`+listed("s", 2, 2, viewV2)+`]`)
	r.want("POST", "/subjects/s", bodyOf(viewV1), 200, `{"subject":"s","version":1,"id":1,"schema":`+quoted(viewV1)+`}`)
	r.wantCode("POST", "/subjects/s", bodyOf(viewV3), 404, 40403)
	r.wantCode("GET", "/subjects/s/versions/3", "", 404, 40402)
	for _, v := range []string{"0", "-2", "x", "2147483648", "1.0"} {
		r.wantCode("GET", "/subjects/s/versions/"+v, "", 422, 42202)
	}

	// Compatibility.
	r.wantCode("POST", "/subjects/s/versions", bodyOf(viewBad), 409, 409)
	r.want("POST", "/compatibility/subjects/s/versions/latest", bodyOf(viewV3), 200, `{"is_compatible":true}`)
	r.want("POST", "/compatibility/subjects/s/versions/1", bodyOf(viewBad), 200, `{"is_compatible":false}`)
	r.want("POST", "/compatibility/subjects/s/versions", bodyOf(viewBad), 200, `{"is_compatible":false}`)
	r.want("POST", "/compatibility/subjects/none/versions", bodyOf(viewBad), 200, `{"is_compatible":true}`)
	r.want("POST", "/compatibility/subjects/none/versions/latest", bodyOf(viewBad), 200, `{"is_compatible":true}`)
	r.wantCode("POST", "/compatibility/subjects/s/versions/9", bodyOf(viewV3), 404, 40402)
	r.wantCode("POST", "/compatibility/subjects/none/versions/1", bodyOf(viewV3), 404, 40401)
	if _, answer := r.call("POST", "/compatibility/subjects/s/versions/latest?verbose=true", bodyOf(viewBad)); !strings.Contains(answer, "version 2") || !strings.Contains(answer, "needed") {
		t.Errorf("what is wrong is told as %s", answer)
	}
	r.wantCode("GET", "/config/s", "", 404, 40408)
	r.want("GET", "/config/s?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"BACKWARD"}`)
	r.want("PUT", "/config/s", `{"compatibility":"NONE"}`, 200, `{"compatibility":"NONE"}`)
	r.want("GET", "/config/s", "", 200, `{"compatibilityLevel":"NONE"}`)
	r.want("POST", "/subjects/s/versions", bodyOf(viewBad), 200, `{"id":3}`)
	r.want("DELETE", "/config/s", "", 200, `{"compatibilityLevel":"NONE","compatibility":"NONE"}`)
	r.wantCode("DELETE", "/config/s", "", 404, 40408)
	r.wantCode("PUT", "/config/s", `{"compatibility":"backward"}`, 422, 42203)
	r.wantCode("PUT", "/config", `{}`, 422, 42203)
	r.want("PUT", "/config", `{"compatibility":"FULL_TRANSITIVE"}`, 200, `{"compatibility":"FULL_TRANSITIVE"}`)
	r.want("GET", "/config/s?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"FULL_TRANSITIVE"}`)
	r.want("DELETE", "/config", "", 200, `{"compatibilityLevel":"FULL_TRANSITIVE","compatibility":"FULL_TRANSITIVE"}`)
	r.want("GET", "/config", "", 200, `{"compatibilityLevel":"BACKWARD"}`)

	// Modes.
	r.wantCode("GET", "/mode/s", "", 404, 40409)
	r.want("GET", "/mode/s?defaultToGlobal=true", "", 200, `{"mode":"READWRITE"}`)
	r.want("PUT", "/mode/s", `{"mode":"READONLY"}`, 200, `{"mode":"READONLY"}`)
	r.wantCode("POST", "/subjects/s/versions", bodyOf(`"long"`), 422, 42205)
	r.wantCode("DELETE", "/subjects/s/versions/1", "", 422, 42205)
	r.want("POST", "/subjects/s/versions", bodyOf(viewV1), 200, `{"id":1}`) // it is there
	r.wantCode("PUT", "/mode/s", `{"mode":"READ"}`, 422, 42204)
	r.wantCode("PUT", "/mode/s", `{"mode":"IMPORT"}`, 422, 42205)
	r.want("DELETE", "/mode/s", "", 200, `{"mode":"READONLY"}`)
	r.wantCode("POST", "/subjects/s/versions", `{"schema":"\"long\"","id":77}`, 422, 42205)
	r.want("PUT", "/mode/copy", `{"mode":"IMPORT"}`, 200, `{"mode":"IMPORT"}`)
	r.wantCode("POST", "/subjects/copy/versions", bodyOf(`"long"`), 422, 42205)
	r.want("POST", "/subjects/copy/versions", `{"schema":"\"long\"","id":77,"version":5}`, 200, `{"id":77}`)
	r.wantCode("POST", "/subjects/copy/versions", `{"schema":"\"int\"","id":77}`, 422, 42205)
	r.wantCode("POST", "/subjects/copy/versions", `{"schema":"\"long\"","id":78}`, 422, 42205)
	r.wantCode("POST", "/subjects/copy/versions", `{"schema":"\"int\"","id":70,"version":5}`, 422, 42202)
	r.want("GET", "/subjects/copy/versions", "", 200, `[5]`)
	r.want("POST", "/subjects/fresh/versions", bodyOf(`"int"`), 200, `{"id":78}`)

	// Deleting: first they are hidden, then gone, and the id is not given again.
	r.wantCode("DELETE", "/subjects/s/versions/1?permanent=true", "", 404, 40407)
	r.wantCode("DELETE", "/subjects/s?permanent=true", "", 404, 40405)
	r.wantCode("DELETE", "/subjects/s/versions/9", "", 404, 40402)
	r.want("DELETE", "/subjects/s/versions/1", "", 200, `1`)
	r.wantCode("DELETE", "/subjects/s/versions/1", "", 404, 40406)
	r.want("GET", "/subjects/s/versions", "", 200, `[2,3]`)
	r.want("GET", "/subjects/s/versions?deleted=true", "", 200, `[1,2,3]`)
	r.wantCode("GET", "/subjects/s/versions/1", "", 404, 40402)
	r.want("GET", "/subjects/s/versions/1?deleted=true", "", 200, `{"subject":"s","version":1,"id":1,"schema":`+quoted(viewV1)+`}`)
	r.want("GET", "/schemas/ids/1", "", 200, `{"schema":`+quoted(viewV1)+`}`) // messages have it
	r.want("GET", "/schemas/ids/1/versions", "", 200, `[]`)
	r.wantCode("POST", "/subjects/s", bodyOf(viewV1), 404, 40403)
	r.want("POST", "/subjects/s?deleted=true", bodyOf(viewV1), 200, `{"subject":"s","version":1,"id":1,"schema":`+quoted(viewV1)+`}`)
	r.want("DELETE", "/subjects/s/versions/1?permanent=true", "", 200, `1`)
	r.wantCode("GET", "/schemas/ids/1", "", 404, 40403)
	r.want("DELETE", "/subjects/s/versions/latest", "", 200, `3`)
	r.want("DELETE", "/subjects/s", "", 200, `[2]`)
	r.wantCode("DELETE", "/subjects/s", "", 404, 40404)
	r.want("GET", "/subjects", "", 200, `["copy","fresh","other"]`)
	r.want("GET", "/subjects?deleted=true", "", 200, `["copy","fresh","other","s"]`)
	r.want("DELETE", "/subjects/s?permanent=true", "", 200, `[2,3]`)
	r.wantCode("DELETE", "/subjects/s?permanent=true", "", 404, 40401)
	r.want("GET", "/schemas/ids/2/versions", "", 200, `[{"subject":"other","version":1}]`)
	r.want("POST", "/subjects/s/versions", bodyOf(viewV1), 200, `{"id":79}`)
	r.want("GET", "/subjects/s/versions", "", 200, `[1]`)

	// Names of subjects are escaped in paths.
	r.want("POST", "/subjects/a%2Fb%20%C3%A9/versions", bodyOf(viewV1), 200, `{"id":79}`)
	r.want("GET", "/subjects?subjectPrefix=a", "", 200, `["a/b é"]`)
	r.want("GET", "/subjects/a%2Fb%20%C3%A9/versions", "", 200, `[1]`)

	// What there is not.
	r.wantCode("GET", "/nothing", "", 404, 404)
	r.wantCode("PATCH", "/subjects/s", "", 405, 405)
	r.wantCode("POST", "/schemas/ids/1", "", 405, 405)
}

// TestHostileBodies: what a peer may send that is not what is wanted. Each has its
// answer, nothing is registered, and the registry answers the next one.
func TestHostileBodies(t *testing.T) {
	r, store, _ := newRegistry(t)
	deep := strings.Repeat(`{"type":"array","items":`, 300) + `"int"` + strings.Repeat("}", 300)
	wide := `{"type":"record","name":"R","fields":[` + strings.TrimSuffix(strings.Repeat(`{"name":"f","type":"int"},`, 10_000), ",") + `]}`
	for _, row := range []struct {
		name, body   string
		status, code int
	}{
		{"nothing", ``, 400, 400},
		{"no JSON", `{"schema":`, 400, 400},
		{"an array", `["string"]`, 400, 400},
		{"a number for a text", `{"schema":5}`, 400, 400},
		{"two objects", bodyOf(`"string"`) + `{}`, 400, 400},
		{"a tail", bodyOf(`"string"`) + `x`, 400, 400},
		{"no schema", `{}`, 422, 42201},
		{"null", `{"schema":null}`, 422, 42201},
		{"an empty schema", bodyOf(``), 422, 42201},
		{"blanks", bodyOf("  \n"), 422, 42201},
		{"a schema that is no JSON", bodyOf(`string`), 422, 42201},
		{"a schema with a tail", bodyOf(`"string" "int"`), 422, 42201},
		{"a type that there is not", bodyOf(`"text"`), 422, 42201},
		{"a record without fields", bodyOf(`{"type":"record","name":"R"}`), 422, 42201},
		{"a field twice", bodyOf(wide), 422, 42201},
		{"a default that does not fit", bodyOf(`{"type":"record","name":"R","fields":[{"name":"f","type":"int","default":"x"}]}`), 422, 42201},
		{"a name that is defined nowhere", bodyOf(`{"type":"array","items":"Missing"}`), 422, 42201},
		{"nested too deep", bodyOf(deep), 422, 42201},
		{"a text that is too long", bodyOf(`"` + strings.Repeat("x", schema.MaxSchemaBytes) + `"`), 422, 42201},
		{"brackets without end", bodyOf(strings.Repeat("[", 100_000)), 422, 42201},
		{"another kind of schema", `{"schema":"{}","schemaType":"JSON"}`, 422, 42201},
		{"references", `{"schema":"\"string\"","references":[{"name":"n","subject":"s","version":1}]}`, 422, 42201},
		{"rules", `{"schema":"\"string\"","ruleSet":{"domainRules":[]}}`, 422, 42201},
		{"metadata", `{"schema":"\"string\"","metadata":{"tags":{}}}`, 422, 42201},
		{"an id that is too large", `{"schema":"\"string\"","id":4294967297}`, 422, 42205},
		{"a body that is too long", `{"schema":"` + strings.Repeat("x", schema.MaxBodyBytes) + `"}`, 413, 413},
	} {
		t.Run(row.name, func(t *testing.T) {
			r.wantCode("POST", "/subjects/s/versions", row.body, row.status, row.code)
			if row.code != 42205 {
				r.wantCode("POST", "/compatibility/subjects/s/versions", row.body, row.status, row.code)
			}
		})
	}
	for _, name := range []string{strings.Repeat("x", 256), "%0A", "%C3%28"} {
		r.wantCode("POST", "/subjects/"+name+"/versions", bodyOf(`"string"`), 422, 42208)
	}
	// Browsers send these unasked.
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		if status, _ := r.callAs("POST", "/subjects/s/versions", kind, strings.NewReader(bodyOf(`"string"`))); status != 415 {
			t.Errorf("type %q: status %d", kind, status)
		}
	}
	// A length that is not told does not get around the limit.
	if status, _ := r.callAs("POST", "/subjects/s/versions", schema.ContentType, io.MultiReader(strings.NewReader(`{"schema":"`), io.LimitReader(endless{}, 4<<20))); status != 413 {
		t.Errorf("an endless body: status %d", status)
	}
	if got := store.Stats(); got.Sequence != 0 {
		t.Errorf("something was changed: %+v", got)
	}
	r.want("POST", "/subjects/s/versions", bodyOf(`"string"`), 200, `{"id":1}`)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestSilentPeers: connections on which nothing comes, or half a request, hold up
// nobody, and closing the registry does not wait for them.
func TestSilentPeers(t *testing.T) {
	r, _, _ := newRegistry(t)
	for i := range 50 {
		c, err := net.DialTimeout("tcp", r.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			if _, err := io.WriteString(c, "POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.want("GET", "/subjects", "", 200, `[]`)
	r.want("POST", "/subjects/s/versions", bodyOf(`"string"`), 200, `{"id":1}`)
}

// TestManyAtOnce: equal schemas that are registered at once, for many subjects and for
// one, get one id, and one version each.
func TestManyAtOnce(t *testing.T) {
	r, store, _ := newRegistry(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			r.want("POST", fmt.Sprintf("/subjects/s%d/versions", i%4), bodyOf(viewV1), 200, `{"id":1}`)
		})
	}
	all.Wait()
	if got := store.Stats(); got.Sequence != 4 || got.Schemas != 1 || got.Subjects != 4 {
		t.Errorf("%+v", got)
	}
}

// TestServerEnds: Close is bounded, may be repeated, and an address that is taken is an
// error.
func TestServerEnds(t *testing.T) {
	r, store, _ := newRegistry(t)
	if _, err := schema.Serve(bounded(t), schema.ServerConfig{Store: store, Listen: r.Addr().String()}); err == nil || !strings.Contains(err.Error(), "give another address, or stop the process that has it") {
		t.Errorf("a second one at the same address: %v", err)
	}
	if _, err := schema.Serve(bounded(t), schema.ServerConfig{Listen: "127.0.0.1:0"}); err == nil {
		t.Error("one without a store")
	}
	r.stop()
	r.stop()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Fatal("it serves on")
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}
