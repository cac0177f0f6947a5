package main

import (
	"strings"
	"testing"

	"kafkalab/harness/env"
)

// What ssh says in two lines must not break the table.
func TestFindingsKeepTheirRows(t *testing.T) {
	var out strings.Builder
	err := printFindings(&out, []env.Finding{
		{Host: "client", Check: "reachable", Status: env.Missing, Detail: "ssh: no such host\r\nexit status\t255\n", Fix: "ssh-copy-id client"},
		{Host: "here", Check: "packages", Status: env.OK, Detail: "bash"},
	})
	want := `HOST    CHECK      STATUS   WHAT THERE IS
client  reachable  missing  ssh: no such host; exit status 255
here    packages   ok       bash

WHAT MENDS IT
client: reachable  ssh-copy-id client
`
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), want)
	}
}
