package manifest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// digestOf identifies the content of a rendered object. It is keyed, as it
// stands in an annotation that anyone may read who may not read a Secret: a
// plain hash would let them test guesses.
func digestOf(key []byte, instance string, obj *unstructured.Unstructured) (string, error) {
	// Maps are marshalled in the order of their keys, so equal content has equal bytes.
	content, err := json.Marshal(obj.Object)
	if err != nil {
		return "", err
	}
	return seal(key, instance, content), nil
}

// seal identifies content that must not be guessed from what identifies it.
func seal(key []byte, instance string, content []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(instance))
	mac.Write([]byte{0})
	mac.Write(content)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}
