// Package release tests what Jibe is given to others as: it makes a release as make release
// does, and uses each part as somebody who has got it would.
package release
