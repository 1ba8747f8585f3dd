package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
)

// providedVIMs are the VIMs that one instance is, because its hooks say so: it commits them,
// and takes them away.
type providedVIMs struct {
	id   string
	log  *slog.Logger
	repo desired.Repo
	seal func(clear string) (string, error)
	// commits makes the commits.
	commits committer
}

// named returns the VIMs that a hook says the instance is, as they may reach git. A
// cluster that can't be a VIM, or has the name of somebody else's, is a
// [*drivers.RefusedError].
func (p providedVIMs) named(vims map[string]*hooks.ProvidedVIM) (map[string]*desired.VIM, error) {
	if len(vims) == 0 {
		return nil, nil
	}
	settings, err := p.repo.Settings()
	if err != nil {
		return nil, err
	}
	out := make(map[string]*desired.VIM, len(vims))
	for _, name := range slices.Sorted(maps.Keys(vims)) {
		if was := settings.VIMs[name]; was != nil && was.Instance != p.id {
			return nil, &drivers.RefusedError{Field: "vims", Reason: fmt.Sprintf(
				"the VNF would be the VIM %s, and %s is there already and isn't its own: rename that one and retry, or commit another name", name, desired.VIMFile(name))}
		}
		if vims[name] == nil {
			out[name] = nil
			continue
		}
		if project := p.project(settings); !project.MayUseVIM(name) {
			return nil, &drivers.RefusedError{Field: "vims", Reason: fmt.Sprintf(
				"the VNF would be the VIM %s, which isn't one of project %s: let vims in %s name it and retry, or commit another name", name, project.Name, desired.ProjectFile(project.Name))}
		}
		if out[name], err = vims[name].VIM(name, p.id, p.seal); err != nil {
			return nil, asRefused(err)
		}
	}
	return out, nil
}

// project is that of the instance, which may not take a name that another one claims.
func (p providedVIMs) project(settings *desired.Settings) *desired.Project {
	head, _ := p.repo.Lookup(p.id)
	return settings.ProjectOf(head.Dir)
}

// withdrawn returns the VIMs that end with the operation, as nothing runs after it. (An
// instantiation that is rolled back may have published them in an attempt.)
func (p providedVIMs) withdrawn(op *lcm.Operation) (lcm.Entries, error) {
	if op.Type != lcm.Terminate && (op.Type != lcm.Instantiate || op.State != lcm.RollingBack) {
		return lcm.Entries{}, nil
	}
	settings, err := p.repo.Settings()
	if err != nil {
		return lcm.Entries{}, err
	}
	gone := map[string]*desired.VIM{}
	for _, name := range settings.Provided(p.id) {
		gone[name] = nil
	}
	return lcm.Entries{VIMs: gone}, nil
}

// publish commits the VIMs that the instance provides from now on, and deletes those that it
// no longer does (nil). Where somebody else has taken the name meanwhile, their file stays.
func (p providedVIMs) publish(ctx context.Context, op *lcm.Operation, vims map[string]*desired.VIM) error {
	if len(vims) == 0 {
		return nil
	}
	what := "VIMs of operation " + op.ID + ": " + strings.Join(slices.Sorted(maps.Keys(vims)), " ")
	_, err := commitOf(ctx, p.commits, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.write(ctx, op, vims) })
	return err
}

// write makes the commits of publish.
func (p providedVIMs) write(ctx context.Context, op *lcm.Operation, vims map[string]*desired.VIM) error {
	for _, name := range slices.Sorted(maps.Keys(vims)) {
		vim := vims[name]
		subject := fmt.Sprintf("Provide VIM %s, which %s is", name, op.After.Dir)
		if vim == nil {
			subject = "Take away VIM " + name + ", which is no more"
		}
		_, err := p.repo.WriteVIM(ctx, name, subject, []desired.Trailer{
			{Key: desired.TrailerOperation, Value: op.ID},
			{Key: desired.TrailerType, Value: string(op.Type)},
		}, func(now []byte) ([]byte, error) {
			if vim == nil {
				was, err := desired.ParseVIM(desired.VIMFile(name), now)
				if err != nil || was.Instance != p.id {
					return now, nil
				}
				return nil, nil
			}
			provided := *vim
			provided.Name = name // which the encoded form leaves to the key
			return desired.ProvideVIM(&provided, now)
		})
		if errors.Is(err, desired.ErrVIMTaken) {
			p.log.ErrorContext(ctx, "the cluster is no VIM, as somebody else's file took its name meanwhile: give that one another name, and write this one's by hand, with an admin's kubeconfig from a master",
				"vim", name, "operation", op.ID, "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("commit VIM %s, which this VNF provides: %w", name, err)
		}
	}
	return nil
}

// unused refuses to end or stop an instance that is a VIM on which others run: they would be
// gone with it, and Jibe could no longer look after them.
func (r *Reconciler) unused(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if before == nil || !desired.IsInstantiated(before.State) || after != nil && after.State == desired.Instantiated {
		return nil
	}
	own := settings.Provided(before.ID)
	if len(own) == 0 {
		return nil
	}
	// Some shall run there and some still do, as a termination may be under way.
	revs := slices.Clone(r.Repo.List())
	for e := range r.Oplog.InstanceEntries("") {
		revs = append(revs, e.Settled)
	}
	var users []string
	for _, rev := range revs {
		in, err := r.read(ctx, rev)
		if err != nil || in == nil || !desired.IsInstantiated(in.State) || in.ID == before.ID {
			continue // Jibe runs nothing that it can't read
		}
		list, err := places(settings, in)
		if err == nil && slices.ContainsFunc(list, func(at desired.Place) bool { return at.File != nil && slices.Contains(own, at.Name) }) {
			users = append(users, rev.Dir)
		}
	}
	if len(users) == 0 {
		return nil
	}
	slices.Sort(users)
	users = slices.Compact(users)
	return &drivers.RefusedError{Field: "state", Conflict: true, Reason: fmt.Sprintf(
		"the VNF is the VIM %s, on which others run: terminate %s first", strings.Join(own, ", "), strings.Join(users, ", "))}
}

// stillUnused asks unused again when a termination or a stop begins.
func (r *Reconciler) stillUnused(ctx context.Context, before *desired.Instance) error {
	settings, err := r.Repo.Settings()
	if err != nil {
		return err
	}
	return r.unused(ctx, settings, before, nil)
}
