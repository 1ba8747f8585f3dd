package reconciler

import (
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// unseenFor is for how long a VIM that couldn't be seen counts as away without another look: longer than
// instances at rest leave it alone then, so that those which follow each other leave no gap.
const unseenFor = awayAgain + awayAgain + awayAgain

// unseenVIMs are the VIMs that couldn't be seen when an instance was looked at last, by the names of their
// files. They are kept in memory, as facts are, and nothing that concerns one instance depends
// on them: whoever asks holds back what isn't begun yet.
type unseenVIMs struct {
	mu sync.Mutex
	of map[string]unseenVIM
}

type unseenVIM struct {
	why   string
	until time.Time
}

func newUnseenVIMs() *unseenVIMs { return &unseenVIMs{of: make(map[string]unseenVIM)} }

// mark notes why the VIM couldn't be seen now; "" names none.
func (u *unseenVIMs) mark(vim, why string, now time.Time) {
	if vim == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[vim] = unseenVIM{why, now.Add(unseenFor)}
}

// seen notes that the VIM is there.
func (u *unseenVIMs) seen(vim string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, vim)
}

// why is why the VIM can't be seen now, "" where it can or nobody has looked.
func (u *unseenVIMs) why(vim string, now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x := u.of[vim]; now.Before(x.until) {
		return x.why
	}
	return ""
}

// onlyVIM is the name of the VIM's file, "" where the instance runs at others, too, or by a connection of
// its own: what can't be seen then tells nothing about this one.
func onlyVIM(main desired.Place, in *desired.Instance) string {
	if main.File == nil || len(in.WithGrant().Placement) > 0 {
		return ""
	}
	return main.Name
}

// onlyVIM is [onlyVIM] of the instance.
func (r *driftRepair) onlyVIM(in *desired.Instance) string {
	settings, err := r.repo.Settings()
	if err != nil {
		return ""
	}
	at, err := settings.MainPlace(in)
	if err != nil {
		return ""
	}
	return onlyVIM(at, in)
}

// Away is why the VIM with the name of a file under vims/ is away, as far as this process has seen;
// "" where it is there. It asks no VIM.
func (v *View) Away(vim string) string { return v.r.unseen.why(vim, v.r.Now()) }
