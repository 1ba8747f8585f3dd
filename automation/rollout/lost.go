package rollout

import (
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// revertedReason is why an instance is passed over whose attempt a commit took out of the ledger with the change itself.
const revertedReason = "a commit reverted it together with what the ledger said of it"

// Restore returns the ledger l with the attempts that earlier versions of it have, and nil where it lacks none: the
// commit that begins with a wave has them, too, so that git revert of it takes them out. tree is that of an instance's
// directory at head. A ledger to which it gives attempts back is halted. Only what stands where the attempt began from was reverted; an attempt that was failed is an
// admin's to remove, as is any other of an instance that was left at the target.
func Restore(l *desired.Ledger, earlier []*desired.Ledger, tree func(instance string) string, now time.Time) *desired.Ledger {
	next := l.Clone()
	restored := false
	type attempt struct {
		instance, target string
		back             bool
		began            int64
	}
	known := map[attempt]bool{} // the newest version of an attempt counts
	for id, list := range l.Attempts {
		for _, a := range list {
			known[attempt{id, a.Target, a.Back, a.Began.UnixNano()}] = true
		}
	}
	for _, was := range earlier {
		if was.Rollout != l.Rollout {
			continue
		}
		for id, list := range was.Attempts {
			for _, a := range list {
				key := attempt{id, a.Target, a.Back, a.Began.UnixNano()}
				if known[key] {
					continue
				}
				known[key] = true
				if a.Back || a.Retried || a.Failed() || a.Target != l.Target || a.Tree == "" || a.Tree == a.Prior || tree(id) != a.Prior {
					continue
				}
				a.Outcome, a.Ended, a.Reason = desired.OutcomeSuperseded, now, revertedReason
				next.Attempts[id] = append(next.Attempts[id], a)
				restored = true
			}
		}
	}
	if !restored {
		return nil
	}
	if next.Halted == nil { // what a person takes back is not to go to all others
		next.Halted = &desired.Halt{At: now, Reason: "a commit reverted what it had done"}
	}

	return next
}
