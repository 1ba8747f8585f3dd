// Package sealed proves that a record in a store is as this installation wrote it: a JSON object
// that ends with an HMAC over its text and its key in the store. A client that may write to the store
// and doesn't have the installation's key can remove such a record, or put back one that it had
// under the same key, and nothing else.
package sealed

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Sealer seals records. The zero value seals nothing and takes every record.
type Sealer struct {
	// Key is the installation's, derived for the kind of record; without one nothing is sealed.
	Key []byte
	// Trusting takes records without a seal, or with a wrong one, as proven: those of a file that
	// only its owner can write, who has the key as well.
	Trusting bool
}

const (
	opening = `,"seal":"`
	closing = `"}`
)

var (
	encoding = base64.RawURLEncoding
	length   = len(opening) + encoding.EncodedLen(sha256.Size) + len(closing)
)

// Seal returns the JSON object with its seal as the last member. record is its key in the store.
// The object must have a member.
func (s Sealer) Seal(record string, object []byte) []byte {
	if len(s.Key) == 0 {
		return object
	}
	out := make([]byte, 0, len(object)-1+length)
	out = append(out, object[:len(object)-1]...)
	out = append(out, opening...)
	out = encoding.AppendEncode(out, s.sum(record, object))

	return append(out, closing...)
}

// Open returns a record's JSON object without its seal, and reports whether it is proven to be
// this installation's, under this key in the store.
func (s Sealer) Open(record string, value []byte) (object []byte, proven bool) {
	object, seal := Split(value)
	if len(s.Key) == 0 || s.Trusting {
		return object, true
	}
	if seal == "" {
		return object, false
	}
	sum, err := encoding.Strict().DecodeString(seal)

	return object, err == nil && hmac.Equal(sum, s.sum(record, object))
}

// Split takes a record apart into its JSON object and its seal, "" where it has none.
func Split(value []byte) (object []byte, seal string) {
	at := len(value) - length
	if at < 0 || !bytes.HasPrefix(value[at:], []byte(opening)) || !bytes.HasSuffix(value, []byte(closing)) {
		return value, ""
	}
	object = append(bytes.Clone(value[:at]), '}')

	return object, string(value[at+len(opening) : len(value)-len(closing)])
}

func (s Sealer) sum(record string, object []byte) []byte {
	h := hmac.New(sha256.New, s.Key)
	// Its length keeps a part of the key from being read as a part of the object.
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(record))))
	h.Write([]byte(record))
	h.Write(object)

	return h.Sum(nil)
}
