package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// recordFormat is the format of the records in the topic. A registry that meets a
// higher one stops: it would come to other answers than the newer one that wrote it.
const recordFormat = 1

// The kinds of changes.
const (
	kindVersion = "version" // a subject gets a version, with its schema and id
	kindDelete  = "delete"  // versions are no longer shown; 0: all of the subject
	kindPurge   = "purge"   // versions are gone for good; 0: all of the subject
	kindConfig  = "config"  // the level of a subject, or of all ("")
	kindMode    = "mode"    // the mode of a subject, or of all ("")
)

// record is a change, as it stands in the topic. It says what is true after it, and
// nothing that would have to be worked out: how that was found may change.
type record struct {
	Format int `json:"kafkalab_schema"`
	// Sequence is one higher than that of the last record that counts. The first
	// record with it counts, and no other one.
	Sequence uint64 `json:"sequence"`
	// Writer is the name of the attempt to make the change, by which whoever made it
	// finds it again.
	Writer  string `json:"writer"`
	Kind    string `json:"kind"`
	Subject string `json:"subject,omitempty"`
	Version int    `json:"version,omitempty"`
	ID      uint32 `json:"id,omitempty"`
	Schema  string `json:"schema,omitempty"`
	Level   Level  `json:"level,omitempty"` // "": that of all from now on
	Mode    Mode   `json:"mode,omitempty"`  // likewise
}

func (r *record) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // < and > of a schema's text would take six bytes each
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("schema: record of subject %q: %w", r.Subject, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// parseRecord reads a payload of the topic. ok is false for what is none of our
// records.
func parseRecord(payload []byte) (r record, ok bool) {
	if err := json.Unmarshal(payload, &r); err != nil || r.Format < 1 {
		return record{}, false
	}
	return r, true
}
