package producer

import (
	"math/rand/v2"
	"unicode/utf16"
	"unicode/utf8"
)

// Partitioner chooses the partition of a message by its key (NetDB'11 §3.2). It is
// asked by several goroutines at once, and only for messages that have a key:
// those without go to any partition.
type Partitioner interface {
	// Partition returns an index, from 0 and below n, into the partitions of a
	// topic, sorted by broker id and then by number. Anything else makes Send fail.
	Partition(topic string, key []byte, n int) int
}

// HashPartitioner is the partitioner of Kafka 0.7: the hash that Java has for the
// key as a string, modulo n, so that producers of both kinds agree. One hash is
// excepted, whose absolute value 32 bits cannot hold: 0.7 fails unless n divides it.
//
// A key that is UTF-8 is that text. Any other key stands for the text that has its
// bytes as characters, as ISO 8859-1 reads them, so that binary keys that differ
// are different keys.
type HashPartitioner struct{}

// Partition implements [Partitioner].
func (HashPartitioner) Partition(_ string, key []byte, n int) int {
	h := int64(javaHash(key))
	if h < 0 {
		h = -h
	}
	return int(h % int64(n))
}

// javaHash is the hash of java.lang.String over UTF-16 units: 31 times what came
// before, plus the unit, in 32 bits.
func javaHash(key []byte) (h int32) {
	if !utf8.Valid(key) {
		for _, b := range key {
			h = 31*h + int32(b)
		}
		return h
	}
	for len(key) > 0 {
		if key[0] < utf8.RuneSelf {
			h, key = 31*h+int32(key[0]), key[1:]
			continue
		}
		r, size := utf8.DecodeRune(key)
		key = key[size:]
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			h = 31*(31*h+high) + low
			continue
		}
		h = 31*h + r
	}
	return h
}

// RandomPartitioner spreads all messages evenly, whatever their keys are. The order
// of messages with the same key is then not kept, and so all of them can go on to
// brokers that live when one fails.
type RandomPartitioner struct{}

// Partition implements [Partitioner].
func (RandomPartitioner) Partition(_ string, _ []byte, n int) int { return rand.IntN(n) }
