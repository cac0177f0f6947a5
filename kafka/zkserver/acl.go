package zkserver

import (
	"crypto/sha1"
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
)

// permAll is every permission there is.
const permAll = 31

// permRead is the permission to read.
const permRead = 1

// acl is a permission of a node. It is kept and shown, but never asked.
type acl struct {
	perms int32
	id    authID
}

// authID is whom a permission is for, or who a connection has proved to be.
type authID struct{ scheme, id string }

var (
	anyone  = authID{"world", "anyone"}
	openACL = []acl{{permAll, anyone}}
	readACL = []acl{{permRead, anyone}}
)

// checkACL returns the list that a node is to have when a client of the given
// identities asks for wanted: checked, without repetitions, and with "auth"
// replaced by the identities.
func checkACL(wanted []acl, own []authID) ([]acl, code) {
	if slices.Equal(wanted, openACL) {
		return openACL, codeOK // shared by nearly all nodes
	}
	var out []acl
	for i, a := range wanted {
		if slices.Contains(wanted[:i], a) {
			continue
		}
		switch a.id.scheme {
		case "auth":
			proved := false
			for _, id := range own {
				if id.scheme == "digest" { // an address proves nobody
					out = append(out, acl{a.perms, id})
					proved = true
				}
			}
			if !proved {
				return nil, codeInvalidACL
			}
		default:
			if !validID(a.id) {
				return nil, codeInvalidACL
			}
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, codeInvalidACL
	}
	return out, codeOK
}

func validID(id authID) bool {
	switch id.scheme {
	case "world":
		return id == anyone
	case "digest":
		_, hash, ok := strings.Cut(strings.TrimRight(id.id, ":"), ":")
		return ok && !strings.Contains(hash, ":")
	case "ip":
		if _, err := netip.ParseAddr(id.id); err == nil {
			return true
		}
		_, err := netip.ParsePrefix(id.id)
		return err == nil
	}
	return false
}

// authenticate returns who the sender of an auth request is from then on.
func authenticate(scheme string, proof []byte, addr netip.Addr) (authID, code) {
	switch scheme {
	case "digest":
		user, _, _ := strings.Cut(string(proof), ":")
		sum := sha1.Sum(proof)
		return authID{scheme, user + ":" + base64.StdEncoding.EncodeToString(sum[:])}, codeOK
	case "ip":
		return authID{scheme, addr.String()}, codeOK
	}
	return authID{}, codeAuthFailed
}
