// Package secret owns the key of a Jibe installation, with those that it had before: it turns credentials
// into references that may stand in git, and references back into credentials.
//
// Credentials that arrive through the API are encrypted with age before they are
// committed. It never writes into the desired repository, never logs, and never
// puts a credential into an error.
package secret

import (
	"errors"
	"fmt"
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

// outer resolves a reference to what is outside of git: a variable or a file.
func (k *Keeper) outer(ref string) (string, error) {
	if !IsRef(ref) {
		return "", ErrNotRef
	}
	name, ok := strings.CutPrefix(ref, desired.RefEnv)
	if !ok {
		return k.resolveFile(strings.TrimPrefix(ref, desired.RefFile))
	}
	if err := k.permitEnv(name); err != nil {
		return "", err
	}
	v, ok := os.LookupEnv(name)
	if !ok || v == "" {
		return "", fmt.Errorf("%w: set the environment variable %s for the process", ErrMissing, name)
	}
	return v, nil
}
