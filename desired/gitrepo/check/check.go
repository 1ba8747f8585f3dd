package check

import "github.com/jibe-vnfm/jibe/desired/gitrepo/read"

// Checker judges what is pushed by git alone. It only reads, and is all that the process of a push hook needs. It is safe for
// concurrent use.
type Checker struct{ *read.Reader }

// New makes a checker of what a reader reads.
func New(r *read.Reader) *Checker { return &Checker{r} }
