package secret

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Derive makes a key for another purpose. It is always the same for one installation and
// purpose, also after the key was rotated, and reveals nothing of the secret key itself.
func (k *Keeper) Derive(purpose string) []byte {
	ring, _ := k.keys.now() // its seed is the same in each
	h := hmac.New(sha256.New, ring.seed)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}
