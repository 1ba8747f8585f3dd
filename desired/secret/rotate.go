package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/desired"
)

// Rotation is the change of an installation's key. One process at a time has it; [Rotation.Close]
// ends it. A server that runs meanwhile takes the new key up by itself.
type Rotation struct {
	dir   string
	guard *os.File
	ring  *keyring
	to    Lock
}

// rotateLock is the file that one rotation at a time holds.
const rotateLock = "identity.lock"

// BeginRotation reads the key in dir, which from unlocks; to is what is to keep it from now on.
// Either may be nil, for a file in clear. A key in clear is read whatever from is, and one that to
// keeps already is as well: so a rotation that was interrupted is begun again in the same way.
func BeginRotation(dir string, from, to Lock) (*Rotation, error) {
	guard, err := os.OpenFile(filepath.Join(dir, rotateLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("rotate the secret key: %w", err)
	}
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("rotate the secret key: another process does so already: wait for its end"), guard.Close())
	}
	ring, err := readEither(dir, from, to, nil)
	if err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	// What an interrupted write left behind holds a key that nothing was encrypted for.
	left, err := filepath.Glob(filepath.Join(dir, ".rotated-*"))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	return &Rotation{dir: dir, guard: guard, ring: ring, to: to}, nil
}

// readEither reads the key by the first of the locks that can.
func readEither(dir string, locks ...Lock) (ring *keyring, err error) {
	for _, lock := range locks {
		var failed error
		if ring, failed = readKeyring(dir, lock); failed == nil {
			return ring, nil
		}
		if err == nil {
			err = failed
		}
	}
	return nil, err
}

// Close lets others rotate.
func (r *Rotation) Close() error { return r.guard.Close() }

// Recipient is the public key of the current identity.
func (r *Rotation) Recipient() string { return r.ring.identities[0].Recipient().String() }

// Begun says that the key was rotated before, maybe by a rotation that was interrupted.
func (r *Rotation) Begun() bool { return len(r.ring.identities) > 1 }

// NewKey makes a new identity and has it used from now on. The former ones stay, for what was
// encrypted for them: commits of the past, to which an operation may be rolled back, and records.
// It is durable when NewKey returns.
func (r *Rotation) NewKey() error {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return fmt.Errorf("make secret key: %w", err)
	}
	next := *r.ring
	next.identities = append([]*age.X25519Identity{id}, r.ring.identities...)
	return r.write(&next)
}

// Keep writes the key as it is for the lock to keep, where another one kept it until now.
func (r *Rotation) Keep() error { return r.write(r.ring) }

func (r *Rotation) write(ring *keyring) (err error) {
	data, err := locked(ring.text(), r.to)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(r.dir, ".rotated-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write secret key: %w", err)
	}
	defer os.Remove(f.Name()) // where it has the name, this finds nothing
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(r.dir, IdentityFile))
	}
	if err == nil {
		err = syncDir(r.dir)
	}
	if err != nil {
		return fmt.Errorf("write secret key: %w", err)
	}
	r.ring = ring
	return nil
}

// reference finds encrypted references in a text: all begin with the header of age, in base64.
var reference = regexp.MustCompile(desired.RefAge + `YWdlLWVuY3J5cHRpb24ub3JnL3Yx[A-Za-z0-9_-]*`)

// UnreadableError is returned for a reference in a file that none of the installation's keys
// decrypts.
type UnreadableError struct {
	// Line is where it begins, from 1.
	Line int
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("line %d: the value was not encrypted for this installation's key, is damaged, or goes on in the next line: write it anew, on one line", e.Line)
}

// MisplacedError is returned for a reference in a file that is for another place.
type MisplacedError struct {
	// Line is where it begins, from 1.
	Line       int
	Is, Wanted Scope
}

func (e *MisplacedError) Error() string {
	return fmt.Sprintf("line %d: the value is for %s, and stands where it would have to be for %s", e.Line, e.Is, e.Wanted)
}

// Outdated counts the references in a file that aren't encrypted for the current key and just the
// recipients of today, or don't say what they are for although the places do. The error is an [*UnreadableError].
func (r *Rotation) Outdated(file []byte, places *Places) (int, error) {
	_, n, err := r.walk(file, places, func(string, Scope) (string, error) { return "", nil })
	return n, err
}

// Encrypt returns the file with those references encrypted again, and how many there were. Each is for what it was for;
// one of an earlier version, which doesn't say, is for where it stands. All else stays as it is, byte by byte. The error
// is an [*UnreadableError] or a [*MisplacedError], or says that something couldn't be encrypted.
func (r *Rotation) Encrypt(file []byte, places *Places) ([]byte, int, error) {
	return r.walk(file, places, func(clear string, scope Scope) (string, error) {
		return encrypt(clear, scope, r.ring.recipients()...)
	})
}

func (r *Rotation) walk(file []byte, places *Places, again func(clear string, scope Scope) (string, error)) (out []byte, outdated int, _ error) {
	at := 0
	for _, m := range reference.FindAllIndex(file, -1) {
		whole := string(file[m[0]:m[1]])
		text := strings.TrimPrefix(whole, desired.RefAge)
		clear, scope, err := open(text, r.ring.readers()...)
		if err != nil {
			return nil, 0, &UnreadableError{Line: 1 + bytes.Count(file[:m[0]], []byte("\n"))}
		}
		next := places.Of(whole)
		switch {
		case next.IsZero():
			next = scope
		case !scope.IsZero() && next != scope && !places.Adopt:
			return nil, 0, &MisplacedError{Line: 1 + bytes.Count(file[:m[0]], []byte("\n")), Is: scope, Wanted: next}
		}
		if _, _, err := open(text, r.ring.identities[0]); err == nil && recipientsOf(text) == 1+len(r.ring.others) && next == scope {
			continue
		}
		outdated++
		ref, err := again(clear, next)
		if err != nil {
			return nil, 0, err
		}
		out = append(append(out, file[at:m[0]]...), ref...)
		at = m[1]
	}
	return append(out, file[at:]...), outdated, nil
}

// recipientsOf is how many recipients what follows "age:" was encrypted for.
func recipientsOf(text string) int {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return 0
	}
	header, err := age.ExtractHeader(bytes.NewReader(raw))
	if err != nil {
		return 0
	}
	return bytes.Count(header, []byte("\n-> ")) - bytes.Count(header, []byte("\n-> "+stanzaType+" "))
}
