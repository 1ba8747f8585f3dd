package secret

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Derive makes a key for another purpose. It is always the same for one installation and
// purpose, and reveals nothing of the secret key itself.
func (k *Keeper) Derive(purpose string) []byte {
	h := hmac.New(sha256.New, []byte(k.identity.String()))
	h.Write([]byte(purpose))
	return h.Sum(nil)
}
