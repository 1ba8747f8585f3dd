package report

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/forge"
)

const (
	// rolloutRest is how often is looked where a rollout stands that hasn't ended: that looks at all
	// that it selects.
	rolloutRest = 5 * time.Second
	// shownFailures is how many instances of a rollout that have failed a comment names, and shownRollouts how
	// many rollouts a status does.
	shownFailures, shownRollouts = 10, 3
)

// rolled is what a commit brings to a rollout that it defines.
type rolled struct {
	// Says is where the rollout stands, without numbers that change at each instance: each would be
	// another status, and forges limit how many.
	Says string
	// Numbers and Failed are for a comment: how many instances are done, and the first that have failed.
	Numbers, Failed string
	// ended says that it stays so.
	ended bool
}

// targetRollout is the target of a commit that defines a rollout.
func targetRollout(name string) Target { return Target{Rollout: name, Dir: desired.RolloutFile(name)} }

// RolloutTarget is that of a rollout whose file a pull request brings or changes.
func RolloutTarget(file string) Target {
	return targetRollout(strings.TrimSuffix(path.Base(file), ".yaml"))
}

// ErrNoRollout is returned where no rollout has the name.
var ErrNoRollout = errors.New("there is no such rollout")

// Rollout is where a rollout stands, as whoever carries it out has decided.
type Rollout struct {
	// Phase says it to people, without numbers.
	Phase string
	// State is [forge.Failure] where it needs a person, or its end wasn't what its file asks for.
	State forge.State
	// Ended says that it stays so.
	Ended bool
	// NotObeyed says that its file isn't. Nothing else is known then.
	NotObeyed bool
	// Wave is the wave under way, from 1, of Waves; 0 before its start.
	Wave, Waves int
	// Selected is how many instances it concerns, Done how many are at its target, and Failures how many
	// have failed, of which Failed has directories.
	Selected, Done, Failures int
	Failed                   []string
}

// rollout is what has become of a rollout so far.
func (f *finder) rollout(ctx context.Context, t Target, was outcome) (outcome, error) {
	if was.ended {
		return was, nil
	}
	r, err := f.Rollout(ctx, t.Rollout)
	if errors.Is(err, ErrNoRollout) {
		return outcome{Target: t, fate: failed, rolled: rolled{Says: "removed before its end", ended: true}}, nil
	}
	if err != nil {
		return outcome{}, fmt.Errorf("where rollout %s stands: %w", t.Rollout, err)
	}
	return rolledOut(t, r), nil
}

func rolledOut(t Target, r Rollout) outcome {
	o := outcome{Target: t, fate: runs, rolled: rolled{Says: r.Phase, ended: r.Ended}}
	switch {
	case r.NotObeyed:
		o.fate, o.Says = refused, "not obeyed"
		return o
	case r.State == forge.Failure:
		o.fate = failed
	case r.Ended:
		if o.fate = completed; r.Failures > 0 {
			o.Says += fmt.Sprintf(", %s failed", count(r.Failures, "instance"))
		}
	case r.Wave == 0:
		o.fate = waits
	}
	if r.Wave > 0 && !o.ended {
		o.Says += fmt.Sprintf(", wave %d of %d", r.Wave, r.Waves)
	}
	o.Numbers = fmt.Sprintf("%d of %d", r.Done, r.Selected)
	dirs := slices.Clone(r.Failed[:min(len(r.Failed), shownFailures)])
	if more := r.Failures - len(dirs); more > 0 && len(dirs) > 0 {
		dirs = append(dirs, fmt.Sprintf("%d more", more))
	}
	o.Failed = strings.Join(dirs, ", ")
	return o
}

// rolloutParts say where the rollouts stand that a commit defines, the first of them one by one.
func (s summary) rolloutParts() (parts []string) {
	for i, o := range s.rollouts {
		if i == shownRollouts {
			return append(parts, fmt.Sprintf("%s more", count(len(s.rollouts)-i, "rollout")))
		}
		parts = append(parts, fmt.Sprintf("rollout %s: %s", o.Rollout, o.Says))
	}
	return parts
}
