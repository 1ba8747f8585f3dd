package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// procReceive has the server land what the hook pre-receive has taken: by now git has put the pushed
// objects where the server reads them.
func (h pushHook) procReceive(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	return check.ProcReceive(stdin, stdout, func(u check.RefUpdate, options []string) (check.RefUpdate, string) {
		var l admission.Landed
		if err := h.post(ctx, admission.LandPath, admission.Landing{ID: h.push, Ref: u.Ref, Commit: u.New, Options: options}, &l); err != nil {
			fmt.Fprintf(stderr, "jibe: the server didn't say that this landed (push again: what has landed isn't changed by it): %v\n", err)
			return u, "the server didn't answer that it landed"
		}
		warn(stderr, l.Warnings)
		if len(l.Problems) > 0 {
			refuse(stderr, l.Problems)
			return u, "refused by jibe"
		}
		switch now := l.Update; {
		case now.Old == now.New:
			fmt.Fprintf(stderr, "jibe: %s has this already, at %s\n", h.branch, now.New)
		case now.New == u.New:
			fmt.Fprintf(stderr, "jibe: landed on %s as %s\n", h.branch, now.New)
		default:
			fmt.Fprintf(stderr, "jibe: landed on %s as %s, which merges it with what came meanwhile (git pull gets that)\n", h.branch, now.New)
		}
		return l.Update, ""
	})
}
