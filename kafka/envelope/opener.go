package envelope

// Opener opens envelopes as [Open] does, and allocates nothing for a server whose
// name it has met before. The zero Opener is ready for use, by one goroutine.
type Opener struct {
	last  string
	names map[string]string
}

// maxNames bounds the names that an Opener remembers: servers are named by whoever
// publishes. Those beyond it are copied each time.
const maxNames = 4096

// Open is [Open].
func (o *Opener) Open(payload []byte) (Header, []byte, error) {
	h, server, body, err := open(payload)
	if err == nil {
		h.Server = o.name(server)
	}
	return h, body, err
}

// name returns the text of a name. The conversions in comparisons and look-ups copy
// nothing.
func (o *Opener) name(b []byte) string {
	if string(b) == o.last {
		return o.last
	}
	name, known := o.names[string(b)]
	if !known {
		name = string(b)
		if o.names == nil {
			o.names = make(map[string]string)
		}
		if len(o.names) < maxNames {
			o.names[name] = name
		}
	}
	o.last = name
	return name
}
