package scenario

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
)

// decodeStrict decodes TOML into a struct and refuses every key that the
// struct does not know, with its line and the nearest key that is known: a
// misspelt key that is passed over measures something else than was meant.
// name is what messages call the text.
func decodeStrict(name string, text []byte, into any) error {
	md, err := toml.Decode(string(text), into)
	if err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%s:%d: %s", name, syntax.Position.Line, syntax.Message)
		}
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "toml: "))
	}
	lines := keyLines(text)
	var errs []error
	reported := map[string]bool{}
	seen := map[string]int{} // of each unknown path, so that the second one finds its own line
	for _, key := range md.Undecoded() {
		path := key.String()
		// A table that is unknown is reported once, without the keys in it.
		if parent := toml.Key(key[:len(key)-1]).String(); reported[parent] {
			reported[path] = true
			continue
		}
		reported[path] = true
		known := knownKeys(reflect.TypeOf(into), key[:len(key)-1])
		at := name
		if n := seen[path]; n < len(lines[path]) {
			at = fmt.Sprintf("%s:%d", name, lines[path][n])
		}
		seen[path]++
		errs = append(errs, fmt.Errorf("%s: unknown key %q%s", at, path, suggest(key[len(key)-1], known)))
	}
	return errors.Join(errs...)
}

// suggest names the known word that is nearest to the unknown one, or all of
// them if none is near.
func suggest(unknown string, known []string) string {
	best, distance := "", 4
	for _, k := range known {
		if d := editDistance(unknown, k); d < distance {
			best, distance = k, d
		}
	}
	switch {
	case best != "" && distance <= 1+len(unknown)/3:
		return fmt.Sprintf("; did you mean %q?", best)
	case len(known) > 0:
		return "; known here are " + strings.Join(known, ", ")
	}
	return ""
}

// editDistance is the number of letters to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// knownKeys lists the keys of the table at the path, sorted, or nil if that is
// no table of fixed keys.
func knownKeys(t reflect.Type, path []string) []string {
	t = structOf(t)
	for _, name := range path {
		if t == nil {
			return nil
		}
		f, ok := fieldOf(t, name)
		if !ok {
			return nil
		}
		t = structOf(f.Type)
	}
	if t == nil {
		return nil
	}
	var keys []string
	for i := range t.NumField() {
		if tag := tomlName(t.Field(i)); tag != "" {
			keys = append(keys, tag)
		}
	}
	sort.Strings(keys)
	return keys
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if tomlName(t.Field(i)) == key {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

// structOf returns the struct below pointers and slices, or nil.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func tomlName(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	if tag == "-" || !f.IsExported() {
		return ""
	}
	return tag
}

// keyLines maps each key path of a TOML text to the lines on which it stands,
// in order. The decoder keeps no line for keys that it does not know, so that
// they are looked for here; an exotic spelling (a quoted key, a dotted one) is
// simply not found.
func keyLines(text []byte) map[string][]int {
	lines := map[string][]int{}
	table := ""
	scan := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			table = strings.Trim(strings.TrimSpace(strings.SplitN(line, "#", 2)[0]), "[] ")
			lines[table] = append(lines[table], n)
		default:
			key, _, ok := strings.Cut(line, "=")
			if !ok {
				continue
			}
			key = strings.TrimSpace(key)
			if table != "" {
				key = table + "." + key
			}
			lines[key] = append(lines[key], n)
		}
	}
	return lines
}
