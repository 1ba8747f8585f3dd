package gitrepo

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired"
)

// SettingsAt reads vims/ and repositories.yaml at a commit, and nothing else.
func (r *Reader) SettingsAt(ctx context.Context, commit string) (*desired.Settings, error) {
	root, err := r.rootOf(ctx, commit)
	if err != nil {
		return nil, notFound(err)
	}
	return r.settings(ctx, root)
}
