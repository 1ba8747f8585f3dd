package gitrepo

import (
	"context"
	"strings"
)

// pinRefs are the refs that keep the packages which instances run. Package desired/packages
// makes them. A remote gets them too, so that another mirror of it never lacks a package.
const pinRefs = "refs/jibe/packages/*"

// fetchPins gets the pins that other mirrors have made. A remote without any, or
// one that hides them, is no error.
func (r *Repo) fetchPins(ctx context.Context) {
	if _, err := r.git.Run(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--", r.opt.Remote, pinRefs+":"+pinRefs); err != nil {
		r.log.Warn("pins of packages not fetched", "error", err)
	}
}

// pushPins pushes the pins that the remote doesn't have yet, best effort: the next poll tries
// again.
func (r *Repo) pushPins(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname)", strings.TrimSuffix(pinRefs, "/*"))
	if err != nil || out == "" || out == r.pinned {
		return
	}
	if _, err := r.git.Run(ctx, "push", "--quiet", "--no-verify", "--", r.opt.Remote, pinRefs+":"+pinRefs); err != nil {
		r.log.Warn("pins of packages not pushed: only this mirror keeps them", "error", err)
		return
	}
	r.pinned = out
}
