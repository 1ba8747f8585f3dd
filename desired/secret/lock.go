package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// ageHeader begins what age has encrypted.
const ageHeader = "age-encryption.org/v1\n"

// Lock keeps the installation's key from being read off the disk: the key's file is encrypted with
// a data key, and that is given to somebody else to keep. It is asked when a process starts,
// and when the key is rotated; in between the key is in memory, so that a service that is away
// keeps nobody from healing a VNF.
//
// Wrap and Unwrap MUST end within some seconds. Their errors MUST hold no secret and MUST wrap
// [ErrLocked] where a later try may succeed. Unwrap returns [age.ErrIncorrectIdentity] where
// none of the stanzas is its own.
type Lock interface {
	age.Recipient
	age.Identity
	// String names it for people, without secrets.
	String() string
}

// locked encrypts the key's text; nil for lock leaves it in clear.
func locked(text []byte, lock Lock) ([]byte, error) {
	if lock == nil {
		return text, nil
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, lock)
	if err != nil {
		return nil, fmt.Errorf("lock the secret key by %s: %w", lock, err)
	}
	if _, err = w.Write(text); err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("lock the secret key by %s: %w", lock, err)
	}
	return b.Bytes(), nil
}

func unlock(data []byte, lock Lock) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(data), lock)
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("unlock it by %s: %w", lock, err)
	}
	if err != nil {
		return nil, fmt.Errorf("unlock it by %s: what that answers isn't what the file was encrypted with, or the file is damaged: give the flags that it was made with, or restore it from a copy: %w", lock, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSecret))
	if err != nil {
		return nil, fmt.Errorf("unlock it by %s: %w", lock, err)
	}
	return text, nil
}
