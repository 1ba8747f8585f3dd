package objects

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// EditTrees edits the trees below root. A tree that can't be read refuses the whole batch, as
// no single write is to blame.
func (db *DB) EditTrees(ctx context.Context, root string, reuse git.Folders, pack *git.Pack) *git.TreeEditor {
	return git.NewTreeEditor(func(dir, hash string) (*git.Tree, error) {
		t, err := db.Tree(ctx, hash)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, db.Damaged(dir+" (tree "+hash+")", err))
		}
		return t, nil
	}, root, reuse, pack)
}
