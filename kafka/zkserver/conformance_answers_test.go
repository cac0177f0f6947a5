package zkserver_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

func (p *player) zxid(z int64) string {
	if z <= 0 {
		return strconv.FormatInt(z, 10)
	}
	return fmt.Sprintf("%+d", z-p.base)
}

// strip takes the script's own node off a path.
func (p *player) strip(path string) string {
	switch rest, ok := strings.CutPrefix(path, p.root()); {
	case ok && rest == "":
		return "/"
	case ok:
		return rest
	default:
		return "=" + path
	}
}

// describe writes an answer down.
func (p *player) describe(a zktest.Answer, command string) string {
	text := "zxid=" + p.zxid(a.Zxid)
	switch a.Xid {
	case zktest.XidPing:
		text += " ping"
	case zktest.XidAuth:
		text += " auth"
	}
	if a.Code != codeOK {
		text += " " + codeName(a.Code)
	}
	if len(a.Body) == 0 {
		return text
	}
	r := zktest.NewReader(a.Body)
	text += p.body(strings.TrimSuffix(command, "w"), r)
	if r.Err() != nil {
		text += " " + r.Err().Error()
	}
	if n := len(r.Rest()); n > 0 {
		text += fmt.Sprintf(" and %d bytes more", n)
	}
	return text
}

func (p *player) body(command string, r *zktest.Reader) string {
	switch command {
	case "create", "sync":
		return " " + p.strip(r.String())
	case "create2", "createcontainer", "createttl":
		return " " + p.strip(r.String()) + p.stat(r)
	case "exists", "set", "setacl":
		return p.stat(r)
	case "get":
		return data(r) + p.stat(r)
	case "children":
		return names(r)
	case "children2":
		return names(r) + p.stat(r)
	case "getephemerals":
		list := r.Strings()
		for i := range list {
			list[i] = p.strip(list[i])
		}
		slices.Sort(list)
		return " " + fmt.Sprint(list)
	case "childrennumber", "addwatch":
		return fmt.Sprintf(" %d", r.Int())
	case "whoami":
		var list []string
		for n := r.Int(); n > 0 && r.Err() == nil; n-- {
			list = append(list, r.String()+":"+r.String())
		}
		slices.Sort(list)
		return " " + fmt.Sprint(list)
	case "getacl":
		text := ""
		for n := r.Int(); n > 0 && r.Err() == nil; n-- {
			text += fmt.Sprintf(" %d:%s:%s", r.Int(), r.String(), r.String())
		}
		return text + p.stat(r)
	case "multi", "multiread":
		return p.multi(r)
	default:
		return "" // what is there is counted
	}
}

func data(r *zktest.Reader) string {
	b := r.Buffer()
	if b == nil {
		return " nil"
	}
	return " " + strconv.Quote(string(b))
}

func names(r *zktest.Reader) string {
	list := r.Strings()
	slices.Sort(list) // the real server's order is that of a hash table
	return " " + fmt.Sprint(list)
}

func (p *player) multi(r *zktest.Reader) string {
	text := ""
	for r.Err() == nil {
		op, done, code := r.Int(), r.Bool(), r.Int()
		if done {
			return text + fmt.Sprintf(" | end %d %d", op, code)
		}
		text += " |"
		if code != 0 {
			text += " " + codeName(code)
		}
		switch kind := zktest.Op(op); kind {
		case -1:
			text += " error " + codeName(r.Int())
		case zktest.OpCreate:
			text += " create" + p.body("create", r)
		case zktest.OpCreate2:
			text += " create2" + p.body("create2", r)
		case zktest.OpSetData:
			text += " set" + p.stat(r)
		case zktest.OpGetData:
			text += " get" + p.body("get", r)
		case zktest.OpGetChildren:
			text += " children" + p.body("children", r)
		case zktest.OpDelete, zktest.OpCheck:
			text += " " + kind.String()
		default:
			return text + fmt.Sprintf(" result of kind %d", op)
		}
	}
	return text
}

// stat writes a stat down, without its times, which must be of now.
func (p *player) stat(r *zktest.Reader) string {
	s := r.Stat()
	if r.Err() != nil {
		return ""
	}
	text := fmt.Sprintf(" czxid=%s mzxid=%s pzxid=%s version=%d cversion=%d aversion=%d", p.zxid(s.Czxid), p.zxid(s.Mzxid), p.zxid(s.Pzxid), s.Version, s.Cversion, s.Aversion)
	if s.EphemeralOwner != 0 {
		owner := p.names[s.EphemeralOwner]
		if owner == "" {
			owner = fmt.Sprintf("%#x", uint64(s.EphemeralOwner))
		}
		text += " owner=" + owner
	}
	text += fmt.Sprintf(" length=%d children=%d", s.DataLength, s.NumChildren)
	for _, ms := range []int64{s.Ctime, s.Mtime} {
		if at := time.UnixMilli(ms); at.Before(p.begin.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			text += fmt.Sprintf(" made or changed at %v", at)
		}
	}
	if s.Mtime < s.Ctime {
		text += " changed before it was made"
	}
	return text
}

var codeNames = map[int32]string{
	codeSystemError: "SystemError", codeRuntimeInconsistency: "RuntimeInconsistency", codeMarshallingError: "MarshallingError",
	codeUnimplemented: "Unimplemented", codeBadArguments: "BadArguments", codeNoNode: "NoNode", codeNoAuth: "NoAuth",
	codeBadVersion: "BadVersion", codeNoChildrenForEphemerals: "NoChildrenForEphemerals", codeNodeExists: "NodeExists",
	codeNotEmpty: "NotEmpty", codeSessionExpired: "SessionExpired", codeInvalidACL: "InvalidACL", codeAuthFailed: "AuthFailed",
	codeSessionMoved: "SessionMoved", codeNoWatcher: "NoWatcher",
}

func codeName(code int32) string {
	if n := codeNames[code]; n != "" {
		return n
	}
	return "code " + strconv.Itoa(int(code))
}

func eventName(kind int32) string {
	switch kind {
	case eventCreated:
		return "created"
	case eventDeleted:
		return "deleted"
	case eventDataChanged:
		return "data changed"
	case eventChildrenChanged:
		return "children changed"
	default:
		return "of type " + strconv.Itoa(int(kind))
	}
}
