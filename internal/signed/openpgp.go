package signed

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// readPGP reads one armoured block of public keys.
func readPGP(block string) (openpgp.EntityList, error) {
	list, err := openpgp.ReadArmoredKeyRing(strings.NewReader(block))
	if err != nil {
		return nil, fmt.Errorf("the OpenPGP key can't be read: %w", err)
	}
	for _, e := range list {
		if e.PrivateKey != nil {
			return nil, errors.New("this is a private OpenPGP key: give the public one alone, and make a new key as this one isn't secret any more")
		}
		if self, _ := e.PrimarySelfSignature(); self == nil {
			return nil, fmt.Errorf("the OpenPGP key %X isn't signed by itself", e.PrimaryKey.Fingerprint)
		}
	}
	return list, nil
}

// bareSignature is a signature packet of OpenPGP as it stands, before anything is computed.
type bareSignature struct {
	kind, algorithm, hash byte
	issuers               [][]byte // ids and fingerprints in the part that isn't signed
	tag                   [2]byte
}

// hashes are the digest algorithms that are taken, by their numbers in OpenPGP.
var hashes = map[byte]crypto.Hash{8: crypto.SHA256, 9: crypto.SHA384, 10: crypto.SHA512}

// parsePGP returns the signature packet in the armour, which must be the only one. It refuses
// everything that could be changed without effect on the signature.
func parsePGP(text string) ([]byte, bareSignature, error) {
	var none bareSignature
	lines, err := unarmor(text, beginPGP, endPGP)
	if err != nil {
		return nil, none, err
	}
	if lines[0] != "" {
		return nil, none, refuse("its signature has armour headers, which nobody signs: make it with --no-emit-version and --no-comments")
	}
	lines = lines[1:]
	sum := ""
	if n := len(lines) - 1; n >= 0 && len(lines[n]) == 5 && lines[n][0] == '=' {
		sum, lines = lines[n][1:], lines[:n]
	}
	data, err := decodeLines(lines)
	if err != nil {
		return nil, none, err
	}
	if sum != "" {
		want := binary.BigEndian.AppendUint32(nil, crc24(data))[1:]
		if sum != base64.StdEncoding.EncodeToString(want) {
			return nil, none, refuse("the checksum of its signature is wrong")
		}
	}
	body, err := packetBody(data)
	if err != nil {
		return nil, none, err
	}
	bare, err := parseBare(body)
	return data, bare, err
}

// packetBody is the content of the only packet, which is a signature.
func packetBody(data []byte) ([]byte, error) {
	bad := refuse("its signature isn't one packet of OpenPGP")
	if len(data) < 3 {
		return nil, bad
	}
	head, size := 0, 0
	switch first := data[0]; {
	case first == 0x88: // the old format, a length of one byte
		head, size = 2, int(data[1])
	case first == 0x89: // of two bytes
		head, size = 3, int(binary.BigEndian.Uint16(data[1:]))
		if size < 256 {
			return nil, bad
		}
	case first == 0xc2 && data[1] < 192: // the new format
		head, size = 2, int(data[1])
	case first == 0xc2 && data[1] < 224:
		head, size = 3, int(data[1]-192)<<8+int(data[2])+192
	default:
		return nil, bad
	}
	if len(data) != head+size {
		return nil, bad
	}
	return data[head:], nil
}

// parseBare reads the fields of a signature of version 4 (RFC 9580 clause 5.2.3).
func parseBare(b []byte) (s bareSignature, err error) {
	bad := refuse("its signature isn't one of OpenPGP's version 4")
	if len(b) < 6 || b[0] != 4 {
		return s, bad
	}
	s.kind, s.algorithm, s.hash = b[1], b[2], b[3]
	part := func(from []byte) (inside, rest []byte, ok bool) {
		if len(from) < 2 {
			return nil, nil, false
		}
		n := int(binary.BigEndian.Uint16(from))
		if len(from) < 2+n {
			return nil, nil, false
		}
		return from[2 : 2+n], from[2+n:], true
	}
	_, rest, ok := part(b[4:])
	if !ok {
		return s, bad
	}
	open, rest, ok := part(rest)
	if !ok || len(rest) < 2 {
		return s, bad
	}
	for len(open) > 0 {
		n := int(open[0])
		if n < 2 || n >= 192 || len(open) < 1+n {
			return s, bad
		}
		switch sub := open[1 : 1+n]; {
		case sub[0] == 16 && n == 9:
			s.issuers = append(s.issuers, sub[1:])
		case sub[0] == 33 && n == 22 && sub[1] == 4:
			s.issuers = append(s.issuers, sub[2:])
		default:
			return s, refuse("its signature holds something that isn't signed")
		}
		open = open[1+n:]
	}
	copy(s.tag[:], rest)
	if !exact(rest[2:], s.algorithm) {
		return s, bad
	}
	return s, nil
}

// exact says whether the numbers of a signature are written in the only way that there is, and
// nothing follows.
func exact(b []byte, algorithm byte) bool {
	numbers := map[byte]int{1: 1, 3: 1, 19: 2, 22: 2}[algorithm] // RSA, ECDSA, EdDSA
	if algorithm == 27 {                                         // Ed25519
		return len(b) == 64
	}
	if numbers == 0 {
		return false
	}
	for range numbers {
		if len(b) < 3 {
			return false
		}
		n := int(binary.BigEndian.Uint16(b))
		size := (n + 7) / 8
		if n == 0 || len(b) < 2+size || bits.Len8(b[2]) != (n-1)%8+1 {
			return false
		}
		b = b[2+size:]
	}
	return len(b) == 0
}

func (k *Keys) verifyPGP(o object, now time.Time) (Signer, error) {
	data, bare, err := parsePGP(o.signature)
	if err != nil {
		return Signer{}, err
	}
	hash, taken := hashes[bare.hash]
	switch {
	case !taken:
		return Signer{}, refuse("its signature's digest algorithm isn't taken: use SHA-256, SHA-384 or SHA-512")
	case bare.kind != byte(packet.SigTypeBinary):
		return Signer{}, refuse("its signature isn't one of a document")
	}
	p, err := packet.Read(bytes.NewReader(data))
	sig, ok := p.(*packet.Signature)
	if err != nil || !ok || sig.IssuerKeyId == nil || sig.Hash != hash {
		return Signer{}, refuse("its signature isn't one of OpenPGP's that names its key")
	}
	keys := k.pgp.KeysByIdUsage(*sig.IssuerKeyId, packet.KeyFlagSign)
	if len(keys) == 0 {
		return Signer{}, refuse("its key %016X isn't one of those that are trusted, or isn't for signing", *sig.IssuerKeyId)
	}
	h := hash.New()
	h.Write(o.payload)
	h.Write(sig.HashSuffix)
	if sum := h.Sum(nil); [2]byte(sum) != bare.tag {
		return Signer{}, refuse("its signature doesn't hold: the %s was changed after it was signed", o.kind)
	}
	// One key is looked at in each turn, so that the one that holds is known.
	for _, key := range keys {
		if err = usable(key, bare); err != nil {
			continue
		}
		only := openpgp.EntityList{key.Entity}
		if _, err = openpgp.CheckDetachedSignature(only, bytes.NewReader(o.payload), bytes.NewReader(data), &packet.Config{Time: func() time.Time { return now }}); err != nil {
			err = inWords(err, o.kind)
			continue
		}
		return Signer{Name: nameOf(key.Entity), Key: fmt.Sprintf("%X", key.PublicKey.Fingerprint), Until: ends(key, sig)}, nil
	}
	return Signer{}, err
}

// usable refuses a key that is weak, or isn't the one that the signature names.
func usable(key openpgp.Key, bare bareSignature) error {
	pub := key.PublicKey
	switch pub.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly:
		if n, err := pub.BitLength(); err != nil || n < minRSA {
			return refuse("its RSA key of %d bits isn't taken: use %d or more", n, minRSA)
		}
	case packet.PubKeyAlgoECDSA, packet.PubKeyAlgoEdDSA, packet.PubKeyAlgoEd25519:
	default:
		return refuse("its key is of a kind that isn't taken: use RSA, ECDSA or EdDSA")
	}
	if byte(pub.PubKeyAlgo) != bare.algorithm {
		return refuse("its signature is of another kind than its key")
	}
	if key.PublicKey != key.Entity.PrimaryKey && (key.SelfSignature == nil || key.SelfSignature.EmbeddedSignature == nil) {
		return refuse("its subkey hasn't signed for its key")
	}
	if slices.ContainsFunc(bare.issuers, func(id []byte) bool { return !bytes.HasSuffix(pub.Fingerprint, id) }) {
		return refuse("its signature names another key")
	}
	return nil
}

// inWords says why the library refuses a signature.
func inWords(err error, kind string) error {
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return refuse("its key was revoked")
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return refuse("its key has expired")
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		return refuse("its signature, or that of its key, has expired or is of the future")
	}
	return refuse("its signature doesn't hold: the %s was changed after it was signed", kind)
}

// ends is when the signature or its key expires, zero for never.
func ends(key openpgp.Key, sig *packet.Signature) time.Time {
	var first time.Time
	add := func(from time.Time, seconds *uint32) {
		if seconds == nil || *seconds == 0 {
			return
		}
		if at := from.Add(time.Duration(*seconds) * time.Second); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	self, _ := key.Entity.PrimarySelfSignature()
	add(sig.CreationTime, sig.SigLifetimeSecs)
	add(self.CreationTime, self.SigLifetimeSecs)
	add(key.Entity.PrimaryKey.CreationTime, self.KeyLifetimeSecs)
	if key.SelfSignature != nil {
		add(key.PublicKey.CreationTime, key.SelfSignature.KeyLifetimeSecs)
		add(key.SelfSignature.CreationTime, key.SelfSignature.SigLifetimeSecs)
	}
	return first
}

// nameOf is the user id of the key.
func nameOf(e *openpgp.Entity) string {
	if id := e.PrimaryIdentity(); id != nil && id.Name != "" {
		return id.Name
	}
	return "a key without a user id"
}
