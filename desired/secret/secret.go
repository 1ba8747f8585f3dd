// Package secret owns the key of a Jibe installation, with those that it had before: it turns credentials
// into references that may stand in git, and references back into credentials.
//
// Credentials that arrive through the API are encrypted with age before they are
// committed. It never writes into the desired repository, never logs, and never
// puts a credential into an error.
package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/desired"
)

// IdentityFile is the name of the file in the data directory that holds the key.
const IdentityFile = "identity.age"

// maxSecret is the most that a credential may have, in bytes. A kubeconfig with
// certificates has some 10 kB.
const maxSecret = 256 << 10

// Errors that callers decide on.
var (
	// ErrNotRef is returned for text that isn't a reference to a secret.
	ErrNotRef = errors.New("not a reference to a secret (env:NAME, file:/path or age:…)")
	// ErrMissing is returned for a reference to something that isn't there.
	ErrMissing = errors.New("the secret isn't there")
	// ErrForeign is returned for a secret that was encrypted for another key, or
	// whose text was damaged.
	ErrForeign = errors.New("the secret was not encrypted for this installation's key, or is damaged: encrypt it again for the present recipient")
)

// Keeper encrypts and resolves secrets. It is safe for concurrent use.
type Keeper struct {
	keys  *keys
	dir   string // that of the key, absolute
	reach Reach
}

// Open loads the key in dir, or makes one: a file that only its owner can read, locked by lock
// unless that is nil. A file that is there but can't be used is an error, never replaced: what
// was encrypted for it would be lost. Its references reach what an empty [Reach] says.
func Open(dir string, lock Lock) (*Keeper, error) {
	k, err := load(dir, lock)
	if !errors.Is(err, os.ErrNotExist) {
		return k, err
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("make secret key: %w", err)
	}
	ring := &keyring{}
	if err := ring.parse([]byte(id.String())); err != nil {
		return nil, fmt.Errorf("make secret key: it %w", err)
	}
	text, err := locked(ring.text(), lock)
	if err != nil {
		return nil, err
	}
	if err := create(filepath.Join(dir, IdentityFile), text); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make secret key: %w", err)
	}
	// Load it whoever made it: two processes may have started at once.
	return load(dir, lock)
}

func load(dir string, lock Lock) (*Keeper, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open secret key: %w", err)
	}
	k := &Keeper{keys: &keys{dir: dir, lock: lock}, dir: dir}
	if _, err := k.keys.now(); err != nil {
		return nil, err
	}
	return k.With(Reach{})
}

// create writes the file so that it is there whole and durable, or not at all,
// and fails with os.ErrExist where it is there already.
func create(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".identity-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, doesn't replace what another process made.
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Recipient is the public key, for people who encrypt with age themselves.
func (k *Keeper) Recipient() string {
	ring, _ := k.keys.now() // there is one since the keeper was made
	return ring.identities[0].Recipient().String()
}

// IsRef says whether s is a well-formed reference; see [desired.IsRef].
func IsRef(s string) bool { return desired.IsRef(s) }

// Encrypt returns the "age:…" reference that stands for plaintext. Twice the same
// plaintext gives different references: see [Keeper.Keep].
//
// Who is in [RecipientsFile] can decrypt it, too. Where the key's files have become unreadable
// nothing is encrypted: it might be for the wrong ones.
func (k *Keeper) Encrypt(plaintext string) (string, error) {
	ring, err := k.keys.now()
	if err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	return encrypt(plaintext, ring.recipients()...)
}

func encrypt(plaintext string, recipients ...age.Recipient) (string, error) {
	if len(plaintext) > maxSecret {
		return "", fmt.Errorf("encrypt secret: it has %d bytes, at most %d are allowed", len(plaintext), maxSecret)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipients...)
	if err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	if _, err := io.WriteString(w, plaintext); err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	return desired.RefAge + base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

// Same says whether old is an encrypted reference to exactly plaintext.
func (k *Keeper) Same(old, plaintext string) bool {
	if !strings.HasPrefix(old, desired.RefAge) {
		return false
	}
	was, err := k.Resolve(old)
	return err == nil && was == plaintext
}

// Keep is Encrypt, but returns old where that stands for plaintext already, so
// that a request which changes nothing changes no file. A plaintext that is a
// reference itself is returned as it is.
func (k *Keeper) Keep(old, plaintext string) (string, error) {
	if IsRef(plaintext) {
		return plaintext, nil
	}
	if k.Same(old, plaintext) {
		return old, nil
	}
	return k.Encrypt(plaintext)
}

// Resolve returns what ref stands for. One newline at the end of a file is not
// part of it. Text that isn't a reference is [ErrNotRef], also where it might
// be the secret itself; one that the keeper's [Reach] doesn't let it follow is a
// [*ForbiddenError]. No error repeats ref or what it stands for, but the name of a
// variable or file.
func (k *Keeper) Resolve(ref string) (string, error) {
	if !IsRef(ref) {
		return "", ErrNotRef
	}
	switch {
	case strings.HasPrefix(ref, desired.RefEnv):
		name := strings.TrimPrefix(ref, desired.RefEnv)
		if err := k.permitEnv(name); err != nil {
			return "", err
		}
		v, ok := os.LookupEnv(name)
		if !ok || v == "" {
			return "", fmt.Errorf("%w: set the environment variable %s for the process", ErrMissing, name)
		}
		return v, nil
	case strings.HasPrefix(ref, desired.RefFile):
		return k.resolveFile(strings.TrimPrefix(ref, desired.RefFile))
	}
	return k.decrypt(strings.TrimPrefix(ref, desired.RefAge))
}

func (k *Keeper) decrypt(text string) (string, error) {
	ring, _ := k.keys.now() // the former one may still decrypt it
	return open(text, ring.readers()...)
}

// open decrypts what follows "age:" in a reference. Its error is [ErrForeign].
func open(text string, readers ...age.Identity) (string, error) {
	if len(text) > 2*maxSecret {
		return "", ErrForeign
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", ErrForeign
	}
	r, err := age.Decrypt(bytes.NewReader(raw), readers...)
	if err != nil {
		return "", ErrForeign
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil || len(data) > maxSecret {
		return "", ErrForeign
	}
	return string(data), nil
}
