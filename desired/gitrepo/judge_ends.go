package gitrepo

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// A change may end this many instances, or all of a folder that has fewer than that, or this part of all, before it must
// say how many it means to end.
const (
	maxEnds       = 10
	minFolderEnds = 3
	partOfAll     = 5 // a fifth
)

// maxCountReads bounds the trees that a count reads. What is larger counts as full.
const maxCountReads = 10_000

// judgeEnds returns the problem of a change that ends more instances than a slip may, nil if it ends few, or says how many.
// Every door of the desired branch asks it: a push, a landing, the fetch from a remote, a local branch that was moved, and
// what jibe validate reads. root is the tree before the change, and options are those of the push ("terminate=12").
func (r *Reader) judgeEnds(ctx context.Context, root string, e ends, options []string) ([]*desired.Problem, error) {
	n := len(e.dirs)
	if slices.Contains(options, fmt.Sprintf("terminate=%d", n)) {
		return nil, nil
	}
	why, err := "", error(nil)
	if n > maxEnds {
		why = fmt.Sprintf("; more than %d must be meant", maxEnds)
	} else {
		why, err = r.endsTooMany(ctx, root, e.running)
	}
	if err != nil || why == "" {
		return nil, err
	}
	return []*desired.Problem{{
		File:    instancesDir,
		Message: fmt.Sprintf("this change would terminate or remove %d instances%s", n, why),
		Remedy:  fmt.Sprintf("if that is meant: git push -o terminate=%d; what a forge has merged is taken with: jibe accept", n),
	}}, nil
}

// ends are the directories of the instances that a change ends or removes, and those of them that run.
type ends struct{ dirs, running []string }

// endsTooMany returns the rule by which a change ends too many of those that run, "" for none.
func (r *Reader) endsTooMany(ctx context.Context, root string, ended []string) (string, error) {
	n := len(ended)
	if n < 2 {
		return "", nil
	}
	all, err := r.countInstances(ctx, root, instancesDir, partOfAll*n)
	if err != nil {
		return "", err
	}
	if all < partOfAll*n {
		return fmt.Sprintf("; %d of %d is more than a fifth, which must be meant", n, all), nil
	}

	folders := map[string]int{}
	for _, dir := range ended {
		for up := path.Dir(dir); len(up) > len(instancesDir); up = path.Dir(up) {
			folders[up]++
		}
	}
	for _, folder := range sortedKeys(folders) {
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
func (r *Reader) countInstances(ctx context.Context, root, folder string, most int) (int, error) {
	top, ok, err := r.lookupPath(ctx, root, folder)
	if err != nil || !ok || !top.IsDir() {
		return 0, err
	}
	n, todo := 0, []string{top.Hash}
	for read := 0; len(todo) > 0 && n < most; read++ {
		if read == maxCountReads {
			return most, nil
		}
		t, err := r.tree(ctx, todo[len(todo)-1])
		if err != nil {
			return 0, r.damaged("folder below "+folder, err)
		}
		todo = todo[:len(todo)-1]
		if _, instance := t.Find(desired.InstanceFile); instance && (read > 0 || folder != instancesDir) {
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

// ended returns what the difference ends or removes. What is held instead isn't among it.
func (d difference) ended() ends {
	held := map[string]bool{}
	for _, l := range d.losses {
		held[l.was.Instance] = l.running || l.moved()
	}
	var out ends
	for _, c := range d.changes {
		was, now := d.slots[c.Before], d.slots[c.After]
		if was != nil && !held[c.Before.Instance] && (now == nil || desired.IsInstantiated(was.state()) && !desired.IsInstantiated(now.state())) {
			out.dirs = append(out.dirs, c.Before.Dir)
			if desired.IsInstantiated(was.state()) {
				out.running = append(out.running, c.Before.Dir)
			}
		}
	}
	slices.Sort(out.dirs)
	return out
}

// judgeMove returns why only a person may have the branch follow from one commit to another that contains it, nil if it may
// follow. Nothing that a push option could say counts here: the change met no push hook of Jibe's.
func (r *Repo) judgeMove(ctx context.Context, from, to string) error {
	d, err := r.diff(ctx, from, to)
	if err != nil {
		return err
	}
	r.mu.RLock()
	x := r.index
	r.mu.RUnlock()
	notObeyed := func(dir string) bool { // a second file of an id that another has, or that is held
		s := x.byDir.get(dir)
		if s == nil {
			return false
		}
		owner := x.byID.get(s.rev.Instance)
		return owner == nil || owner.rev.Dir != dir
	}
	ended := d.ended()
	ended.dirs, ended.running = slices.DeleteFunc(ended.dirs, notObeyed), slices.DeleteFunc(ended.running, notObeyed)
	m := headMove{changes: d.dirs}
	m.slots = make([]*slot, len(m.changes))
	newRoot, err := r.rootOf(ctx, to)
	if err != nil {
		return err
	}
	if err := r.endAbsences(ctx, x, &m, newRoot); err != nil {
		return err
	}
	for _, c := range m.changes[len(d.dirs):] {
		ended.dirs, ended.running = append(ended.dirs, c.dir), append(ended.running, c.dir)
	}
	oldRoot, err := r.rootOf(ctx, from)
	if err != nil {
		return err
	}

	problems, err := r.judgeEnds(ctx, oldRoot, ended, nil)
	if err != nil || len(problems) == 0 {
		return err
	}
	e := d.effect()
	e.Ends = ended.dirs
	return fmt.Errorf("%w: commit %s: %s: %s", errHeld, to, problems[0].Message, e)
}
