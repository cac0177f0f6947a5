package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// ProducerID is the name of one life of a producer: random, so that none has to be
// handed out and that a restarted producer, whose sequences begin anew, is another
// one.
type ProducerID [16]byte

// NewProducerID returns an id that no other producer has.
func NewProducerID() ProducerID {
	var id ProducerID
	for id == (ProducerID{}) {
		rand.Read(id[:]) // never fails, as its documentation says
	}
	return id
}

// String returns the id as 32 hexadecimal digits.
func (id ProducerID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText is [ProducerID.String].
func (id ProducerID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *ProducerID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(id)) {
		return fmt.Errorf("producer id %.40q: %d hexadecimal digits are wanted", text, hex.EncodedLen(len(id)))
	}
	if _, err := hex.Decode(id[:], text); err != nil {
		return fmt.Errorf("producer id %q: %w", text, err)
	}
	return nil
}
