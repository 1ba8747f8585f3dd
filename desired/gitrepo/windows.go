package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Maintenance returns the files at head that say when operations may begin on the instance in a
// directory, the outermost first. The error is a [*desired.InvalidError] where one can't be obeyed: nobody
// then knows what it would have allowed.
func (r *Repo) Maintenance(ctx context.Context, dir string) ([]*desired.Maintenance, error) {
	r.mu.RLock()
	root := r.root
	r.mu.RUnlock()
	return r.maintenance(ctx, root, dir)
}

func (r *Reader) maintenance(ctx context.Context, root, dir string) ([]*desired.Maintenance, error) {
	var out []*desired.Maintenance
	for _, file := range desired.MaintenanceFiles(dir) {
		e, ok, err := r.lookupPath(ctx, root, file)
		if err != nil {
			return nil, r.damaged(file, err)
		}
		if !ok {
			continue
		}
		if !e.IsFile() {
			return nil, &desired.InvalidError{Problems: []*desired.Problem{notAFile(file, e)}}
		}
		data, err := r.fileAt(ctx, root, file)
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

// checkMaintenance refuses files with windows and freezes that can't be obeyed among those that an
// update brings or changes.
func (r *Reader) checkMaintenance(ctx context.Context, u RefUpdate, root string) ([]*desired.Problem, error) {
	names, err := r.changedMaintenance(ctx, u)
	if err != nil {
		return nil, err
	}
	var out []*desired.Problem
	for _, name := range names {
		e, ok, err := r.lookupPath(ctx, root, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		folder := path.Dir(name)
		_, instance, err := r.lookupPath(ctx, root, path.Join(folder, desired.InstanceFile))
		if err != nil {
			return nil, err
		}
		switch {
		case !e.IsFile():
			out = append(out, notAFile(name, e))
		case path.Base(name) != desired.MaintenanceFile:
			out = append(out, &desired.Problem{File: name, Message: "is never read under this name", Remedy: fmt.Sprintf("git mv %s %s", name, path.Join(folder, desired.MaintenanceFile))})
		case instance:
			out = append(out, &desired.Problem{File: name, Message: "is in an instance's own directory, which a rollback restores, and is never read there",
				Remedy: "move it to " + path.Join(path.Dir(folder), desired.MaintenanceFile)})
		case folder != "." && folder != instancesDir && !strings.HasPrefix(folder, instancesDir+"/"):
			out = append(out, &desired.Problem{File: name, Message: "rules nothing: no instance is below " + folder, Remedy: "move it to the root, or below " + instancesDir})
		default:
			data, err := r.fileAt(ctx, root, name)
			if err != nil {
				return nil, err
			}
			_, err = desired.ParseMaintenance(name, data)
			if inv, ok := errors.AsType[*desired.InvalidError](err); ok {
				out = append(out, inv.Problems...)
			} else if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// changedMaintenance are the paths that an update changes and that are, or seem to be meant as,
// files with windows.
func (r *Reader) changedMaintenance(ctx context.Context, u RefUpdate) ([]string, error) {
	old := u.Old
	if old == "" {
		old = emptyTree
	}
	args := []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", old, u.New, "--"}
	for _, name := range []string{desired.MaintenanceFile, "maintenance.yml"} {
		args = append(args, ":(icase,glob)**/"+name)
	}
	text, err := r.git.Run(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("look for changed files with windows: %w", err)
	}
	names := strings.FieldsFunc(text, func(c rune) bool { return c == 0 })
	slices.Sort(names)
	return names, nil
}
