package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// outside holds what runs although the project that it is of doesn't allow it any more: a
// project's file has changed, the directory has moved, or it began before there were rules.
// It is a view of facts: a restart sees them anew.
type outside struct {
	mu     sync.Mutex
	judged map[string]verdict
}

// verdict is what was found of an instance, by the settings and the content that it was judged by.
type verdict struct {
	settings *desired.Settings
	dir      string
	tree     string
	problem  *Problem // nil where nothing is wrong
}

func newOutside() *outside { return &outside{judged: map[string]verdict{}} }

// judge holds what runs against the rules of its project, once for each content and settings.
func (o *outside) judge(c *Checker, settings *desired.Settings, head desired.Revision, drv drivers.Driver, runs drivers.Rendering, now time.Time) {
	o.mu.Lock()
	was, known := o.judged[head.Instance]
	o.mu.Unlock()
	if known && was.settings == settings && was.tree == head.Tree && was.dir == head.Dir {
		return
	}
	next := verdict{settings: settings, dir: head.Dir, tree: head.Tree}
	if err := c.outOfProject(settings, head.Dir, drv, runs); err != nil {
		next.problem = &Problem{Instance: head.Instance, Since: now, tree: head.Tree, Problem: desired.Problem{
			File: path.Join(head.Dir, desired.InstanceFile), Message: "it runs, and would be refused by now: " + err.Error(),
			Remedy: "it is looked after, and whatever else it is made of will be refused",
		}}
		if was.problem != nil && was.problem.Message == next.problem.Message {
			next.problem.Since = was.problem.Since
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.judged[head.Instance] = next
}

func (o *outside) clear(instance string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.judged, instance)
}

func (o *outside) problem(instance string) (Problem, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.judged[instance]
	if v.problem == nil {
		return Problem{}, false
	}
	return *v.problem, true
}

func (o *outside) list() []Problem {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []Problem
	for _, v := range o.judged {
		if v.problem != nil {
			list = append(list, *v.problem)
		}
	}
	slices.SortFunc(list, func(a, b Problem) int { return cmp.Compare(a.Instance, b.Instance) })
	return list
}

// outOfProject says why what runs in the directory would be refused by its project, nil where
// it wouldn't be.
func (c *Checker) outOfProject(settings *desired.Settings, dir string, drv drivers.Driver, runs drivers.Rendering) error {
	p, in := settings.ProjectOf(dir), runs.Source.Instance
	if err := mayRunAt(settings, p, in); err != nil {
		return err
	}
	for _, tree := range treesOf(in) {
		// One that no repository has may be in one that is away.
		if names := c.packages.RepositoriesOf(tree); len(names) > 0 && !slices.ContainsFunc(names, p.MayUseRepository) {
			return c.mayRunPackages(settings, p, nil, in)
		}
	}
	return outOfBounds(drv.Confine(runs.Bounded(boundsOf(p, c.own))), p.Name)
}

// OutOfProject says why what runs would be refused with these settings, and wouldn't be with
// those of head: a warning to whoever changes a project.
func (v *View) OutOfProject(ctx context.Context, settings *desired.Settings, dir string, runs *desired.Instance) error {
	head, err := v.r.Repo.Settings()
	if err != nil {
		return err
	}
	drv, err := v.checker.renderers.driver(settings, runs)
	if err != nil {
		return err
	}
	src, err := sourceOf(ctx, v.checker.packages, v.checker.reveal, runs)
	if err != nil {
		return err
	}
	made, err := drv.Render(src)
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	if v.checker.outOfProject(head, dir, drv, made) != nil {
		return nil // it is so already, and shown
	}
	return v.checker.outOfProject(settings, dir, drv, made)
}
