package secret

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Derive makes a key for another purpose: always the same for one installation
// and purpose, and telling nothing of the secret key itself.
func (k *Keeper) Derive(purpose string) []byte {
	h := hmac.New(sha256.New, []byte(k.identity.String()))
	h.Write([]byte(purpose))
	return h.Sum(nil)
}
