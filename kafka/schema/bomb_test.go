package schema_test

import (
	"fmt"
	"testing"

	"kafkalab/kafka/schema"
)

// TestCompareSchemasOfNothing: schemas that have each other in them 2^60 times are compared.
func TestCompareSchemasOfNothing(t *testing.T) {
	_, store, _ := newRegistry(t)
	text := func(empty, last string) string {
		s := fmt.Sprintf(`{"type":"record","name":"All","fields":[{"name":"f0","type":{"type":"record","name":"N0","fields":[%s]}}`, empty)
		for i := range 60 {
			s += fmt.Sprintf(`,{"name":"f%d","type":{"type":"record","name":"N%[1]d","fields":[{"name":"a","type":"N%d"},{"name":"b","type":"N%[2]d"}]}}`, i+1, i)
		}
		return s + last + "]}"
	}
	if err := store.SetLevel(bounded(t), "s", schema.Full); err != nil {
		t.Fatal(err)
	}
	register(t, store, "s", text("", ""))
	register(t, store, "s", text("", `,{"name":"more","type":"int","default":1}`))
	if _, err := store.Register(bounded(t), schema.Registration{Subject: "s", Schema: mustParse(t, text(`{"name":"x","type":"int"}`, ""))}); err == nil {
		t.Error("one that cannot read what was written is taken")
	}
}
