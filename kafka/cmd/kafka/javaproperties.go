package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Kafka 0.7 reads its configuration with java.util.Properties, and so do we:
//
//   - A line is a key and a value, divided by '=', ':' or blanks, or by blanks
//     around one of the first two. Blanks (space, tab, form feed) before the key
//     do not count, those behind the value do.
//   - Empty lines are skipped, and those whose first character is '#' or '!'.
//   - A line that ends with an odd number of '\' goes on in the next one, without
//     that line's leading blanks.
//   - \t \n \r \f and \uXXXX stand for a character; before every other character
//     '\' means that character itself, which so can be part of a key.
//
// In one thing this reader differs: the file is UTF-8, where Java takes it for
// ISO 8859-1. Java's own files look the same in both, as it escapes the rest.

// javaProperty is a key of such a file, its value, and the line that it begins
// in, from 1.
type javaProperty struct {
	key, value string
	line       int
}

// javaBlanks divide a key from its value. Line ends are not among them.
const javaBlanks = " \t\f"

// parseJavaProperties takes a file apart. Keys may stand there twice, and be
// empty.
func parseJavaProperties(text string) ([]javaProperty, error) {
	text = strings.TrimPrefix(text, "\ufeff") // what some editors begin a file with
	var properties []javaProperty
	lines := javaLines{rest: text, next: 1}
	for {
		line, n, ok := lines.logical()
		if !ok {
			return properties, nil
		}
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("line %d: %.40q is not UTF-8: save the file in that encoding, or write \\uXXXX", n, line)
		}
		key, value, err := splitJavaProperty(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		properties = append(properties, javaProperty{key, value, n})
	}
}

// javaLines gives the lines of a properties file.
type javaLines struct {
	rest string
	next int // number of the line that rest begins with
}

// natural returns the next line as it stands there, without its end.
func (l *javaLines) natural() string {
	l.next++
	line, rest := l.rest, ""
	if i := strings.IndexAny(l.rest, "\r\n"); i >= 0 {
		line, rest = l.rest[:i], l.rest[i+1:]
		if l.rest[i] == '\r' {
			rest = strings.TrimPrefix(rest, "\n")
		}
	}
	l.rest = rest
	return line
}

// logical returns the next line that has something to say, together with those
// in which it goes on, and the number of the first. ok is false at the end.
func (l *javaLines) logical() (line string, number int, ok bool) {
	for l.rest != "" {
		number = l.next
		first := strings.TrimLeft(l.natural(), javaBlanks)
		if first == "" || first[0] == '#' || first[0] == '!' {
			continue
		}
		var whole strings.Builder
		for part := first; ; part = strings.TrimLeft(l.natural(), javaBlanks) {
			if !goesOn(part) {
				whole.WriteString(part)
				break
			}
			whole.WriteString(part[:len(part)-1])
			if l.rest == "" {
				break
			}
		}
		if whole.Len() > 0 {
			return whole.String(), number, true
		}
	}
	return "", 0, false
}

// goesOn reports whether a line is continued: an even number of backslashes at
// its end are backslashes.
func goesOn(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitJavaProperty divides a logical line.
func splitJavaProperty(line string) (key, value string, err error) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=:"+javaBlanks, rune(line[end])) {
		if line[end] == '\\' {
			end++ // whatever follows is part of the key
		}
		end++
	}
	rest := strings.TrimLeft(line[end:], javaBlanks)
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], javaBlanks)
	}
	if key, err = unescapeJava(line[:end]); err != nil {
		return "", "", err
	}
	value, err = unescapeJava(rest)
	return key, value, err
}

// unescapeJava resolves the escapes of a part of a logical line. Each backslash
// has a character behind it: the last one of a line would have continued it.
func unescapeJava(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, size, err := javaCodePoint(s[i-1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += size - 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// javaCodePoint reads \uXXXX, or two of them that are one character beyond
// U+FFFF, and returns how many bytes they take.
func javaCodePoint(s string) (r rune, size int, err error) {
	const one = len(`\uXXXX`)
	unit := func(at int) (rune, bool) {
		if len(s) < at+one || s[at:at+2] != `\u` {
			return 0, false
		}
		n, err := strconv.ParseUint(s[at+2:at+one], 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(0)
	if !ok {
		return 0, 0, fmt.Errorf("%.6q is no \\uXXXX with four hexadecimal digits", s)
	}
	if !utf16.IsSurrogate(r) {
		return r, one, nil
	}
	if low, ok := unit(one); ok {
		if whole := utf16.DecodeRune(r, low); whole != unicode.ReplacementChar {
			return whole, 2 * one, nil
		}
	}
	return 0, 0, fmt.Errorf("%.6s is half of a character, and the other half does not follow", s)
}
