package secret

import (
	"fmt"

	"filippo.io/age"
)

// EncryptFor is [Scoped.Encrypt] for the holder of the key of recipient ("age1…"): for people who write files and can't
// read them back. The zero scope makes a value as versions made it that knew none.
func EncryptFor(recipient, plaintext string, scope Scope) (string, error) {
	r, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return "", fmt.Errorf("recipient %q: %w", recipient, err)
	}
	return encrypt(plaintext, scope, r)
}
