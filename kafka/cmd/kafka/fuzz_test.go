package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// FuzzProperties: whatever the file, what is read of it are keys that there are,
// each with its line, and those written anew read the same.
func FuzzProperties(f *testing.F) {
	f.Add("# a comment\n! another\nbrokerid=7\nport: 9093\nlog.dir = /data/kafka\n")
	f.Add("port=1\n\nport=2\n")
	f.Add("log.dri=/x\n=\n:\n")
	f.Add("log.dir=a=b:c\r\n")
	f.Add(strings.Repeat("x", maxPropertiesBytes+1))
	f.Fuzz(func(t *testing.T, text string) {
		values, err := readProperties(strings.NewReader(text))
		if err != nil {
			if values != nil {
				t.Errorf("%v beside error %v", values, err)
			}
			return
		}
		lines := strings.Split(text, "\n")
		again := make([]string, len(lines))
		for key, v := range values {
			if v.line < 1 || v.line > len(lines) || !strings.Contains(lines[v.line-1], key) || !strings.Contains(lines[v.line-1], v.value) {
				t.Errorf("%s is %q in line %d, which does not say so", key, v.value, v.line)
				return
			}
			again[v.line-1] = fmt.Sprintf("%s=%s", key, v.value)
		}
		got, err := readProperties(strings.NewReader(strings.Join(again, "\n")))
		if err != nil || !maps.Equal(got, values) {
			t.Errorf("%v became %v, %v", values, got, err)
		}
	})
}
