// Package admission holds a proposed change of the desired repository against the rules,
// before it is made. The push hook, "jibe validate" and "jibe plan" all ask here: what git
// alone can tell is checked where the files are ([CheckPush]), and everything else by the
// server ([Reviewer]). It changes nothing.
package admission

import (
	"cmp"
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// Proposal is a change of the desired repository that somebody considers: what differs
// from its head. The push hook, "jibe validate" and "jibe plan" send it to the server.
type Proposal struct {
	// Settings are vims/ and repositories.yaml as they would be; nil means as they are.
	Settings *desired.Settings `json:"settings,omitempty"`
	// Instances are the directories that would change.
	Instances []Candidate `json:"instances"`
	// Rollouts are the files of rollouts that would come or change, by path.
	Rollouts map[string]string `json:"rollouts,omitempty"`
	// Touched is where anything at all would differ, for the right to it; nil where that isn't
	// known.
	Touched *read.Touched `json:"touched,omitempty"`
	// Effect is how many VNFs end, begin and change, with the first names; "" if that isn't known, or none does.
	Effect string `json:"effect,omitempty"`
	// Admin says that an administrator makes the change. Nothing that is sent says so.
	Admin bool `json:"-"`
}

// Candidate is one instance's directory as it would be.
type Candidate struct {
	Dir string `json:"dir"`
	// Instance is needed only where File is empty.
	Instance string `json:"instance,omitempty"`
	// File is the text of vnf.yaml, "" for a directory that would go.
	File string `json:"file,omitempty"`
}

// FromSnapshot proposes everything in which the snapshot differs from base, the instances
// that the server has now, and all of the snapshot's settings.
func FromSnapshot(ctx context.Context, base []desired.Revision, s read.Snapshot) (*Proposal, error) {
	p := &Proposal{Instances: []Candidate{}}
	now := make(map[string]desired.Revision, len(base))
	for _, rev := range base {
		now[rev.Instance] = rev
	}
	for _, rev := range s.List() {
		was, known := now[rev.Instance]
		delete(now, rev.Instance)
		if known && was.Tree == rev.Tree && was.Dir == rev.Dir {
			continue
		}
		files, err := s.Files(ctx, rev)
		if err != nil {
			return nil, err
		}
		p.Instances = append(p.Instances, Candidate{Dir: rev.Dir, Instance: rev.Instance, File: string(files[desired.InstanceFile])})
	}
	for _, rev := range now {
		p.Instances = append(p.Instances, Candidate{Dir: rev.Dir, Instance: rev.Instance})
	}
	slices.SortFunc(p.Instances, func(a, b Candidate) int { return cmp.Compare(a.Dir, b.Dir) })
	var err error
	p.Settings, err = s.Settings()
	return p, err
}

// FromUpdate proposes what the update of one ref would change; r reads the objects of both
// of its commits.
func FromUpdate(ctx context.Context, r *read.Reader, u check.RefUpdate) (*Proposal, error) {
	changes, effect, settings, err := r.DiffEffect(ctx, u.Old, u.New)
	if err != nil {
		return nil, err
	}
	p := &Proposal{Instances: []Candidate{}}
	if effect.Any() {
		p.Effect = effect.String()
	}
	if p.Touched, err = r.Touched(ctx, u.Old, u.New); err != nil {
		return nil, err
	}
	if p.Rollouts, err = r.Rollouts(ctx, u.New, p.Touched); err != nil {
		return nil, err
	}
	for _, c := range changes {
		candidate := Candidate{Dir: c.After.Dir, Instance: c.After.Instance}
		if c.After.Tree != "" {
			files, err := r.Files(ctx, c.After)
			if err != nil {
				return nil, err
			}
			candidate.File = string(files[desired.InstanceFile])
		}
		p.Instances = append(p.Instances, candidate)
	}
	if settings {
		if p.Settings, err = r.SettingsAt(ctx, u.New); err != nil {
			return nil, err
		}
	}
	return p, nil
}
