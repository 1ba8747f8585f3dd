package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// Verdict is the answer to a proposal. It is admitted where there are no problems.
type Verdict struct {
	Problems []*desired.Problem `json:"problems"`
	// Forbidden says that the problems are rights which the asker lacks.
	Forbidden bool `json:"forbidden,omitempty"`
	// Warnings refuse nothing.
	Warnings []*desired.Problem   `json:"warnings,omitempty"`
	Previews []reconciler.Preview `json:"previews,omitempty"`
	// Effect is that of the proposal.
	Effect string `json:"effect,omitempty"`
}

// Repo is what a reviewer needs of the desired repository.
type Repo interface {
	Refresh(ctx context.Context) error
	Settings() (*desired.Settings, error)
	List() []desired.Revision
	Lookup(instance string) (desired.Revision, bool)
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
	// Named are the directories at head whose instances have a name.
	Named(name string) []string
}

// Packages are those of a catalogue.
type Packages interface {
	reconciler.Packages
	List() []packages.Entry
}

// Config is what a [Reviewer] works with. Everything in it is required.
type Config struct {
	Repo     Repo
	View     *reconciler.View
	Packages Packages
	// FetchProposed fetches what the settings name, for one review; nothing else may ever see
	// those packages, as nobody has accepted them. It returns an error for each repository
	// that can't be fetched.
	FetchProposed func(ctx context.Context, settings *desired.Settings) (proposed Packages, away []error, err error)
	// Forbidden are the VIMs and peers that the installation doesn't use, as they refer to
	// something forbidden. Those that are the same in known are passed over.
	Forbidden func(settings, known *desired.Settings) []*desired.Problem
	// Rolled returns what a rollout would make of the instances that it selects, were it to start now.
	Rolled func(ctx context.Context, file string, r *desired.Rollout) ([]Rolled, error)
	// PullRequests says that there is a forge on which rollouts may propose.
	PullRequests bool
}

// Rolled is an instance that a rollout selects.
type Rolled struct {
	Head desired.Revision
	// After is what the rollout makes of it, nil where it is passed over, for the reason given.
	After  *desired.Instance
	Passed string
}

// Reviewer is the server's side of admission.
type Reviewer struct{ Config }

// NewReviewer makes a reviewer.
func NewReviewer(c Config) *Reviewer { return &Reviewer{c} }

// Review answers a proposal; with steps, the verdict also says what would be done. The
// error is about the review: a proposal that is refused is none.
func (r *Reviewer) Review(ctx context.Context, p *Proposal, steps bool) (*Verdict, error) {
	// The ref moves before this process knows of it: who has seen a commit (Jibe's own pin
	// of a package, say) may push on top of it at once.
	if err := r.Repo.Refresh(ctx); err != nil {
		return nil, err
	}
	now, err := r.Repo.Settings()
	if err != nil {
		return nil, err
	}
	settings := now
	if p.Settings != nil {
		settings = p.Settings
		for name, vim := range settings.VIMs {
			vim.Name = name // the encoded form has it only as the key
		}
	}
	v := &Verdict{Problems: []*desired.Problem{}, Effect: p.Effect}
	// A problem that is there already is shown elsewhere, and isn't this change's fault.
	v.Problems = append(v.Problems, r.Forbidden(settings, now)...)
	v.Problems = append(v.Problems, r.unproposed(p)...)
	v.Problems = append(v.Problems, unasked(p, settings)...)
	view := r.View
	var proposed Packages
	if !slices.Equal(now.Repositories, settings.Repositories) {
		other, away, err := r.FetchProposed(ctx, settings)
		if err != nil {
			return nil, err
		}
		for _, err := range away {
			v.Problems = append(v.Problems, &desired.Problem{File: desired.RepositoriesFile, Message: err.Error(),
				Remedy: "check the url, and that this server may read it"})
		}
		view = view.With(other)
		if len(away) == 0 { // else it isn't known what they have
			proposed = other
		}
	}
	inUse, err := r.settingsInUse(ctx, now, p, settings, proposed)
	if err != nil {
		return nil, err
	}
	v.Problems = append(v.Problems, inUse...)
	if p.Admin {
		view = view.ByAdmin()
	}
	view = view.Together(ctx, settings, p.intents())
	review := newInstanceReview(ctx, r.Repo, view, settings)
	hold := holdOf(ctx)
	for _, c := range p.Instances {
		after, problems, err := review.candidate(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", c.Dir, err)
		}
		v.Problems = append(v.Problems, problems...)
		if err := hold.TakeAnswer(problems); err != nil {
			return nil, err
		}
		if !steps || len(problems) > 0 {
			continue
		}
		rev := desired.Revision{Instance: c.Instance, Dir: c.Dir}
		if after != nil {
			rev.Instance = after.ID
		}
		preview := view.Plan(ctx, settings, rev, after)
		if err := hold.TakeAnswer(preview); err != nil {
			return nil, err
		}
		v.Previews = append(v.Previews, preview)
	}
	v.Warnings = review.warnings
	if steps {
		if err := r.rolled(ctx, view, settings, p, v); err != nil {
			return nil, err
		}
	}
	warnings, err := r.leftOutside(ctx, view, now, settings, p)
	if err != nil {
		return nil, err
	}
	v.Warnings = append(v.Warnings, warnings...)
	return v, nil
}

// unproposed refuses rollouts that would propose where there is no forge.
func (r *Reviewer) unproposed(p *Proposal) (out []*desired.Problem) {
	for _, file := range slices.Sorted(maps.Keys(p.Rollouts)) {
		ro, err := desired.ParseRollout(file, []byte(p.Rollouts[file]))
		if err == nil && ro.Proposes() && ro.State != desired.RolloutAborted && !r.PullRequests {
			out = append(out, &desired.Problem{File: file, Message: "\"write: " + desired.WritePullRequest + "\" needs a forge, and this server has none",
				Remedy: "give jibe serve --remote and --forge-token, or remove write"})
		}
	}
	return out
}

// unasked refuses rollouts whose gates ask the Prometheus of a VIM that has none.
func unasked(p *Proposal, settings *desired.Settings) (out []*desired.Problem) {
	for _, file := range slices.Sorted(maps.Keys(p.Rollouts)) {
		ro, err := desired.ParseRollout(file, []byte(p.Rollouts[file]))
		if err != nil || ro.State == desired.RolloutAborted {
			continue // what can't be read is a problem of the push
		}
		for _, q := range ro.After.Prometheus {
			if why, remedy := q.Unasked(settings); why != "" {
				out = append(out, &desired.Problem{File: file, Message: "after.prometheus: " + why, Remedy: remedy})
			}
		}
	}
	return out
}

// rolled adds what the proposed rollouts would do, instance by instance, as if all waves began now.
func (r *Reviewer) rolled(ctx context.Context, view *reconciler.View, settings *desired.Settings, p *Proposal, v *Verdict) error {
	for _, file := range slices.Sorted(maps.Keys(p.Rollouts)) {
		ro, err := desired.ParseRollout(file, []byte(p.Rollouts[file]))
		if err != nil || ro.State == desired.RolloutAborted {
			continue // what can't be read is a problem of the push
		}
		list, err := r.Rolled(ctx, file, ro)
		if err != nil {
			v.Warnings = append(v.Warnings, &desired.Problem{File: file, Message: "what it would do can't be said: " + err.Error()})
			continue
		}
		passed := map[string]int{}
		for _, x := range list {
			if x.After == nil {
				passed[x.Passed]++
				continue
			}
			if slices.ContainsFunc(p.Instances, func(c Candidate) bool { return c.Dir == x.Head.Dir }) {
				continue // the change itself comes first
			}
			preview := view.Plan(ctx, settings, x.Head, x.After)
			preview.Rollout, preview.Proposed = ro.Name, ro.Proposes()
			if err := holdOf(ctx).TakeAnswer(preview); err != nil {
				return err
			}
			v.Previews = append(v.Previews, preview)
		}
		for _, why := range slices.Sorted(maps.Keys(passed)) {
			v.Warnings = append(v.Warnings, &desired.Problem{File: file, Message: fmt.Sprintf("it passes %d of its instances over: %s", passed[why], why)})
		}
	}
	return nil
}
