package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

const (
	// identityPatience bounds the wait for its word, and for how long it isn't asked again
	// where none came: all instances at the VIM wait for one answer.
	identityPatience = 2 * time.Second
)

// identity is why a VIM didn't say which one it is. What it said is never kept here: its driver knows when that is of
// another VIM than what it observes.
type identity struct {
	mu    sync.Mutex
	err   error
	until time.Time
}

// identify asks the VIM which one it is; "" where it doesn't know.
func (c *connected) identify(ctx context.Context, now time.Time) (string, error) {
	x, ok := c.Driver.(drivers.Identifier)
	if !ok {
		return "", nil
	}
	c.identity.mu.Lock()
	defer c.identity.mu.Unlock()
	if now.Before(c.identity.until) {
		return "", c.identity.err
	}

	asking, cancel := context.WithTimeout(ctx, identityPatience)
	defer cancel()
	is, err := x.Identity(asking)
	if err == nil {
		return is, nil
	}
	if ctx.Err() != nil {
		return "", err
	}

	if asking.Err() != nil { // its time was up, and not the caller's
		err = fmt.Errorf("%w: no answer within %s: %w", drivers.ErrUnavailable, identityPatience, err)
	}
	c.identity.err, c.identity.until = err, now.Add(identityPatience)
	return "", err
}

// identities are what the VIMs of an instance say that they are, by the names that it has
// for them; "" for one that answers without it. Those of the names in gone aren't asked.
func (v *connections) identities(ctx context.Context, inst *desired.Instance, gone []string) (map[string]string, error) {
	settings, list, err := placesIn(ctx, v.repo, inst)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(list))
	for _, at := range list {
		if slices.Contains(gone, at.Name) {
			continue
		}
		is, err := v.identityOf(ctx, settings, at)
		if err != nil {
			return nil, fmt.Errorf("ask VIM %s which one it is: %w", at.Name, err)
		}
		found[at.Name] = is
	}
	return found, nil
}

// vimIdentity remembers at which VIMs one instance was instantiated, and sees that they are
// still those. It records what it learns in the instance's record.
type vimIdentity struct {
	id    string
	oplog *oplog.Log
	vims  *connections
	// former has the instance while its VIMs aren't those.
	former *formerVIMs
}

// gone returns the names of those VIMs of the instance that an administrator has said to be gone for good, and that
// don't answer now.
func (v vimIdentity) gone(ctx context.Context, record *lcm.Instance, inst *desired.Instance) (names []string, err error) {
	if len(record.GoneVIMs) == 0 {
		return nil, nil
	}
	settings, list, err := placesIn(ctx, v.vims.repo, inst)
	if err != nil {
		return nil, err
	}

	for _, at := range list {
		if at.Connection != nil || !slices.Contains(record.GoneVIMs, at.Name) {
			continue
		}
		if _, err := v.vims.identityOf(ctx, settings, at); errors.Is(err, drivers.ErrUnavailable) && !drivers.Answered(err) {
			names = append(names, at.Name)
		}
	}

	return names, ctx.Err()
}

// confirm makes sure that the instance's VIMs are those at which it was instantiated: a file
// under vims/ that names another VIM by now would have the VNF built a second time there, and
// left behind where it runs. The identity of a VIM that isn't known yet is recorded, without an operation. Those of the
// names in gone aren't asked.
func (v vimIdentity) confirm(ctx context.Context, record *lcm.Instance, inst *desired.Instance, gone ...string) error {
	if !desired.MayHaveObjects(inst) {
		v.former.clear(v.id)
		return nil // it runs nowhere
	}
	found, err := v.vims.identities(ctx, inst, gone)
	if err != nil {
		return err
	}
	answers := func(name string) bool { _, asked := found[name]; return asked }
	news := slices.ContainsFunc(record.GoneVIMs, answers)
	for name, is := range found {
		if is == "" {
			continue
		}
		switch was := record.VIMs[name]; was {
		case is:
		case "":
			news = true
		default:
			v.former.note(v.id, name)
			return &drivers.RefusedError{Field: "vim", Reason: fmt.Sprintf(
				"VIM %s isn't the one at which the VNF was instantiated: it says that it is %s, and that was %s; have vims/%s.yaml lead there again, or, where that one is gone for good, have an administrator call `jibe vim forget %s`",
				name, is, was, name, name)}
		}
	}
	v.former.clear(v.id)
	if !news {
		return nil
	}
	err = v.oplog.Adopt(ctx, v.id, func(i *lcm.Instance) error {
		i.GoneVIMs = slices.DeleteFunc(i.GoneVIMs, answers)
		if i.VIMs == nil {
			i.VIMs = make(map[string]string, len(found))
		}
		for name, is := range found {
			if is != "" && i.VIMs[name] == "" {
				i.VIMs[name] = is
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the VIMs of instance %s: %w", v.id, err)
	}
	return nil
}
