package registry_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/registry"
)

// A pattern is normalised as Kafka 0.7 does it before it is stored.
func TestPatternNormalised(t *testing.T) {
	for given, want := range map[string]string{
		"white.*":             "white.*",
		" clicks , views ":    "clicks|views",
		`"clicks, views"`:     "clicks|views",
		`'a'`:                 "a",
		`"'a b'"`:             "ab",
		"\t a\n":              "a",
		`a"b`:                 `a"b`,
		"a,(b|c),d{2}":        "a|(b|c)|d{2}",
		`"a" , "b"`:           `a"|"b`, // as 0.7: only those around the whole
		" \t\"white,black\" ": "white|black",
	} {
		s, err := registry.WhiteList(given, 1)
		if err != nil || s.Text() != "*1*"+want {
			t.Errorf("%q: %q, %v, want %q", given, s.Text(), err, want)
		}
	}
}

// The whole name must match, as with Java's String.matches.
func TestPatternMatchesWholeNames(t *testing.T) {
	for _, row := range []struct {
		pattern string
		yes, no []string
	}{
		{pattern: "white", yes: []string{"white"}, no: []string{"white1", "awhite", "WHITE", ""}},
		{pattern: "a|b", yes: []string{"a", "b"}, no: []string{"ab", "xa", "bx"}},
		{pattern: "a,b.*", yes: []string{"a", "b", "bcd"}, no: []string{"ab", "ac"}},
		{pattern: "^a$", yes: []string{"a"}, no: []string{"b"}},
		{pattern: "(?i)a", yes: []string{"a", "A"}, no: []string{"b"}},
		{pattern: "(?i)a|b", yes: []string{"a", "A", "B"}, no: []string{"ab"}},
		{pattern: "a*?", yes: []string{"a", "aaa"}, no: []string{"b"}},
		{pattern: `a\.b`, yes: []string{"a.b"}, no: []string{"axb"}},
		{pattern: `\Qa.b\E.`, yes: []string{"a.bx"}, no: []string{"axbx"}},
		{pattern: `[^a-c\d]+`, yes: []string{"xyz"}, no: []string{"xaz", "x1"}},
		{pattern: `\p{Lu}\w*`, yes: []string{"Abc"}, no: []string{"abc"}},
		{pattern: `x\x41\x{42}`, yes: []string{"xAB"}, no: []string{"xAC"}},
		{pattern: `a{2}b+c?`, yes: []string{"aab", "aabbc"}, no: []string{"ab"}},
	} {
		white, err := registry.WhiteList(row.pattern, 2)
		if err != nil {
			t.Errorf("%q: %v", row.pattern, err)
			continue
		}
		black, err := registry.BlackList(row.pattern, 2)
		must(t, err)
		for _, topic := range row.yes {
			if !white.Matches(topic) || black.Matches(topic) {
				t.Errorf("%q and %q: white %v, black %v", row.pattern, topic, white.Matches(topic), black.Matches(topic))
			}
		}
		for _, topic := range row.no {
			if white.Matches(topic) || !black.Matches(topic) {
				t.Errorf("%q and not %q: white %v, black %v", row.pattern, topic, white.Matches(topic), black.Matches(topic))
			}
		}
	}
}

// TestPatternAsJava: the file holds names, and patterns with what Java 17 says of
// each name (1: String.matches). They were made at random of all that is taken.
func TestPatternAsJava(t *testing.T) {
	text, err := os.ReadFile("testdata/java_patterns.txt")
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	names := strings.Split(lines[0], "\t")
	for _, line := range lines[1:] {
		expression, bits, _ := strings.Cut(line, "\t")
		s, err := registry.WhiteList(expression, 1)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		for i, name := range names {
			if java := bits[i] == '1'; s.Matches(name) != java {
				t.Errorf("%q and %q: %v, Java says %v", expression, name, !java, java)
			}
		}
	}
	if len(lines) < 300 || len(names) < 30 {
		t.Errorf("%d patterns and %d names", len(lines)-1, len(names))
	}
}

// What Java and RE2 do not both know, or read differently, is refused, and the
// error says what it is.
func TestPatternRefused(t *testing.T) {
	for pattern, says := range map[string]string{
		"a{1,2}":                             "there is no {2,3}",
		"a(?i)*":                             "behind flags",
		"a(?s){0}":                           "behind flags",
		"a(?=b)":                             "look-around",
		"(?<=a)b":                            "look-behind",
		"(?<!a)b":                            "look-behind",
		"(?>a)":                              "RE2",
		"(?<name>a)":                         "groups with names",
		"(?P<name>a)":                        "groups with names",
		"a++":                                "possessive",
		"a*+":                                "possessive",
		`(a)\1`:                              `\1`,
		`\0`:                                 `\0`,
		`\07`:                                `\0`,
		`\v`:                                 `\v`,
		`[\v]`:                               `\v`,
		`\h`:                                 `\h`,
		`\R`:                                 `\R`,
		`\Z`:                                 `\Z`,
		`a\`:                                 "backslash",
		`\Qabc`:                              `\E`,
		"[a-z&&[aeiou]]":                     "intersection",
		"[a-z&&aeiou]":                       "intersection",
		"[a[bc]]":                            "inside of a class",
		"[[:alpha:]]":                        "inside of a class",
		"[]a]":                               "begins with ']'",
		"[^]a]":                              "begins with ']'",
		"(?U)a":                              "flag U",
		"(?i-U:a)":                           "flag U",
		"(?i)é":                              "ASCII",
		`(?i)\p{Lu}`:                         "ASCII",
		`\p{Greek}`:                          "categories",
		`\p{IsGreek}`:                        "categories",
		`\pX`:                                "categories",
		`\p`:                                 "categories",
		`\p{Lu`:                              "}",
		"a{":                                 "{",
		"{2}":                                "missing argument",
		"a{,3}":                              "'{'",
		"a{x}":                               "'{'",
		"a{1001}":                            "repeat",
		"(":                                  "missing",
		"a)":                                 "unexpected",
		"[a":                                 "missing",
		"*":                                  "missing argument",
		"*.log":                              `any letters are ".*"`,
		"a\x01b":                             "control character",
		"a\u0085b":                           "control character",
		"\xff":                               "UTF-8",
		"((a{1000}){1000}){10}":              "repeat",
		"((a{900}){900})":                    "repeat",
		strings.Repeat(`\PL`, 2000):          "classes",
		strings.Repeat("a", 1+16<<10):        "bytes",
		strings.Repeat("(", 5000) + "a":      "missing",
		strings.Repeat("(?:a", 3000) + "{2}": "missing",
	} {
		begin := time.Now()
		err := registry.CheckPattern(pattern)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want %q", pattern, err, says)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.60q: an error of %d bytes", pattern, len(err.Error()))
		}
		if took := time.Since(begin); took > patience {
			t.Errorf("%.60q took %v", pattern, took)
		}
	}
}
