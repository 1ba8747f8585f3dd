package secret

import (
	"fmt"

	"filippo.io/age"
)

// EncryptFor is [Keeper.Encrypt] for whoever holds the key of recipient
// ("age1…"): for people who write files and can't read them back.
func EncryptFor(recipient, plaintext string) (string, error) {
	r, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return "", fmt.Errorf("recipient %q: %w", recipient, err)
	}
	return encrypt(plaintext, r)
}
