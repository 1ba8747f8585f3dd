package drivers

import "time"

// Sight is what is seen of a VIM by looking at it once, for people: nothing is decided by it.
type Sight struct {
	// Version is what the VIM says that it is.
	Version string
	// Skew is how far its clock is ahead of this machine's; it is exact to a second. Timed says
	// that the VIM tells its time.
	Skew  time.Duration
	Timed bool
	// Expires is when its certificate does, the zero time where it has none.
	Expires time.Time
	// Account is the service account of Kubernetes that the credentials are those of,
	// "namespace/name"; "" where they are no account's, or the VIM doesn't tell.
	Account string
	// Lacking are rights that the credentials don't have, each in the VIM's words.
	Lacking []string
	// Unwritten are such rights to write. They aren't needed where projects write as accounts of
	// their own.
	Unwritten []string
	// Unlisted are kinds of object that instances have and that can't be listed, each with the reason.
	Unlisted []string
	// Notes are further facts: roles, quotas.
	Notes []string
}
