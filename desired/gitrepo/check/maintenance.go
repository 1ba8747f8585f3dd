package check

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// checkMaintenance refuses files with windows and freezes that can't be obeyed among those that an
// update brings or changes.
func (r *Checker) checkMaintenance(ctx context.Context, u RefUpdate, root string) ([]*desired.Problem, error) {
	names, few, err := r.changedMaintenance(ctx, u, root)
	if err != nil {
		return nil, err
	}
	if !few {
		return []*desired.Problem{{File: desired.MaintenanceFile, Message: fmt.Sprintf("more than %d files of this name are new or changed", mostMaintenance), Remedy: "push them in parts"}}, nil
	}
	var out []*desired.Problem
	for _, name := range names {
		e, ok, err := r.LookupPath(ctx, root, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		folder := path.Dir(name)
		_, instance, err := r.LookupPath(ctx, root, path.Join(folder, desired.InstanceFile))
		if err != nil {
			return nil, err
		}
		switch {
		case !e.IsFile():
			out = append(out, read.NotAFile(name, e))
		case path.Base(name) != desired.MaintenanceFile:
			out = append(out, &desired.Problem{File: name, Message: "is never read under this name", Remedy: fmt.Sprintf("git mv %s %s", name, path.Join(folder, desired.MaintenanceFile))})
		case instance:
			out = append(out, &desired.Problem{File: name, Message: "is in an instance's own directory, which a rollback restores, and is never read there",
				Remedy: "move it to " + path.Join(path.Dir(folder), desired.MaintenanceFile)})
		case folder != "." && folder != read.InstancesDir && !strings.HasPrefix(folder, read.InstancesDir+"/"):
			out = append(out, &desired.Problem{File: name, Message: "rules nothing: no instance is below " + folder, Remedy: "move it to the root, or below " + read.InstancesDir})
		default:
			data, err := r.FileAt(ctx, root, name)
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
	files []string         // names of files with windows, or that seem to be meant as such
	subs  []read.NamedPair // folders that have some
	many  int              // of them all, at most one more than mostMaintenance
}

// changedMaintenance are the paths that an update brings or changes and that are, or seem to be meant
// as, files with windows; nil and false where there are more than mostMaintenance. Each pair of folders is
// read once, however often it stands there, and is unfolded only where it has such files: a few kilobytes
// of folders that name each other can unfold to billions.
func (r *Checker) changedMaintenance(ctx context.Context, u RefUpdate, root string) (names []string, few bool, err error) {
	top := read.Pair{After: root}
	if u.Old != "" {
		if top.Before, err = r.RootOf(ctx, u.Old); err != nil {
			return nil, false, objects.NotFound(err)
		}
	}
	nodes := map[read.Pair]*maintenanceNode{}
	if err := r.findMaintenance(ctx, nodes, top, "", 0); err != nil {
		return nil, false, err
	}
	if nodes[top].many > mostMaintenance {
		return nil, false, nil
	}
	var unfold func(p read.Pair, dir string)
	unfold = func(p read.Pair, dir string) {
		for _, name := range nodes[p].files {
			names = append(names, path.Join(dir, name))
		}
		for _, sub := range nodes[p].subs {
			unfold(sub.Pair, path.Join(dir, sub.Name))
		}
	}
	unfold(top, "")
	slices.Sort(names)
	return names, true, nil
}

// findMaintenance fills nodes in for a pair of folders and all below; dir is where it stands first.
func (r *Checker) findMaintenance(ctx context.Context, nodes map[read.Pair]*maintenanceNode, p read.Pair, dir string, depth int) error {
	if nodes[p] != nil {
		return nil
	}
	if depth > objects.MaxDepth {
		return read.TooDeep(dir)
	}
	before, err := r.Tree(ctx, p.Before)
	if err != nil {
		return r.Damaged(dir+" (tree "+p.Before+")", err)
	}
	after, err := r.Tree(ctx, p.After)
	if err != nil {
		return r.Damaged(dir+" (tree "+p.After+")", err)
	}
	n := &maintenanceNode{}
	var subs []read.NamedPair
	git.DiffTrees(before, after, func(b, a git.Entry) {
		switch {
		case a.Name == "": // it goes
		case strings.EqualFold(a.Name, desired.MaintenanceFile), strings.EqualFold(a.Name, "maintenance.yml"):
			n.files = append(n.files, a.Name)
		case a.IsDir():
			sub := read.NamedPair{Name: a.Name, Pair: read.Pair{After: a.Hash}}
			if b.IsDir() {
				sub.Before = b.Hash
			}
			subs = append(subs, sub)
		}
	})
	n.many = len(n.files)
	nodes[p] = n
	for _, sub := range subs {
		if err := r.findMaintenance(ctx, nodes, sub.Pair, path.Join(dir, sub.Name), depth+1); err != nil {
			return err
		}
		if more := nodes[sub.Pair].many; more > 0 {
			n.subs = append(n.subs, sub)
			n.many = min(n.many+more, mostMaintenance+1)
		}
	}
	return nil
}
