package git

import (
	"net/url"
	"strings"
)

// WithoutCredentials is the URL of a remote without those by which Jibe logs in. Whom one logs in
// as over SSH is no secret, and part of the address.
func WithoutCredentials(remote string) string {
	u, err := url.Parse(remote)
	switch {
	case err != nil && strings.Contains(remote, "://"):
		return "the repository that --remote names"
	case err != nil:
		return remote // as git@forge.example:vnf/desired.git, which has no place for a password
	case u.User != nil && u.Scheme == "ssh":
		u.User = url.User(u.User.Username())
	default:
		u.User = nil
	}
	return u.String()
}
