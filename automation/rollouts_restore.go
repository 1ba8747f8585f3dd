package automation

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
)

const (
	// mostVersions bounds how many versions of a ledger are compared with the one at head.
	mostVersions = 50
	// clockSlack is how far the clocks of those who commit may differ.
	clockSlack = 24 * time.Hour
)

// restore writes attempts back that a commit other than the rollout's own took out of its ledger, as git revert of a
// wave does: without them the instances would start again. It reports whether it has. A ledger that this
// process wrote, or has compared before, isn't compared again.
func (r *Rollouts) restore(ctx context.Context, s *seen) (bool, error) {
	key := digestOf(s.ledgerFile, string(s.ledgerText))
	if last, known := r.whole.Get(s.ledgerFile); known && last == key {
		return false, nil
	}
	since := s.l.Started.Add(-clockSlack)
	if len(s.l.Attempts) == 0 { // it may have been reverted to what it was before its start, and started again
		since = time.Time{}
	}
	hashes, err := r.Repo.Versions(ctx, s.ledgerFile, since, mostVersions)
	if err != nil {
		return false, err
	}

	var earlier []*desired.Ledger
	for _, hash := range hashes {
		text, err := r.Repo.Content(ctx, hash)
		if err != nil {
			return false, fmt.Errorf("a version of %s: %w", s.ledgerFile, err)
		}
		if l, err := r.ledger(s.ledgerFile, hash, text); err == nil { // one that can't be read was never in effect
			earlier = append(earlier, l)
		}
	}
	restored := rollout.Restore(s.l, earlier, func(instance string) string { return s.heads[instance].Tree }, r.Now())
	if restored == nil {
		r.whole.Add(s.ledgerFile, key)
		return false, nil
	}
	subject := fmt.Sprintf("Note what was reverted of rollout %s", s.r.Name)
	_, err = r.commit(ctx, s.loaded, subject, restored.Wave, nil, nil, func([]desired.Revised) ([]byte, *desired.Ledger, error) {
		return s.text, restored, nil
	})

	return err == nil, err
}
