package check

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// A change may end this many instances, or all of a folder that has fewer than that, or this part of all, before it must
// say how many it means to end.
const (
	MaxEnds       = 10
	minFolderEnds = 3
	partOfAll     = 5 // a fifth
)

// maxCountReads bounds the trees that a count reads. What is larger counts as full.
const maxCountReads = 10_000

// JudgeEnds returns the problem of a change that ends more instances than a slip may, nil if it ends few, or says how many.
// Every door of the desired branch asks it: a push, a landing, the fetch from a remote, a local branch that was moved, and
// what jibe validate reads. root is the tree before the change, and options are those of the push ("terminate=12").
func (r *Checker) JudgeEnds(ctx context.Context, root string, e read.Ends, options []string) ([]*desired.Problem, error) {
	n := len(e.Dirs)
	if slices.Contains(options, fmt.Sprintf("terminate=%d", n)) {
		return nil, nil
	}
	why, err := "", error(nil)
	if n > MaxEnds {
		why = fmt.Sprintf("; more than %d must be meant", MaxEnds)
	} else {
		why, err = r.endsTooMany(ctx, root, e.Running)
	}
	if err != nil || why == "" {
		return nil, err
	}
	return []*desired.Problem{{
		File:    read.InstancesDir,
		Message: fmt.Sprintf("this change would terminate or remove %d instances%s", n, why),
		Remedy:  fmt.Sprintf("if that is meant: git push -o terminate=%d; what a forge has merged is taken with: jibe accept", n),
	}}, nil
}

// endsTooMany returns the rule by which a change ends too many of those that run, "" for none.
func (r *Checker) endsTooMany(ctx context.Context, root string, ended []string) (string, error) {
	n := len(ended)
	if n < 2 {
		return "", nil
	}
	all, err := r.countInstances(ctx, root, read.InstancesDir, partOfAll*n)
	if err != nil {
		return "", err
	}
	if all < partOfAll*n {
		return fmt.Sprintf("; %d of %d is more than a fifth, which must be meant", n, all), nil
	}

	folders := map[string]int{}
	for _, dir := range ended {
		for up := path.Dir(dir); len(up) > len(read.InstancesDir); up = path.Dir(up) {
			folders[up]++
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if folders[folder] < minFolderEnds {
			continue
		}
		has, err := r.countInstances(ctx, root, folder, folders[folder]+1)
		if err != nil {
			return "", err
		}
		if has <= folders[folder] {
			return fmt.Sprintf("; all %d of %s must be meant", has, folder), nil
		}
	}
	return "", nil
}

// countInstances returns how many instances are at and below a folder, most where there are at least that many.
func (r *Checker) countInstances(ctx context.Context, root, folder string, most int) (int, error) {
	top, ok, err := r.LookupPath(ctx, root, folder)
	if err != nil || !ok || !top.IsDir() {
		return 0, err
	}
	n, todo := 0, []string{top.Hash}
	for looked := 0; len(todo) > 0 && n < most; looked++ {
		if looked == maxCountReads {
			return most, nil
		}
		t, err := r.Tree(ctx, todo[len(todo)-1])
		if err != nil {
			return 0, r.Damaged("folder below "+folder, err)
		}
		todo = todo[:len(todo)-1]
		if _, instance := t.Find(desired.InstanceFile); instance && (looked > 0 || folder != read.InstancesDir) {
			n++
			continue
		}
		for _, e := range t.Entries() {
			if e.IsDir() {
				todo = append(todo, e.Hash)
			}
		}
	}
	return n, nil
}
