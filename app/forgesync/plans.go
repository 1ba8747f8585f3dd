package forgesync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/admission/plantext"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/markdown"
	"github.com/jibe-vnfm/jibe/report"
)

// mostPlanned bounds how many instances of a pull request are planned by itself.
const mostPlanned = 2000

// planTime bounds one plan.
const planTime = 10 * time.Minute

// planner plans branches of the forge's.
type planner struct {
	repo     PlannedRepo
	reviewer Reviewer
}

// branch plans a branch of the forge's as it would be once merged, as "jibe plan --head" does.
// Whoever may push a branch has it planned: what it says of VIMs, peers and package sources is
// never called before somebody has merged it.
func (s planner) branch(ctx context.Context, branch string) (report.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	tip, err := s.repo.FetchBranch(ctx, branch)
	if err != nil {
		return report.Plan{}, err
	}
	made := report.Plan{Commit: tip, Base: s.repo.Head()}
	d, err := s.repo.DraftOf(ctx, tip)
	if errors.Is(err, gitrepo.ErrConflict) {
		made.Anything = true
		made.Text = "### Jibe: this can't be merged\n\n" + markdown.Escape(err.Error())
		return made, nil
	} else if err != nil {
		return report.Plan{}, err
	}
	defer d.Close()
	made.Base = d.Update.Old
	var unplanned string
	v, err := admission.CheckPush(ctx, check.New(d.Reader), d.Update.Ref, []check.RefUpdate{d.Update}, nil, func(u check.RefUpdate) (*admission.Verdict, error) {
		p, err := admission.FromUpdate(ctx, d.Reader, u)
		if err != nil {
			return nil, err
		}
		if unplanned, err = s.unplanned(ctx, p); err != nil || unplanned != "" {
			return &admission.Verdict{}, err
		}
		made.Anything = len(p.Rollouts) > 0
		for _, file := range slices.Sorted(maps.Keys(p.Rollouts)) {
			made.Targets = append(made.Targets, report.RolloutTarget(file))
		}
		for _, c := range p.Instances {
			made.Targets = append(made.Targets, report.Target{Instance: c.Instance, Dir: c.Dir})
		}
		return s.reviewer.Review(ctx, p, true)
	})
	if err != nil {
		return report.Plan{}, err
	}
	if unplanned != "" {
		made.Text = "### Jibe: this isn't planned by itself\n\n" + markdown.Escape(unplanned) +
			" Somebody with the role planner can look at it: `jibe plan --head BRANCH`."
		return made, nil
	}
	var b bytes.Buffer
	err = plantext.Markdown(&b, *v, admission.GroupPreviews(v.Previews))
	made.Text = b.String()
	return made, err
}

// unplanned is why a proposal isn't planned without a person who may have that done, "" where it is.
func (s planner) unplanned(ctx context.Context, p *admission.Proposal) (string, error) {
	if p.Settings != nil {
		return "It changes settings (vims/, repositories.yaml or what stands beside them), and a plan would call what they name.", nil
	}
	if len(p.Instances) > mostPlanned {
		return fmt.Sprintf("It changes %d instances, more than are planned by themselves (%d).", len(p.Instances), mostPlanned), nil
	}
	for _, c := range p.Instances {
		if c.File == "" {
			continue
		}
		after, err := desired.ParseInstance(path.Join(c.Dir, desired.InstanceFile), []byte(c.File))
		if err != nil || len(after.VIMConnections) == 0 {
			continue //nolint:nilerr // the review says why it can't be read
		}
		var now map[string]desired.VIMConnection
		if head, ok := s.repo.Lookup(cmp.Or(after.ID, c.Instance)); ok {
			in, err := s.repo.Read(ctx, head)
			if err != nil {
				return "", err
			}
			now = in.VIMConnections
		}
		if !maps.EqualFunc(now, after.VIMConnections, func(a, b desired.VIMConnection) bool { return reflect.DeepEqual(a, b) }) {
			return "It changes the VIM connections of " + c.Dir + ", and a plan would call what they name.", nil
		}
	}
	return "", nil
}
