package reconciler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// maxCircle bounds how many instances an error names that need each other.
const maxCircle = 8

// needsCheck holds what instances need against what git's head has of others. It looks at what a change names
// and at what that needs in turn, however many instances there are.
type needsCheck struct {
	repo       desired.Repo
	dependents *dependents
	// proposed are the directories that are changed along with an instance, as they would be; nil is one
	// that would go.
	proposed map[string]*desired.Instance
}

// with is the check of somebody who considers all these changes at once, by instance; nil is one that goes.
func (c *needsCheck) with(changes map[string]*desired.Instance) *needsCheck {
	if c == nil {
		return nil
	}
	other := *c
	other.proposed = map[string]*desired.Instance{}
	for id := range changes {
		if head, ok := c.repo.Lookup(id); ok {
			other.proposed[head.Dir] = nil
		}
	}
	for _, in := range changes {
		if in != nil {
			other.proposed[in.Dir] = in
		}
	}
	return &other
}

// at is what the instance in a directory needs; false where there is none.
func (c *needsCheck) at(dir string) ([]desired.Need, bool) {
	if in, changes := c.proposed[dir]; changes {
		if in == nil {
			return nil, false
		}
		return in.Needs, true
	}
	head, ok := c.repo.InDir(dir)
	return head.Needs, ok
}

// check refuses an instance that needs what isn't there, is another project's or needs it in turn, and one
// that goes, or moves, although others need it. before and after may be nil.
func (c *needsCheck) check(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if c == nil {
		return nil
	}
	if before != nil && (after == nil || after.Dir != before.Dir) {
		if err := c.leaves(ctx, settings, before.Dir); err != nil {
			return err
		}
	}
	if after == nil || len(after.Needs) == 0 || before != nil && before.Dir == after.Dir && slices.Equal(before.Needs, after.Needs) &&
		desired.IsInstantiated(before.State) == desired.IsInstantiated(after.State) {
		return nil // what is left as it was is waited for
	}
	project := settings.ProjectNameOf(after.Dir)
	for _, n := range after.Needs {
		_, there := c.at(n.Instance)
		switch {
		case n.Instance == after.Dir:
			return refusedNeed(n.Instance, "the instance would need itself: remove the entry")
		case settings.ProjectNameOf(n.Instance) != project:
			return refusedNeed(n.Instance, "%s isn't of project %s, and an instance may need those of its own project only: remove the entry, or let the instances of one project have both", n.Instance, project)
		case !there:
			return refusedNeed(n.Instance, "no instance stands in %s: write the directory as it is in the repository, and commit that instance before or along with this one", n.Instance)
		}
	}
	for _, n := range after.Needs {
		if way := c.way(n.Instance, after.Dir, map[string]bool{}); way != nil {
			return refusedNeed(n.Instance, "instances would need each other in a circle, so that none could begin: %s; remove one of these needs", strings.Join(circle(after.Dir, way), " -> "))
		}
	}
	return nil
}

// way is how one directory needs another: those between, with both ends; nil where it doesn't.
func (c *needsCheck) way(from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	needs, _ := c.at(from)
	for _, n := range needs {
		if rest := c.way(n.Instance, to, seen); rest != nil {
			return append([]string{from}, rest...)
		}
	}
	return nil
}

// circle is the way with its beginning, shortened in the middle.
func circle(dir string, way []string) []string {
	all := append([]string{dir}, way...)
	if len(all) > maxCircle {
		all = slices.Concat(all[:maxCircle/2], []string{"…"}, all[len(all)-maxCircle/2:])
	}
	return all
}

// leaves refuses to leave a directory without an instance that others need.
func (c *needsCheck) leaves(ctx context.Context, settings *desired.Settings, dir string) error {
	if in := c.proposed[dir]; in != nil {
		return nil // another takes its place
	}
	ids, err := c.dependents.needing(ctx, dir)
	if err != nil {
		return err
	}
	var users []string
	for _, id := range ids {
		head, exists := c.repo.LookupHead(id)
		if !exists || settings.ProjectNameOf(head.Dir) != settings.ProjectNameOf(dir) {
			continue
		}
		if _, changes := c.proposed[head.Dir]; !changes && desired.NeedsInstance(head.Needs, dir) {
			users = append(users, head.Dir)
		}
	}
	if len(users) == 0 {
		return nil
	}
	slices.Sort(users)
	need, them, their := "needs", "it", "its"
	if len(users) > 1 {
		need, them, their = "need", "them", "their"
	}
	return &drivers.RefusedError{Field: needsField, Conflict: true, Reason: fmt.Sprintf(
		"%s %s the instance in %s: remove %s along with this one, or take the need out of %s %s first", named("", users), need, dir, them, their, desired.InstanceFile)}
}

// needsField is the key of vnf.yaml.
const needsField = "needs"

// refusedNeed is why an entry of needs is refused.
func refusedNeed(dir, reason string, args ...any) error {
	return &drivers.RefusedError{Field: needsField + "." + dir, Reason: fmt.Sprintf(reason, args...)}
}

// lineOfNeed is the line of the entry of needs that names the directory, else that of the key.
func lineOfNeed(text, dir string) int {
	key := LineOf(text, needsField)
	if key == 0 {
		return 0
	}
	for i, line := range strings.Split(text, "\n")[key-1:] {
		if _, rest, names := strings.Cut(line, dir); names && (rest == "" || strings.ContainsAny(rest[:1], " \t\r,'\"]}#")) {
			return key + i
		}
	}
	return key
}
