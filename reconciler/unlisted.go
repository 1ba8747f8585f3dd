package reconciler

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
)

const (
	// unlistedGrace is for how long a kind must be out of sight before people are told: a webhook that is started
	// again is away for some seconds.
	unlistedGrace = 10 * time.Second
	// unlistedAnew is after how long another reason takes the place of the one that is told, unless it says more. Some
	// hold what differs from look to look, such as a port.
	unlistedAnew = time.Minute
)

// Unlisted is a kind of object that a VIM can't list or watch while it answers otherwise, and an instance that can't be
// looked after for that.
type Unlisted struct {
	Instance, VIM, Kind string
	Since               time.Time
	// Why is what the VIM says.
	Why string

	dir  string
	told time.Time // when Why was noted
}

// unlisted holds, by instance, the kind that can't be listed. It is a view of facts: a restart sees them again.
type unlisted struct {
	mu sync.Mutex
	of map[string]Unlisted
}

func newUnlisted() *unlisted { return &unlisted{of: make(map[string]Unlisted)} }

// note takes down what the look at an instance ended with, where that is an [*drivers.UnlistedError]; any other error
// tells nothing about a kind any more. secrets are not shown.
func (u *unlisted) note(instance, dir string, err error, secrets []string, now time.Time) {
	kind, ok := unlistedKind(err)
	if !ok {
		u.clear(instance)
		return
	}
	if now.Sub(kind.Since) < unlistedGrace {
		return
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	next := Unlisted{instance, kind.VIM, kind.Kind, kind.Since, hooks.Redact(kind.Err.Error(), secrets), dir, now}
	if was, known := u.of[instance]; known && was.VIM == next.VIM && was.Kind == next.Kind {
		next.Since = was.Since
		if more := strings.HasPrefix(next.Why, was.Why); was.Why == next.Why || !more && now.Sub(was.told) < unlistedAnew {
			next.Why, next.told = was.Why, was.told
		}
	}
	u.of[instance] = next
}

// clear notes that the instance can be looked at.
func (u *unlisted) clear(instance string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, instance)
}

func (u *unlisted) problem(instance string) (Problem, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x, ok := u.of[instance]
	return x.problem(), ok
}

// list returns all, by VIM, kind and instance.
func (u *unlisted) list() []Unlisted {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]Unlisted, 0, len(u.of))
	for _, x := range u.of {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b Unlisted) int {
		return cmp.Or(strings.Compare(a.VIM, b.VIM), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Instance, b.Instance))
	})
	return list
}

func (x Unlisted) problem() Problem {
	return Problem{Instance: x.Instance, Since: x.Since, Problem: desired.Problem{
		File:    path.Join(x.dir, desired.InstanceFile),
		Message: fmt.Sprintf("VIM %s can't list kind %s, so that the instance is neither looked after nor changed: %s", x.VIM, x.Kind, x.Why),
		Remedy:  "let the VIM list the kind again (the webhook that converts it, the right to list and watch it); the instance goes on by itself then",
	}}
}

// unlistedKind returns the kind that the error is about, if it is about one.
func unlistedKind(err error) (*drivers.UnlistedError, bool) {
	return errors.AsType[*drivers.UnlistedError](err)
}

// Unlisted returns the kinds that VIMs can't list, with the instances of this process that can't be looked after for
// that, by VIM, kind and instance.
func (v *View) Unlisted() []Unlisted { return v.r.unlisted.list() }
