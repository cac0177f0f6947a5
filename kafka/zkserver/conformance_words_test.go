package zkserver_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"kafkalab/kafka/kafkatest/zktest"
)

// splitWords cuts a line at its spaces, but for those in quotes.
func splitWords(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quoted, err)
		}
		words, line = append(words, word), line[len(quoted):]
	}
	return words, nil
}

// arguments are the words behind a command.
type arguments struct {
	words []string
	root  string // goes before paths
	base  int64  // from which changes are counted
	err   error
}

func (a *arguments) next() string {
	if len(a.words) == 0 {
		a.err = errors.New("too few words")
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// path returns a path as the server takes it.
func (a *arguments) path() string {
	w := a.next()
	if literal, ok := strings.CutPrefix(w, "="); ok {
		return literal
	}
	if w == "/" {
		return a.root
	}
	return a.root + w
}

func (a *arguments) data() []byte {
	switch w := a.next(); w {
	case "nil":
		return nil
	default:
		return []byte(w)
	}
}

// number returns the next word as a number, or another if there is none.
func (a *arguments) number(otherwise int64) int64 {
	if len(a.words) == 0 {
		return otherwise
	}
	n, err := strconv.ParseInt(a.next(), 0, 64)
	if err != nil {
		a.err = err
	}
	return n
}

// modes are the words for the flags of create.
var modes = map[string]int32{"persistent": 0, "ephemeral": 1, "sequential": 2, "ephemeral-sequential": 3, "container": 4, "ttl": 5, "ttl-sequential": 6}

// mode reads the flags of create: a word of modes, or a number.
func (a *arguments) mode() int32 {
	if len(a.words) == 0 {
		return 0
	}
	if m, ok := modes[a.words[0]]; ok {
		a.words = a.words[1:]
		return m
	}
	return int32(a.number(0))
}

// acl reads the ACL of create and setacl: nothing for an open one, "none" for an
// empty list, "null", or entries PERMS:SCHEME:ID.
func (a *arguments) acl(body zktest.Fields) zktest.Fields {
	switch {
	case len(a.words) == 0:
		return body.OpenACL()
	case a.words[0] == "none":
		a.next()
		return body.Int(0)
	case a.words[0] == "null":
		a.next()
		return body.Int(-1)
	}
	body = body.Int(int32(len(a.words)))
	for len(a.words) > 0 {
		entry := strings.SplitN(a.next(), ":", 3)
		if len(entry) != 3 {
			a.err = errors.New("an entry of an ACL is PERMS:SCHEME:ID")
			return body
		}
		perms, err := strconv.Atoi(entry[0])
		if err != nil {
			a.err = err
		}
		body = body.Int(int32(perms)).String(entry[1]).String(entry[2])
	}
	return body
}

// noCommand is no request of the protocol.
const noCommand zktest.Op = -1

// request returns what a command sends. A "w" at the end of those that read sets a
// watch.
func request(command string, a *arguments) (op zktest.Op, body zktest.Fields, err error) {
	op, body = build(command, a)
	switch {
	case op == noCommand:
		return 0, nil, fmt.Errorf("no command %q", command)
	case a.err != nil:
		return 0, nil, a.err
	case len(a.words) > 0:
		return 0, nil, fmt.Errorf("%q is too much", a.words)
	}
	return op, body, nil
}

func build(command string, a *arguments) (zktest.Op, zktest.Fields) {
	var f zktest.Fields
	reads := map[string]zktest.Op{"exists": zktest.OpExists, "get": zktest.OpGetData, "children": zktest.OpGetChildren, "children2": zktest.OpGetChildren2}
	base, watch := strings.CutSuffix(command, "w")
	if op := reads[base]; op != 0 {
		return op, f.String(a.path()).Bool(watch)
	}
	switch command {
	case "create", "create2", "createcontainer", "createttl":
		return buildCreate(command, a)
	case "set":
		return zktest.OpSetData, f.String(a.path()).Buffer(a.data()).Int(int32(a.number(-1)))
	case "delete":
		return zktest.OpDelete, f.String(a.path()).Int(int32(a.number(-1)))
	case "check":
		return zktest.OpCheck, f.String(a.path()).Int(int32(a.number(-1)))
	case "sync":
		return zktest.OpSync, f.String(a.path())
	case "getacl":
		return zktest.OpGetACL, f.String(a.path())
	case "setacl":
		f = f.String(a.path())
		version := int32(a.number(-1))
		return zktest.OpSetACL, a.acl(f).Int(version)
	case "multi":
		return zktest.OpMulti, buildMulti(a)
	case "multiread":
		return zktest.OpMultiRead, buildMulti(a)
	case "ping":
		return zktest.OpPing, nil
	case "whoami":
		return zktest.OpWhoAmI, nil
	case "close":
		return zktest.OpCloseSession, nil
	case "auth":
		return zktest.OpAuth, f.Int(0).String(a.next()).Buffer([]byte(a.next()))
	case "setwatches", "setwatches2":
		return buildSetWatches(command, a)
	case "addwatch":
		return zktest.OpAddWatch, f.String(a.path()).Int(int32(a.number(0)))
	case "removewatches":
		return zktest.OpRemoveWatches, f.String(a.path()).Int(int32(a.number(3)))
	case "checkwatches":
		return zktest.OpCheckWatches, f.String(a.path()).Int(int32(a.number(3)))
	case "getephemerals":
		return zktest.OpGetEphemerals, f.String(a.path())
	case "childrennumber":
		return zktest.OpChildrenNumber, f.String(a.path())
	case "op": // a number, and the body as a string
		n := a.number(0)
		return zktest.Op(n), zktest.Fields(a.next())
	}
	return noCommand, nil
}

func buildCreate(command string, a *arguments) (zktest.Op, zktest.Fields) {
	f := zktest.Fields{}.String(a.path()).Buffer(a.data())
	switch command {
	case "createcontainer":
		return zktest.OpCreateContainer, f.OpenACL().Int(modes["container"])
	case "createttl":
		mode, ttl := a.mode(), a.number(1000)
		return zktest.OpCreateTTL, f.OpenACL().Int(mode).Long(ttl)
	}
	mode := a.mode()
	f = a.acl(f).Int(mode)
	if command == "create2" {
		return zktest.OpCreate2, f
	}
	return zktest.OpCreate, f
}

// buildMulti reads commands with ";" between them.
func buildMulti(a *arguments) zktest.Fields {
	var f zktest.Fields
	for len(a.words) > 0 && a.err == nil {
		part := *a
		part.words = nil
		for len(a.words) > 0 {
			w := a.next()
			if w == ";" {
				break
			}
			part.words = append(part.words, w)
		}
		op, body, err := request(part.next(), &part)
		if err != nil {
			a.err = err
		}
		f = append(f.Int(int32(op)).Bool(false).Int(-1), body...)
	}
	return f.Int(-1).Bool(true).Int(-1)
}

// buildSetWatches reads the number of the last change that was seen, counted from
// the start of the script, and lists of paths behind "data", "exist", "child",
// "persistent" and "recursive".
func buildSetWatches(command string, a *arguments) (zktest.Op, zktest.Fields) {
	lists := map[string][]string{}
	kinds := []string{"data", "exist", "child", "persistent", "recursive"}
	seen := a.base + a.number(0)
	kind := ""
	for len(a.words) > 0 {
		if w := a.words[0]; lists[w] == nil && strings.Contains(" "+strings.Join(kinds, " ")+" ", " "+w+" ") {
			kind = a.next()
			continue
		}
		lists[kind] = append(lists[kind], a.path())
	}
	f := zktest.Fields{}.Long(seen)
	n, op := 3, zktest.OpSetWatches
	if command == "setwatches2" {
		n, op = 5, zktest.OpSetWatches2
	}
	for _, k := range kinds[:n] {
		f = f.Strings(lists[k]...)
	}
	return op, f
}
