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
	names, few, err := r.changedMaintenance(ctx, u, root)
	if err != nil {
		return nil, err
	}
	if !few {
		return []*desired.Problem{{File: desired.MaintenanceFile, Message: fmt.Sprintf("more than %d files of this name are new or changed", mostMaintenance), Remedy: "push them in parts"}}, nil
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

// mostMaintenance is how many files with windows one update may bring or change.
const mostMaintenance = 1000

// maintenanceNode is what differs at and below a pair of folders, wherever it stands.
type maintenanceNode struct {
	files []string    // names of files with windows, or that seem to be meant as such
	subs  []namedPair // folders that have some
	many  int         // of them all, at most one more than mostMaintenance
}

// changedMaintenance are the paths that an update brings or changes and that are, or seem to be meant
// as, files with windows; nil and false where there are more than mostMaintenance. Each pair of folders is
// read once, however often it stands there, and is unfolded only where it has such files: a few kilobytes
// of folders that name each other can unfold to billions.
func (r *Reader) changedMaintenance(ctx context.Context, u RefUpdate, root string) (names []string, few bool, err error) {
	top := pair{after: root}
	if u.Old != "" {
		if top.before, err = r.rootOf(ctx, u.Old); err != nil {
			return nil, false, notFound(err)
		}
	}
	nodes := map[pair]*maintenanceNode{}
	if err := r.findMaintenance(ctx, nodes, top, "", 0); err != nil {
		return nil, false, err
	}
	if nodes[top].many > mostMaintenance {
		return nil, false, nil
	}
	var unfold func(p pair, dir string)
	unfold = func(p pair, dir string) {
		for _, name := range nodes[p].files {
			names = append(names, path.Join(dir, name))
		}
		for _, sub := range nodes[p].subs {
			unfold(sub.pair, path.Join(dir, sub.name))
		}
	}
	unfold(top, "")
	slices.Sort(names)
	return names, true, nil
}

// findMaintenance fills nodes in for a pair of folders and all below; dir is where it stands first.
func (r *Reader) findMaintenance(ctx context.Context, nodes map[pair]*maintenanceNode, p pair, dir string, depth int) error {
	if nodes[p] != nil {
		return nil
	}
	if depth > maxDepth {
		return tooDeep(dir)
	}
	before, err := r.tree(ctx, p.before)
	if err != nil {
		return r.damaged(dir+" (tree "+p.before+")", err)
	}
	after, err := r.tree(ctx, p.after)
	if err != nil {
		return r.damaged(dir+" (tree "+p.after+")", err)
	}
	n := &maintenanceNode{}
	var subs []namedPair
	git.DiffTrees(before, after, func(b, a git.Entry) {
		switch {
		case a.Name == "": // it goes
		case strings.EqualFold(a.Name, desired.MaintenanceFile), strings.EqualFold(a.Name, "maintenance.yml"):
			n.files = append(n.files, a.Name)
		case a.IsDir():
			sub := namedPair{name: a.Name, pair: pair{after: a.Hash}}
			if b.IsDir() {
				sub.before = b.Hash
			}
			subs = append(subs, sub)
		}
	})
	n.many = len(n.files)
	nodes[p] = n
	for _, sub := range subs {
		if err := r.findMaintenance(ctx, nodes, sub.pair, path.Join(dir, sub.name), depth+1); err != nil {
			return err
		}
		if more := nodes[sub.pair].many; more > 0 {
			n.subs = append(n.subs, sub)
			n.many = min(n.many+more, mostMaintenance+1)
		}
	}
	return nil
}
