package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
)

// boundsOf are what the project lets its packages bring. own is the namespace in which Jibe
// itself runs, "" where it runs in none: nobody's package writes there.
func boundsOf(p *desired.Project, own string) *drivers.Bounds {
	b := &drivers.Bounds{
		Project: p.Name, Namespaces: p.Namespaces, Forbidden: append(p.Foreign(), desired.ReservedNamespaces()...),
		Kinds: p.Kinds.Namespaced, ClusterKinds: p.Kinds.ClusterScoped, ResourceTypes: p.Kinds.Heat, PodSecurity: p.PodSecurity, Account: accountOf(p),
		ExternalIPs: p.ExternalIPs,
	}
	if b.Namespaces == nil && p.Name != desired.DefaultProject {
		b.Namespaces = []string{} // who claims none has none; of bounds, nil would mean any
	}
	if own != "" {
		b.Forbidden = append(b.Forbidden, own)
	}
	return b
}

// standing are the bounds of what runs already: it is looked after whatever the project has
// come to say, by the project's account.
func standing(p *desired.Project) *drivers.Bounds {
	return &drivers.Bounds{Project: p.Name, ClusterKinds: []string{"*"}, PodSecurity: desired.PodSecurityPrivileged,
		ResourceTypes: []string{"*"}, Account: accountOf(p), ExternalIPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
}

func accountOf(p *desired.Project) string {
	if p.Impersonate.IsZero() {
		return ""
	}
	return p.Impersonate.Namespace + "/" + p.Impersonate.Name
}

// whose is the project of an instance where it stands at head: a directory may have moved since
// an operation began.
func (r revisions) whose(inst *desired.Instance) (*desired.Project, error) {
	settings, err := r.repo.Settings()
	if err != nil {
		return nil, fmt.Errorf("projects of the desired repository: %w", err)
	}
	if head, ok := r.repo.Lookup(inst.ID); ok {
		return settings.ProjectOf(head.Dir), nil
	}
	return settings.ProjectOf(inst.Dir), nil
}

// anew is what a change has to be judged for by the rules of the instance's project.
type anew struct {
	// places says that it may run elsewhere, contents that what it is made of may differ.
	places, contents bool
}

// renewed says what the change from before to after makes anew. What it leaves as it was goes
// on, whatever the rules have become: what runs must be healed, scaled and ended. before may
// be nil.
func renewed(settings *desired.Settings, before, after *desired.Instance) anew {
	if before == nil || !desired.IsInstantiated(before.State) || settings.ProjectNameOf(before.Dir) != settings.ProjectNameOf(after.Dir) {
		return anew{true, true}
	}
	var a anew
	for _, key := range desired.Changed(before, after) {
		switch key {
		case "vim", "vimConnectionInfo", "placement":
			a.places = true
		case "name", "description", "follow", "state", "instantiationLevel", "levels", "update", "condemned", "metadata", "extensions",
			"vnfConfigurableProperties", "drift", "hooks", "em", "needs", "suspend", "supersede", "held":
			// No object is made of these, or they say only how many there are.
		default:
			a.contents = true
		}
	}
	return a
}

// inProject refuses a change by which the instance would be where its project may not be, run
// what the project has no repository for, or exceed its quotas. Both are as
// [Checker.Complete] leaves them; before may be nil.
func (c *Checker) inProject(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	p := settings.ProjectOf(after.Dir)
	judged := renewed(settings, before, after)
	if judged.places {
		if err := mayRunAt(settings, p, after); err != nil {
			return err
		}
	}
	if judged.contents {
		if err := c.mayRunPackages(settings, p, before, after); err != nil {
			return err
		}
	}
	return c.fits(ctx, settings, p, before, after)
}

// mayRunAt refuses VIMs that the project doesn't have. A connection of the instance's own is
// the VIM of the file that has the same endpoint; one that is no file's is for projects that
// have every VIM.
func mayRunAt(settings *desired.Settings, p *desired.Project, inst *desired.Instance) error {
	list, err := places(settings, inst)
	if err != nil {
		return err
	}
	for _, at := range list {
		names := []string{at.Name}
		if at.Connection != nil {
			names = sameVIMs(settings, at)
		}
		if slices.ContainsFunc(names, p.MayUseVIM) {
			continue
		}
		return &drivers.RefusedError{Field: at.Field(), Reason: fmt.Sprintf(
			"project %s may not use %s: name a VIM that it has, or let vims in %s name this one", p.Name, at, desired.ProjectFile(p.Name))}
	}
	return nil
}

// sameVIMs are the names of the files of the VIM that is connected to, "" where none is known.
func sameVIMs(settings *desired.Settings, at desired.Place) []string {
	var names []string
	for name, file := range settings.VIMs {
		if (desired.Place{Name: name, File: file}).Same(at) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	slices.Sort(names)
	return names
}

// mayRunPackages refuses packages that no repository of the project has. What the instance has
// run in the same project stays, wherever its repository went.
func (c *Checker) mayRunPackages(settings *desired.Settings, p *desired.Project, before, after *desired.Instance) error {
	var runs []string
	if before != nil && desired.IsInstantiated(before.State) && settings.ProjectNameOf(before.Dir) == p.Name {
		runs = treesOf(before)
	}
	for _, tree := range treesOf(after) {
		names := c.packages.RepositoriesOf(tree)
		if slices.Contains(runs, tree) || slices.ContainsFunc(names, p.MayUseRepository) || len(names) == 0 && p.MayUseRepository("") {
			continue
		}
		where := "no repository has it any more"
		if len(names) > 0 {
			where = "it is in " + strings.Join(names, ", ")
		}
		return &drivers.RefusedError{Field: "vnfdId", Reason: fmt.Sprintf(
			"project %s may not run package %s of vnfdId %s: %s; run one that the project has, or let repositories in %s name one of these",
			p.Name, tree, after.VnfdID, where, desired.ProjectFile(p.Name))}
	}
	return nil
}

// confined refuses what is out of the project's bounds in the rendering made of after. All of
// it is refused that was made anew, else what was rendered before doesn't have either.
func (c *Checker) confined(settings *desired.Settings, drv drivers.Driver, before, after *desired.Instance, made drivers.Rendering) error {
	if !renewed(settings, before, after).contents {
		return nil
	}
	return outOfBounds(drv.Confine(made.Bounded(boundsOf(settings.ProjectOf(after.Dir), c.own))), settings.ProjectOf(after.Dir).Name)
}

// boundsFor are the bounds in which an operation from before to after would write; settings nil
// are head's.
func (v *View) boundsFor(settings *desired.Settings, before, after *desired.Instance) (*drivers.Bounds, error) {
	if settings == nil {
		var err error
		if settings, err = v.r.Repo.Settings(); err != nil {
			return nil, err
		}
	}
	p := settings.ProjectOf(after.Dir)
	if renewed(settings, before, after).contents {
		return boundsOf(p, v.checker.own), nil
	}
	return standing(p), nil
}

// maxViolations is how many violations a refusal names.
const maxViolations = 10

// outOfBounds is the refusal of what violates the bounds of the project, nil where nothing does.
func outOfBounds(found []drivers.Violation, project string) error {
	if len(found) == 0 {
		return nil
	}
	if i := slices.IndexFunc(found, func(v drivers.Violation) bool { return v.Rule == drivers.RuleVIM }); i >= 0 {
		return &drivers.RefusedError{Field: "vim", Reason: found[i].Object + " " + found[i].Detail} // no project could allow it
	}
	var said []string
	for _, v := range found[:min(len(found), maxViolations)] {
		said = append(said, v.String())
	}
	if more := len(found) - maxViolations; more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return &drivers.RefusedError{Field: "vnfdId", Reason: fmt.Sprintf("project %s doesn't allow what the package brings: %s. Leave it out of the package, or let %s allow it",
		project, strings.Join(said, "; "), desired.ProjectFile(project))}
}

// hooksIn refuses hooks in a project that has none.
func hooksIn(p *desired.Project, what string) error {
	if p.Hooks {
		return nil
	}
	return &drivers.RefusedError{Field: "hooks", Reason: fmt.Sprintf(
		"%s needs hooks of the package, and project %s lets none run: remove hooks: false from %s, or leave them out: hooks: %s in %s",
		what, p.Name, desired.ProjectFile(p.Name), desired.HooksSkip, desired.InstanceFile)}
}

// inBounds sets the bounds in which the operation writes: those of the project where it makes
// something anew, else those of what stands. A rollback restores what stood.
func (x *attempts) inBounds(ctx context.Context, a *attempt, settings *desired.Settings) error {
	if a.want.Source.Package == nil || a.op.Automatic || a.journal.Rollback {
		return nil
	}
	judged, err := x.resolver.judged(ctx, settings, a.op)
	if err != nil || !judged.contents {
		return err
	}
	p, err := x.resolver.whose(a.want.Source.Instance)
	if err != nil {
		return err
	}
	a.want = a.want.Bounded(boundsOf(p, x.admission.checker.own))
	return nil
}

// judged is what the operation makes anew, with what was granted.
func (r revisions) judged(ctx context.Context, settings *desired.Settings, op *lcm.Operation) (anew, error) {
	before, err := r.read(ctx, op.Before)
	if err != nil {
		return anew{}, err
	}
	after, err := r.read(ctx, op.After)
	if err != nil || after == nil {
		return anew{}, err
	}
	if before != nil {
		before = before.WithGrant()
	}
	return renewed(settings, before, after.WithGrant()), nil
}

// confine refuses the rendering of an operation that is about to begin where it is out of
// the bounds in which the operation writes: git's head may have other settings than when the
// change was accepted, and a grant other VIMs.
func (m admission) confine(ctx context.Context, a *attempt) error {
	if a.want.Source.Package == nil || a.op.Automatic || a.journal.Rollback {
		return nil
	}
	settings, err := m.resolver.repo.Settings()
	if err != nil {
		return fmt.Errorf("projects of the desired repository: %w", err)
	}
	p, err := m.resolver.whose(a.want.Source.Instance)
	if err != nil {
		return err
	}
	judged, err := m.resolver.judged(ctx, settings, a.op)
	if err != nil {
		return err
	}
	if judged.places {
		if err := mayRunAt(settings, p, a.want.Source.Instance); err != nil {
			return err
		}
	}
	if !judged.contents {
		return nil
	}
	before, err := m.resolver.read(ctx, a.op.Before)
	if err != nil {
		return err
	}
	if err := m.checker.mayRunPackages(settings, p, before, a.want.Source.Instance); err != nil {
		return err
	}
	return outOfBounds(a.drv.Confine(a.want), p.Name)
}

// newlyOut refuses what is out of the project's bounds in a rendering that a hook's parameters
// have changed, and wasn't before.
func newlyOut(drv drivers.Driver, was, is drivers.Rendering, p *desired.Project, own string) error {
	bounds := boundsOf(p, own)
	stood := drv.Confine(was.Bounded(bounds))
	found := slices.DeleteFunc(drv.Confine(is.Bounded(bounds)), func(v drivers.Violation) bool { return slices.Contains(stood, v) })
	err := outOfBounds(found, p.Name)
	if refused, ok := errors.AsType[*drivers.RefusedError](err); ok {
		refused.Field, refused.Reason = "params", "with the parameters that a hook has set: "+refused.Reason
	}
	return err
}
