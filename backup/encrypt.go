package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

// Recipients are those who can open an encrypted backup.
type Recipients []age.Recipient

// ParseRecipients reads age recipients (age1…).
func ParseRecipients(texts []string) (Recipients, error) {
	var all Recipients
	for _, text := range texts {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, fmt.Errorf("%.100q is no age recipient (age1…): %w", text, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Encrypt returns where the backup is written in clear. It is whole when it is closed.
func (r Recipients) Encrypt(w io.Writer) (io.WriteCloser, error) { return age.Encrypt(w, r...) }

// Identity opens what was encrypted for its recipient.
type Identity = age.Identity

// ReadIdentities reads a file with age identities (AGE-SECRET-KEY-…); "" has none.
func ReadIdentities(file string) ([]Identity, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ids, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("%s holds no age identity (AGE-SECRET-KEY-…)", file) // the parser may quote the key
	}
	return ids, nil
}

// ageHeader begins what age has encrypted.
const ageHeader = "age-encryption.org/"

// ErrEncrypted is returned for an encrypted backup where no identity opens it.
var ErrEncrypted = errors.New("the backup is encrypted")

// open returns the backup in clear.
func open(r io.Reader, identities []Identity) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	if begin, _ := in.Peek(len(ageHeader)); string(begin) != ageHeader {
		return in, nil
	}
	if len(identities) == 0 {
		return nil, fmt.Errorf("%w: name the file with the age identity that opens it (--identity)", ErrEncrypted)
	}
	clear, err := age.Decrypt(in, identities...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w, for others than the identities that were given", ErrEncrypted)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return clear, nil
}
