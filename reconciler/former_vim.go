package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// FormerVIM is what ran at another VIM than the one to which a file under vims/ leads now: a cluster that was lost and
// set up again at the same address.
type FormerVIM struct {
	VIM string `json:"vim"`
	// Is is which one it says that it is.
	Is string `json:"is"`
	// Unreachable is why no VIM answers under the name, "" where one does. Whether that at which VNFs were instantiated is
	// gone can't be verified then.
	Unreachable string           `json:"unreachable,omitempty"`
	Instances   []FormerInstance `json:"instances"`
}

// FormerInstance is one VNF that was instantiated there.
type FormerInstance struct {
	Instance string `json:"instance"`
	Dir      string `json:"dir"`
	// Was is the VIM at which it was instantiated, "" where that isn't known: the record was lost, or the credentials don't
	// show it.
	Was string `json:"was"`
}

// formerVIMs are the instances that were found to run at another VIM than the one that answers under its name, each with
// that name. They are kept in memory, as facts are.
type formerVIMs struct {
	mu sync.Mutex
	of map[string]string
}

func newFormerVIMs() *formerVIMs { return &formerVIMs{of: make(map[string]string)} }

func (f *formerVIMs) note(instance, vim string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[instance] = vim
}

func (f *formerVIMs) clear(instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, instance)
}

// has reports whether the instance is one of them.
func (f *formerVIMs) has(instance string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[instance] != ""
}

// AtFormerVIMs returns how many instances run at a former VIM, as far as this process has seen, by the name of the VIM's
// file; 0 for a VIM that has none. It asks no VIM.
func (v *View) AtFormerVIMs() map[string]int {
	n := v.eachVIM()
	f := v.r.formerVIMs
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, vim := range f.of {
		if _, file := n[vim]; file { // else it is a connection of the instance's own
			n[vim]++
		}
	}
	return n
}

// FormerVIM returns the VNFs that were instantiated at a former VIM of the name.
func (v *View) FormerVIM(ctx context.Context, name string) (*FormerVIM, error) {
	r := v.r
	settings, err := r.Repo.Settings()
	if err != nil {
		return nil, err
	}
	file := settings.VIMs[name]
	if file == nil {
		return nil, fmt.Errorf("%w: there is no vims/%s.yaml", store.ErrNotFound, name)
	}

	found := &FormerVIM{VIM: name, Instances: []FormerInstance{}}
	at := desired.Place{Name: name, File: file}
	found.Is, err = r.vims.identityOf(ctx, settings, at)
	switch {
	case drivers.Answered(err):
		return nil, &drivers.RefusedError{Field: "vim", Reason: fmt.Sprintf(
			"something answers at the address of VIM %s, so that what ran there may run still: mend the credentials or the certificate of vims/%s.yaml, or have it lead elsewhere: %s", name, name, sentence(err))}
	case errors.Is(err, drivers.ErrUnavailable) && ctx.Err() == nil:
		found.Unreachable = sentence(err)
	case err != nil:
		return nil, fmt.Errorf("ask VIM %s which one it is: %w", name, err)
	}

	for e := range r.Oplog.InstanceEntries("") {
		record, err := r.Oplog.Instance(ctx, e.ID)
		if err != nil {
			return nil, fmt.Errorf("record of instance %s: %w", e.ID, err)
		}
		was := record.VIMs[name]
		if was != "" && was == found.Is || found.Is == "" && found.Unreachable == "" || slices.Contains(record.GoneVIMs, name) {
			continue
		}
		may, err := r.mayRunAt(ctx, settings, name, record, was == "")
		if err != nil {
			return nil, err
		}
		if !may || was == "" && found.Unreachable == "" {
			continue // what has no identity yet is asked for it once a VIM answers
		}
		found.Instances = append(found.Instances, FormerInstance{Instance: e.ID, Dir: record.Operated.Dir, Was: was})
	}
	slices.SortFunc(found.Instances, func(a, b FormerInstance) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.Instance, b.Instance))
	})
	return found, nil
}

// mayRunAt reports whether the instance may have objects at the VIM that the file of the name leads to. named says that
// its own files must name that VIM now: its record doesn't know where it was instantiated.
func (r *Reconciler) mayRunAt(ctx context.Context, settings *desired.Settings, name string, record *lcm.Instance, named bool) (bool, error) {
	revs := []desired.Revision{record.Operated}
	if id := cmp.Or(record.Open, record.OutstandingCommit); id != "" { // what it ends may run until then
		op, err := r.Oplog.Operation(ctx, id)
		if err != nil {
			return false, fmt.Errorf("operation %s: %w", id, err)
		}
		revs = append(revs, op.Before)
	}

	for _, rev := range revs {
		ran, err := r.read(ctx, rev)
		if err != nil {
			return false, err
		}
		if !desired.MayHaveObjects(ran) || len(ran.VIMConnections) > 0 { // its VIM of that name may be a connection of its own
			continue
		}
		if !named {
			return true, nil
		}
		list, err := places(settings, ran)
		if err == nil && slices.ContainsFunc(list, func(p desired.Place) bool { return p.Name == name && p.Connection == nil }) {
			return true, nil
		}
	}
	return false, nil
}

// identityOf asks the VIM of the place which one it is.
func (v *connections) identityOf(ctx context.Context, under *desired.Settings, at desired.Place) (string, error) {
	if at.Connection != nil {
		under = nil
	}
	c, _, err := v.open(placeKey(at), under, at)
	if err != nil {
		return "", err
	}
	return c.identify(ctx, v.now())
}
