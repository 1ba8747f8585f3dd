package desired

import (
	"regexp"
	"strings"
)

// The schemes of a reference to a secret.
const (
	// RefAge is followed by base64url (no padding) of an age file.
	RefAge = "age:"
	// RefEnv is followed by the name of an environment variable of the process.
	RefEnv = "env:"
	// RefFile is followed by an absolute path on the process's machine.
	RefFile = "file:"
)

var (
	refAge  = regexp.MustCompile(`^age:[A-Za-z0-9_-]+$`)
	refEnv  = regexp.MustCompile(`^env:[A-Za-z_][A-Za-z0-9_]*$`)
	refFile = regexp.MustCompile(`^file:/[^\x00-\x1f]+$`)
)

// IsRef says whether s is a well-formed reference to a secret, not the secret
// itself.
func IsRef(s string) bool {
	return refAge.MatchString(s) || refEnv.MatchString(s) || refFile.MatchString(s)
}

// IsSecretKey says whether a value of that name is a credential: one that is
// never shown, and never stands in git in clear. Names that end in url, uri,
// endpoint, path or name say where a secret is, not what it is, and the id of a
// credential says which one.
func IsSecretKey(name string) bool {
	n := strings.ToLower(name)
	for _, end := range []string{"url", "uri", "endpoint", "path", "paths", "name", "names", "credentialid", "credential_id"} {
		if strings.HasSuffix(n, end) {
			return false
		}
	}
	n = strings.ReplaceAll(n, "keystone", "")
	for _, part := range []string{"token", "secret", "passw", "passphrase", "credential", "key"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return false
}
