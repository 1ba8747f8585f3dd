package desired

import "regexp"

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
