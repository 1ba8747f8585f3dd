package read

import (
	"context"
	"errors"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Maintenance reads the files of windows and freezes that bind a directory, from the outermost folder inwards.
func (r *Reader) Maintenance(ctx context.Context, root, dir string) ([]*desired.Maintenance, error) {
	var out []*desired.Maintenance
	for _, file := range desired.MaintenanceFiles(dir) {
		e, ok, err := r.LookupPath(ctx, root, file)
		if err != nil {
			return nil, r.Damaged(file, err)
		}
		if !ok {
			continue
		}
		if !e.IsFile() {
			return nil, &desired.InvalidError{Problems: []*desired.Problem{NotAFile(file, e)}}
		}
		data, err := r.FileAt(ctx, root, file)
		if errors.Is(err, git.ErrTooLarge) {
			return nil, &desired.InvalidError{Problems: []*desired.Problem{{File: file, Message: err.Error(), Remedy: "keep windows and freezes in it alone"}}}
		}
		if err != nil {
			return nil, err
		}
		m, err := desired.ParseMaintenance(file, data)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
