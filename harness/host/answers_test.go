package host_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

// A program's answers come one by one, in whatever pieces they were written; its
// end without one, and what is no answer, are errors.
func TestAnswers(t *testing.T) {
	h := hosttest.Open(t, host.Config{Name: "here", Kind: host.Local, Dir: t.TempDir()})
	for _, c := range []struct {
		script, first, then string // "" is an answer
	}{
		{`printf '{"n":'; printf '1}\n{"n":2}\n'`, "", ""},
		{`printf '{"n":1}\n'; exit 3`, "", "exit status 3"},
		{`printf 'x\n{"n":2}\n'`, "unexpected output", ""},
		{`exit 3`, "exit status 3", "exit status 3"},
	} {
		answers := host.NewAnswers(2, 100)
		p, err := h.Start(t.Context(), host.Command{Args: []string{"/bin/sh", "-c", c.script}, Out: answers})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{c.first, c.then} {
			var got struct{ N int }
			err := answers.Next(t.Context(), p, &got)
			switch {
			case want == "" && (err != nil || got.N != i+1):
				t.Errorf("%s: answer %d: %+v, %v", c.script, i+1, got, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: answer %d: error %v, want %q", c.script, i+1, err, want)
			case want == "exit status 3" && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Errorf("%s: error %v", c.script, err)
			}
		}
		_ = p.Wait(t.Context()) // how it ends is told above
	}
}

func TestAnswersAreBounded(t *testing.T) {
	a := host.NewAnswers(1, 10)
	for _, c := range []struct{ write, want string }{
		{"12345", ""}, {"67890", ""}, {"\n", ""}, {"2\n", "more than 1 lines"},
	} {
		if _, err := a.Write([]byte(c.write)); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.write, err, c.want)
		}
	}
	if _, err := host.NewAnswers(1, 10).Write([]byte("12345678901")); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Errorf("a line that is too long: %v", err)
	}
}
