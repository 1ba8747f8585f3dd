package gitrepo

import "context"

// pinRefs are the refs that keep the packages which instances run. Package desired/packages
// makes them. A remote gets them too, so that another mirror of it never lacks a package.
const pinRefs = "refs/jibe/packages/*"

// fetchPins gets the pins that other mirrors have made. A remote without any, or
// one that hides them, is no error.
func (r *Repo) fetchPins(ctx context.Context) {
	if _, err := r.read.Git.Run(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--", r.opt.Remote, pinRefs+":"+pinRefs); err != nil {
		r.log.Warn("pins of packages not fetched", "error", err)
	}
}
