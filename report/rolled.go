package report

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
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

// rollout is what has become of a rollout so far.
func (f *finder) rollout(ctx context.Context, t Target, was outcome) (outcome, error) {
	if was.ended {
		return was, nil
	}
	st, err := f.Rollout(ctx, t.Rollout)
	if errors.Is(err, automation.ErrNoRollout) {
		return outcome{Target: t, fate: failed, rolled: rolled{Says: "removed before its end", ended: true}}, nil
	}
	if err != nil {
		return outcome{}, fmt.Errorf("where rollout %s stands: %w", t.Rollout, err)
	}
	return rolledOut(t, st), nil
}

// rolledOut says where a rollout stands. What a VIM says of a failure is not for whoever may read the
// forge.
func rolledOut(t Target, st automation.RolloutStatus) outcome {
	o := outcome{Target: t, fate: runs, rolled: rolled{Says: string(st.Phase)}}
	switch st.Phase {
	case rollout.Done:
		o.fate, o.ended = completed, true
		if n := st.Counts.Failed; n > 0 {
			o.Says += fmt.Sprintf(", %s failed", count(n, "instance"))
		}
	case rollout.RolledBack, rollout.Aborted:
		o.fate, o.ended = failed, true
	case rollout.Halted, rollout.RollingBack, rollout.Aborting:
		o.fate = failed
	case rollout.Running:
		if st.Wave == 0 {
			o.fate, o.Says = waits, "not begun yet"
		}
	}
	if st.Problem != "" {
		o.fate, o.Says = refused, "not obeyed"
		return o
	}
	if st.Wave > 0 && !o.ended {
		o.Says += fmt.Sprintf(", wave %d of %d", st.Wave, st.Waves)
	}
	c := st.Counts
	o.Numbers = fmt.Sprintf("%d of %d", c.Completed+c.Already, c.Selected)
	var dirs []string
	for _, x := range st.Failed[:min(len(st.Failed), shownFailures)] {
		dirs = append(dirs, x.Dir)
	}
	if more := c.Failed - len(dirs); more > 0 && len(dirs) > 0 {
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
