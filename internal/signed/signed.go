// Package signed says who has signed a git commit or tag, by keys that somebody trusts: SSH
// keys, listed as ssh-keygen lists allowed signers, and OpenPGP keys. It works on the raw bytes
// of objects, starts no process and asks nobody.
//
// It is stricter than git: one byte that differs anywhere in an object makes it another object
// or one that is refused. So an object has one signature in one place and in one way of writing
// it, and nothing may stand in it that neither the signature covers nor the key explains.
package signed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// ErrNotVerified is returned for an object that none of the trusted keys has signed, or whose
// signature doesn't hold, or whose key counts no more.
var ErrNotVerified = errors.New("it isn't signed by a trusted key")

// ErrNoSignature is returned, with [ErrNotVerified], for an object that nobody has signed: another
// one may be signed in its place.
var ErrNoSignature = errors.New("there is no signature")

// Signer is who has signed.
type Signer struct {
	// Name is the principals of the line in the list of allowed signers, or the user id of the
	// OpenPGP key.
	Name string
	// Key is the fingerprint of the key: "SHA256:…" of an SSH key, hexadecimal digits of an
	// OpenPGP one.
	Key string
	// Until is when the key or the signature ends; zero is never.
	Until time.Time
}

func (s Signer) String() string { return s.Name + " (" + s.Key + ")" }

// Names are what the signer may be called: each principal of the line, or the user id and the
// address in it. A principal is a name here, not a pattern.
func (s Signer) Names() []string {
	if strings.HasPrefix(s.Key, "SHA256:") {
		return strings.Split(s.Name, ",")
	}
	names := []string{s.Name}
	if _, address, ok := strings.Cut(s.Name, "<"); ok {
		names = append(names, strings.TrimSuffix(address, ">"))
	}
	return names
}

// Keys are trusted keys. They never change. The zero value trusts nobody.
type Keys struct {
	ssh    []allowed
	pgp    openpgp.EntityList
	digest string
}

// maxText bounds the text of keys, in bytes.
const maxText = 1 << 20

// Where a public key of OpenPGP begins and ends in a text of keys.
const (
	beginPGPKey = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	endPGPKey   = "-----END PGP PUBLIC KEY BLOCK-----"
)

// ParseKeys reads lines of allowed signers as in ssh-keygen(1), and ASCII-armoured OpenPGP public
// keys between them, in any order. A text without a key is an error, as is a line that can't be
// used: nobody should believe that it counts.
func ParseKeys(text string) (*Keys, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("trusted keys: more than %d bytes", maxText)
	}
	sum := sha256.Sum256([]byte(text))
	k := &Keys{digest: hex.EncodeToString(sum[:])}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == beginPGPKey:
			end := i
			for end < len(lines) && strings.TrimSpace(lines[end]) != endPGPKey {
				end++
			}
			if end == len(lines) {
				return nil, fmt.Errorf("trusted keys: line %d: the OpenPGP key has no end", i+1)
			}
			list, err := readPGP(strings.Join(lines[i:end+1], "\n") + "\n")
			if err != nil {
				return nil, fmt.Errorf("trusted keys: line %d: %w", i+1, err)
			}
			k.pgp = append(k.pgp, list...)
			i = end
		default:
			a, err := parseAllowed(line)
			if err != nil {
				return nil, fmt.Errorf("trusted keys: line %d: %w", i+1, err)
			}
			k.ssh = append(k.ssh, a)
		}
	}
	if len(k.ssh)+len(k.pgp) == 0 {
		return nil, errors.New("trusted keys: there is none: give lines of allowed signers (ssh-keygen), or OpenPGP public keys in ASCII armour")
	}
	return k, nil
}

// Digest is equal for keys that were read from the same text.
func (k *Keys) Digest() string { return k.digest }

// And returns the keys of both. Either may be nil.
func (k *Keys) And(more *Keys) *Keys {
	if k == nil || more == nil {
		if k == nil {
			return more
		}
		return k
	}
	return &Keys{
		ssh: append(k.ssh[:len(k.ssh):len(k.ssh)], more.ssh...), pgp: append(k.pgp[:len(k.pgp):len(k.pgp)], more.pgp...),
		digest: k.digest + more.digest,
	}
}

// Commit returns who has signed the commit, given as git stores it. The error is [ErrNotVerified].
func (k *Keys) Commit(raw []byte, now time.Time) (Signer, error) {
	o, err := splitCommit(raw)
	if err != nil {
		return Signer{}, err
	}
	return k.verify(o, now)
}

// Tag returns who has signed the annotated tag, given as git stores it, and which commit it
// names. name is the short name of the ref at which the tag was found: a tag that was signed
// under another name is refused. The error is [ErrNotVerified].
func (k *Keys) Tag(raw []byte, name string, now time.Time) (by Signer, commit string, err error) {
	o, err := splitTag(raw)
	if err != nil {
		return Signer{}, "", err
	}
	if o.tag != name {
		return Signer{}, "", refuse("the tag was signed under the name %.100q and stands under %.100q", o.tag, name)
	}
	by, err = k.verify(o, now)
	return by, o.target, err
}

func (k *Keys) verify(o object, now time.Time) (Signer, error) {
	switch {
	case o.signature == "":
		return Signer{}, unsignedError{o.kind}
	case strings.HasPrefix(o.signature, beginSSH):
		return k.verifySSH(o, now)
	case strings.HasPrefix(o.signature, beginPGP):
		return k.verifyPGP(o, now)
	}
	return Signer{}, refuse("the %s has a signature that is neither of SSH nor of OpenPGP", o.kind)
}

// unsignedError is an object without a signature.
type unsignedError struct{ kind string }

func (e unsignedError) Error() string {
	return fmt.Sprintf("%v: the %s has no signature", ErrNotVerified, e.kind)
}

// Unwrap implements the interface that [errors.Is] asks for.
func (e unsignedError) Unwrap() []error { return []error{ErrNotVerified, ErrNoSignature} }

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotVerified}, args...)...)
}

// clip shortens what an outsider wrote.
func clip(s string) string { return fmt.Sprintf("%.60q", s) }
