package gitrepo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// vouched is verify for what is to be followed: an unsigned commit holds the branch back, and
// nobody can accept it but who may change the keys.
func (r *Repo) vouched(ctx context.Context, head, hash string) error {
	_, err := r.check.Verify(ctx, r.opt.Verify, head, hash)
	if errors.Is(err, check.ErrUnverified) {
		return fmt.Errorf("%w: %w (%s)", errHeld, err, asVerified)
	}
	return err
}

// asVerified is what to do about commits that aren't signed.
const asVerified = "take them off the branch and push them signed (git commit -S), or add their signer's key to the file on the host"
