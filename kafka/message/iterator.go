package message

// Iterate returns an iterator over the messages of the set, whose first byte has
// the given offset in its partition's log: of compressed entries, those inside.
func (s Set) Iterate(offset int64) Iterator {
	return Iterator{set: s, base: offset}
}

// IterateShallow returns an iterator over the entries of the set that gives
// compressed ones as they are, each with its own offset: for those who pass
// entries on, or look at how they are stored. A payload is to be interpreted
// only if its codec is [CodecNone] (Kafka 0.7 KAFKA-613).
func (s Set) IterateShallow(offset int64) Iterator {
	return Iterator{set: s, base: offset, shallow: true}
}

// Iterator walks the messages of the complete entries of a set and checks each
// one's CRC. The zero value is an iterator over an empty set. It must not be used
// by several goroutines at once; a copy goes on from where it was made.
//
//	it := set.Iterate(offset)
//	for it.Next() {
//		use(it.Message(), it.Offset(), it.NextOffset())
//	}
//	if err := it.Err(); err != nil { … }
type Iterator struct {
	set   []byte
	base  int64
	start int // position of the current entry
	next  int // position to go on from after the current message
	msg   Message
	err   error
	tell  *error // see ReportTo

	shallow         bool
	maxDecompressed int     // 0: the default
	reuse           *[]byte // see ReuseBuffer

	// Within a compressed entry: plain entries that are still to be given, which
	// have been checked. While there are any, next is the entry's own position.
	inner []byte
	more  [][]byte // behind inner, where an entry inside was compressed again
	end   int      // position behind the compressed entry
}

// Next moves to the next message and reports whether there is one. It returns
// false at the end of the set, at a cut-off last entry, and at damage; only in
// the last case is [Iterator.Err] set. It stays false from then on.
func (it *Iterator) Next() bool {
	if len(it.inner) > 0 {
		return it.nextInner()
	}
	for it.err == nil {
		m, size, err := Parse(it.set[it.next:])
		if err != nil {
			return it.fail(err)
		}
		if size == 0 {
			return false
		}
		if it.shallow || m.Codec() == CodecNone {
			it.start, it.next, it.msg = it.next, it.next+size, m
			return true
		}
		if err := it.open(m); err != nil {
			return it.fail(err)
		}
		it.end = it.next + size
		if len(it.inner) > 0 {
			return it.nextInner()
		}
		it.start, it.next = it.next, it.end // nothing in it: an entry all the same
	}
	return false
}

// open decompresses the entry m, at next.
func (it *Iterator) open(m Message) error {
	o := opener{left: int64(maxDecompressed(it.maxDecompressed)), collect: true, reuse: it.reuse}
	if err := o.open(m, 0); err != nil {
		return err
	}
	it.inner, it.more = o.first, o.more
	return nil
}

// nextInner moves to the next message inside a compressed entry.
func (it *Iterator) nextInner() bool {
	var size int
	it.msg, size = checkedEntry(it.inner)
	it.inner = it.inner[size:]
	if len(it.inner) == 0 && len(it.more) > 0 {
		it.inner, it.more = it.more[0], it.more[1:]
	}
	it.start = it.next
	if len(it.inner) == 0 {
		it.next = it.end // the last one
	}
	return true
}

// fail ends the iteration at next.
func (it *Iterator) fail(err error) bool {
	it.err = at(err, it.base+int64(it.next))
	if it.tell != nil {
		*it.tell = it.err
	}
	return false
}

// Message returns the current message. Its payload points into the set, or into
// what was decompressed.
func (it *Iterator) Message() Message { return it.msg }

// Offset returns the offset of the current message: inside a compressed entry,
// that of the entry.
func (it *Iterator) Offset() int64 { return it.base + int64(it.start) }

// NextOffset returns the offset to go on from once the current message has been
// handled: that behind its entry or, as long as messages of the same compressed
// entry follow, that of the entry, since there is no other way to them (Kafka
// 0.7 §2.3). Before the first call of Next it is the set's own; after Next has
// returned false it is behind all that was sound.
func (it *Iterator) NextOffset() int64 { return it.base + int64(it.next) }

// ValidBytes returns how many bytes of the set were complete, undamaged entries
// of which all messages have been given; after Next returned false, of the whole
// set. It counts compressed entries as they are stored.
func (it *Iterator) ValidBytes() int { return it.next }

// Entries returns the set from the entry of the current message on, as it is stored:
// before the first call of Next the whole set.
func (it *Iterator) Entries() []byte { return it.set[it.start:] }

// Rest returns what is left behind ValidBytes.
func (it *Iterator) Rest() []byte { return it.set[it.next:] }

// Err returns the damage that ended the iteration, or nil: a [*CorruptError].
func (it *Iterator) Err() error { return it.err }

// ReportTo lets the iterator, and every copy that is made of it from then on,
// store the damage that it meets in *err too: for one who hands iterators out.
func (it *Iterator) ReportTo(err *error) { it.tell = err }

// LimitDecompressed bounds the bytes that one compressed entry may hold, over
// all its levels, at maxBytes instead of [DefaultMaxDecompressed]; 0 is that
// default. An entry with more is [ErrTooLarge].
func (it *Iterator) LimitDecompressed(maxBytes int) { it.maxDecompressed = maxBytes }

// ReuseBuffer lets the iterator decompress into *buf, for which it makes a
// longer one as needed. The payloads from a compressed entry are then valid only
// until the iterator moves on to another entry. nil, the default, is memory of
// its own for each entry.
func (it *Iterator) ReuseBuffer(buf *[]byte) { it.reuse = buf }
