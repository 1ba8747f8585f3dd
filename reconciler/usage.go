package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/changed"
)

// used is what one instance uses of its project's quotas; the zero value is nothing.
type used struct {
	dir       string
	instances int // 1 where it is instantiated
	vnfcs     int // by its scale levels in git
}

// usage counts what projects use, from the instances at git's head. It holds nothing of its
// own but what is about to be written: it catches up with git before each answer. It is safe
// for concurrent use.
type usage struct {
	repo desired.Repo
	// count is how many VNFCs an instance has by its scale levels.
	count func(ctx context.Context, in *desired.Instance) (int, error)

	mu   sync.Mutex
	take changed.Take
	of   map[string]used
	// behind are instances that are to be counted again; all says that every one is.
	behind map[string]bool
	all    bool
	// writing are the changes that the repository's writer is making now, by instance, in order.
	writing map[string][]*used
	// totals are those of the projects of settings.
	totals   map[string]used
	settings *desired.Settings
}

func newUsage(repo desired.Repo, count func(ctx context.Context, in *desired.Instance) (int, error)) *usage {
	return &usage{repo: repo, count: count, take: repo.WatchHeads(), of: map[string]used{}, behind: map[string]bool{}, writing: map[string][]*used{}}
}

// catchUp counts what has changed in git. What can't be counted stays to be counted again.
func (u *usage) catchUp(ctx context.Context) error {
	ids, all := u.take()
	u.all = u.all || all
	for _, id := range ids {
		u.behind[id] = true
	}
	if u.all {
		clear(u.of)
		u.settings = nil
		for _, rev := range u.repo.List() {
			u.behind[rev.Instance] = true
		}
		u.all = false
	}
	for id := range u.behind {
		now, whole, err := u.read(ctx, id)
		if err != nil {
			return fmt.Errorf("count instance %s: %w", id, err)
		}
		u.put(id, now)
		if whole {
			delete(u.behind, id)
		}
	}
	return nil
}

// read is what the instance uses at head. whole is false where its package can't be had now.
func (u *usage) read(ctx context.Context, id string) (now used, whole bool, err error) {
	head, ok := u.repo.LookupHead(id)
	if !ok || !desired.IsInstantiated(head.State) {
		return used{}, true, nil
	}
	in, err := u.repo.Read(ctx, head.Revision)
	if errors.Is(err, desired.ErrNotFound) {
		return used{}, true, nil
	}
	if err != nil {
		return used{}, false, err
	}
	vnfcs, err := u.count(ctx, in)
	return used{head.Dir, 1, vnfcs}, err == nil, nil
}

// put changes the total of the instance's project along with the instance.
func (u *usage) put(id string, now used) {
	was := u.of[id]
	if now == (used{}) {
		delete(u.of, id)
	} else {
		u.of[id] = now
	}
	if u.settings != nil {
		u.add(was, -1)
		u.add(now, 1)
	}
}

func (u *usage) add(x used, sign int) {
	if x.instances == 0 {
		return
	}
	name := u.settings.ProjectNameOf(x.dir)
	t := u.totals[name]
	t.instances += sign * x.instances
	t.vnfcs += sign * x.vnfcs
	u.totals[name] = t
}

// by makes the totals those of the projects of settings.
func (u *usage) by(settings *desired.Settings) {
	if u.settings == settings {
		return
	}
	u.settings, u.totals = settings, map[string]used{}
	for _, x := range u.of {
		u.add(x, 1)
	}
}

// total is what the project uses with the proposed instances in place of those at head, but
// for one of them; nil in proposed is one that uses nothing. settings say which instances are
// the project's.
func (u *usage) total(ctx context.Context, settings *desired.Settings, project, but string, proposed map[string]used) (used, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.catchUp(ctx); err != nil {
		return used{}, err
	}
	return u.others(settings, project, but, proposed), nil
}

func (u *usage) others(settings *desired.Settings, project, but string, proposed map[string]used) used {
	u.by(settings)
	sum := u.totals[project]
	replace := func(id string, next used) {
		for sign, x := range map[int]used{-1: u.of[id], 1: next} {
			if x.instances > 0 && settings.ProjectNameOf(x.dir) == project {
				sum.instances += sign * x.instances
				sum.vnfcs += sign * x.vnfcs
			}
		}
	}
	for id, list := range u.writing {
		if _, other := proposed[id]; id != but && !other {
			replace(id, *list[len(list)-1])
		}
	}
	for id, next := range proposed {
		if id != but {
			replace(id, next)
		}
	}
	replace(but, used{})
	return sum
}

// reserve counts a change that the repository's writer is about to make, unless it would
// exceed a quota of the project. It is called on the writer's goroutine, where nothing else
// changes the branch, and it counts until release is called.
func (u *usage) reserve(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) (release func(), err error) {
	was, err := u.usedBy(ctx, before)
	if err != nil {
		return nil, err
	}
	is, err := u.usedBy(ctx, after)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.catchUp(ctx); err != nil {
		return nil, err
	}
	p := settings.ProjectOf(after.Dir)
	if err := withinQuotas(p, u.others(settings, p.Name, after.ID, nil), inSame(settings, was, is), is); err != nil {
		return nil, err
	}
	u.writing[after.ID] = append(u.writing[after.ID], &is)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		left := slices.DeleteFunc(u.writing[after.ID], func(x *used) bool { return x == &is })
		if u.writing[after.ID] = left; len(left) == 0 {
			delete(u.writing, after.ID)
		}
	}, nil
}

// usedBy is what an instance with this intent uses; nil uses nothing.
func (u *usage) usedBy(ctx context.Context, in *desired.Instance) (used, error) {
	if in == nil || !desired.IsInstantiated(in.State) {
		return used{}, nil
	}
	n, err := u.count(ctx, in)
	return used{in.Dir, 1, n}, err
}

// inSame is was where both are of one project, else nothing.
func inSame(settings *desired.Settings, was, is used) used {
	if was.instances > 0 && settings.ProjectNameOf(was.dir) == settings.ProjectNameOf(is.dir) {
		return was
	}
	return used{}
}

// withinQuotas refuses is where it exceeds a quota of the project together with the others and
// uses more of it than was did.
func withinQuotas(p *desired.Project, others, was, is used) error {
	for _, q := range []struct {
		name         string
		most         int
		now, had, by int
	}{
		{"instances", p.Quotas.Instances, others.instances + is.instances, was.instances, is.instances},
		{"vnfcs", p.Quotas.VNFCs, others.vnfcs + is.vnfcs, was.vnfcs, is.vnfcs},
	} {
		if q.most > 0 && q.now > q.most && q.by > q.had {
			return &drivers.RefusedError{Field: map[string]string{"instances": "state", "vnfcs": "levels"}[q.name], Conflict: true, Reason: fmt.Sprintf(
				"the quota %s of project %s is %d, and with this change it would use %d: end or scale in others of its instances, or raise quotas.%s in %s",
				q.name, p.Name, q.most, q.now, q.name, desired.ProjectFile(p.Name))}
		}
	}
	return nil
}

// vnfcs is how many VNFCs the instance has by its scale levels.
func (c *Checker) vnfcs(ctx context.Context, inst *desired.Instance) (int, error) {
	pkg, err := c.pkg(ctx, inst)
	if err != nil {
		return 0, err
	}
	f, ok := pkg.VNFD.Flavour(inst.Flavour)
	if !ok {
		return 0, nil // it runs nothing, and is refused by itself
	}
	levels, err := f.ScaleLevels(inst.InstantiationLevel, inst.Levels)
	if err != nil {
		return 0, nil //nolint:nilerr // as above
	}
	sum := 0
	for i := range f.VDUs {
		n, err := f.Count(&f.VDUs[i], inst.InstantiationLevel, levels)
		if err != nil {
			return 0, nil //nolint:nilerr // as above
		}
		sum += n
	}
	return sum, nil
}

// fits refuses a change that exceeds a quota of the project.
func (c *Checker) fits(ctx context.Context, settings *desired.Settings, p *desired.Project, before, after *desired.Instance) error {
	if c.usage == nil || p.Quotas == (desired.Quotas{}) {
		return nil
	}
	was, err := c.usage.usedBy(ctx, before)
	if err != nil {
		return err
	}
	is, err := c.usage.usedBy(ctx, after)
	if err != nil {
		return err
	}
	others, err := c.usage.total(ctx, settings, p.Name, after.ID, c.proposed)
	if err != nil {
		return err
	}
	return withinQuotas(p, others, inSame(settings, was, is), is)
}

// Together is the view of somebody who considers all these changes at once: each counts
// towards the quotas of its project, and meets what the others need. nil is an instance that goes.
func (v *View) Together(ctx context.Context, settings *desired.Settings, changes map[string]*desired.Instance) *View {
	other := *v.checker
	other.proposed = map[string]used{}
	for id, in := range changes {
		if full, err := other.Complete(ctx, settings, nil, in); err == nil {
			in = full
		}
		// What can't be counted is refused by itself, for the reason.
		other.proposed[id], _ = v.checker.usage.usedBy(ctx, in)
	}
	other.needs = v.checker.needs.with(changes)
	return &View{v.r, &other, v.admin, v.proposed}
}

// Counted is the repository for those who write what somebody asks for. A write that would
// exceed a quota of its project is refused where the branch stands, with a
// [*drivers.RefusedError]: two at once can't exceed it together.
func (v *View) Counted(repo desired.Repo) desired.Repo { return counted{repo, v.checker.usage} }

type counted struct {
	desired.Repo
	usage *usage
}

// Write implements [desired.Repo].
func (c counted) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	var release []func()
	defer func() {
		for _, free := range release {
			free()
		}
	}()
	w.Change = c.within(ctx, w.Change, &release)
	return c.Repo.Write(ctx, w)
}

// WriteMany is [View.Counted] for a commit on many instances, which write makes.
func (v *View) WriteMany(ctx context.Context, repo desired.Repo, w desired.WriteMany, write func(context.Context, desired.WriteMany) (desired.Written, error)) (desired.Written, error) {
	c := counted{repo, v.checker.usage}
	var release []func()
	defer func() {
		for _, free := range release {
			free()
		}
	}()
	w.Instances = slices.Clone(w.Instances)
	for i := range w.Instances {
		w.Instances[i].Change = c.within(ctx, w.Instances[i].Change, &release)
	}
	return write(ctx, w)
}

// within is the change within the quotas of its project. What it reserves is given up by release.
func (c counted) within(ctx context.Context, change desired.Change, release *[]func()) desired.Change {
	return func(at desired.Revision, old desired.Files) (desired.Files, error) {
		files, err := change(at, old)
		if err != nil || len(files) == 0 {
			return files, err
		}
		settings, err := c.Settings()
		if err != nil {
			return nil, err
		}
		if settings.ProjectOf(at.Dir).Quotas == (desired.Quotas{}) {
			return files, nil
		}
		file := at.Dir + "/" + desired.InstanceFile
		after, err := desired.ParseInstance(file, files[desired.InstanceFile])
		if err != nil || !desired.IsInstantiated(after.State) {
			return files, nil //nolint:nilerr // the writer says it better
		}
		before, err := desired.ParseInstance(file, old[desired.InstanceFile])
		if err != nil || at.Tree == "" {
			before = nil
		}
		free, err := c.usage.reserve(ctx, settings, before, after)
		if err != nil {
			return nil, err
		}
		*release = append(*release, free)
		return files, nil
	}
}

// ProjectUse is a project with what its instances use.
type ProjectUse struct {
	desired.Project
	InstancesUsed int `json:"instancesUsed"`
	VNFCsUsed     int `json:"vnfcsUsed"`
}

// Projects are all projects at head with what they use, by name.
func (v *View) Projects(ctx context.Context) ([]ProjectUse, error) {
	settings, err := v.r.Repo.Settings()
	if err != nil {
		return nil, err
	}
	u := v.checker.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.catchUp(ctx); err != nil {
		return nil, err
	}
	u.by(settings)
	var list []ProjectUse
	for _, name := range settings.ProjectNames() {
		list = append(list, ProjectUse{*settings.Project(name), u.totals[name].instances, u.totals[name].vnfcs})
	}
	return list, nil
}
