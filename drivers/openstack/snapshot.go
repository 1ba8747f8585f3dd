package openstack

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// snapshot is what the VIM had at one moment, of all instances.
type snapshot struct {
	began  time.Time
	stacks map[string][]*stack // by instance
	// foreign are the stacks of other installations, by name.
	foreign map[string]*stackRecord
	busy    bool // something is in progress
}

// stack is one stack, with what is known of it beyond the list.
type stack struct {
	stackRecord
	fingerprint string // changes when the stack or one of its servers does
	tree        *tree
	// live is what the stack was made of, as of the work that liveOf names.
	live   *liveBody
	liveOf string
	ports  map[string]*port
	// portsFor is the fingerprint of the servers and ports when ports was read.
	portsFor string
	// withoutAddress are the ids of ports that have no address and should have one.
	withoutAddress map[string]bool
	// servers are those that the tree names, nil under the id of one that is gone.
	servers map[string]*server
	// launched is when each server was launched, also of servers that are gone.
	launched map[string]time.Time
	// images are the ids of the images that volumes were made of, by the volume's id: of
	// servers that start from a volume.
	images map[string]string
	// groups are the groups' own stacks, by the group's resource: they may be updated by
	// themselves.
	groups map[string]*stackRecord
	// err is why all this isn't known.
	err error
	// looked is when all this was read; of a deleted stack, when it was first seen deleted.
	looked time.Time
}

func (s *stack) id() stackID { return stackID{s.Name, s.ID} }

// forgetting is how long the driver waits, at the pace of work, for Heat to forget a deleted
// stack. A stack whose engine died over its deletion is never forgotten.
const forgetting = time.Minute

// busy says whether work is under way on the stack, or on one in it.
func (s *stack) busy() bool {
	if s.deleted() {
		return time.Since(s.looked) < forgetting
	}
	if s.inProgress() {
		return true
	}
	for _, g := range s.groups {
		if g.inProgress() {
			return true
		}
	}
	return s.tree != nil && slices.ContainsFunc(s.tree.all, func(n *node) bool { return n.inProgress() })
}

// take looks at the VIM: it reads two lists, and all of the stacks that changed since the last
// look or that were worked on (touched, by instance).
func (d *Driver) take(ctx context.Context, last *snapshot, touched map[string]bool) (*snapshot, error) {
	now := &snapshot{began: time.Now(), stacks: map[string][]*stack{}, foreign: map[string]*stackRecord{}}
	var records []*stackRecord
	var servers map[string]*server
	err := together(
		func() (err error) { records, err = d.cloud.listStacks(ctx); return err },
		func() (err error) { servers, err = d.cloud.listServers(ctx, ""); return err },
	)
	if err != nil {
		return nil, err
	}
	known := map[string]*stack{}
	if last != nil {
		for _, stacks := range last.stacks {
			for _, s := range stacks {
				known[s.ID] = s
			}
		}
	}
	var mu sync.Mutex
	var looks []func() error
	for _, r := range records {
		instance := r.instance()
		if instance == "" {
			continue
		}
		if d.foreign(r) {
			now.foreign[r.Name] = r
			continue
		}
		s := &stack{stackRecord: *r}
		if s.deleted() { // there is nothing to look at
			if s.looked = time.Now(); known[r.ID] != nil && known[r.ID].deleted() {
				s.looked = known[r.ID].looked
			}
			now.add(instance, s)
			continue
		}
		s.fingerprint = fingerprintOf(s, known[r.ID], servers)
		before := known[r.ID]
		if before != nil && before.fingerprint == s.fingerprint && !touched[instance] && d.upToDate(before) {
			same := *before
			same.stackRecord = *r
			now.add(instance, &same)
			continue
		}
		looks = append(looks, func() error {
			s.looked = time.Now()
			err := d.look(ctx, s, before, servers, touched[instance])
			if is(err, http.StatusNotFound) {
				return nil // it went meanwhile
			}
			s.err = d.cloud.asUnavailable(err)
			mu.Lock()
			defer mu.Unlock()
			now.add(instance, s)
			return nil
		})
	}
	if err := together(looks...); err != nil {
		return nil, err
	}
	for _, stacks := range now.stacks {
		slices.SortFunc(stacks, func(a, b *stack) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), a.order(&b.stackRecord))
		})
	}
	return now, nil
}

// looksApart is how many looks at the VIM pass before a stack in progress is read again. That
// is expensive for Heat, which has the stack to work on, and the list shows when the work ends.
const looksApart = 5

// upToDate says whether there is nothing new to read of a stack that hasn't changed in the
// lists.
func (d *Driver) upToDate(s *stack) bool {
	if s.err != nil {
		return false
	}
	return !s.busy() || s.inProgress() && time.Since(s.looked) < looksApart*d.opts.Busy
}

func (n *snapshot) add(instance string, s *stack) {
	n.stacks[instance] = append(n.stacks[instance], s)
	if s.busy() || s.err != nil {
		n.busy = true
	}
	for _, v := range s.servers {
		if v != nil && !v.settled() {
			n.busy = true
		}
	}
}

// fingerprintOf is what the lists have of the stack and its servers.
func fingerprintOf(s, before *stack, servers map[string]*server) string {
	parts := []string{s.Status, s.UpdatedTime.String(), strings.Join(s.Tags, ",")}
	if before != nil && before.tree != nil {
		for _, id := range before.tree.servers() {
			if v := servers[id]; v != nil {
				parts = append(parts, v.fingerprint())
			}
		}
	}
	return strings.Join(parts, "\n")
}

// look reads what the lists don't have of the stack.
func (d *Driver) look(ctx context.Context, s, before *stack, servers map[string]*server, touched bool) error {
	if before == nil {
		before = &stack{}
	}
	work := s.UpdatedTime.String() + s.Status[:strings.Index(s.Status+"_", "_")]
	steps := []func() error{func() error {
		found, err := d.cloud.resources(ctx, s.id())
		if err == nil {
			s.tree = newTree(s.id(), found)
		}
		return err
	}}
	if s.live, s.liveOf = before.live, before.liveOf; s.live == nil || s.liveOf != work || touched {
		steps = append(steps, func() (err error) {
			s.live, err = d.cloud.body(ctx, s.id())
			s.liveOf = work
			return err
		})
	}
	if err := together(steps...); err != nil {
		return err
	}
	if err := d.findServers(ctx, s, before, servers); err != nil {
		return err
	}
	s.fingerprint = fingerprintOf(s, s, servers)
	rest := d.findGroups(ctx, s)
	if s.portsFor = s.tree.portsFingerprint(); s.inProgress() && s.portsFor == before.portsFor {
		s.ports = before.ports // they are looked at again at the end of the work
	} else {
		rest = append(rest, func() (err error) {
			own := s.tree.physical(typePort)
			if s.ports, err = d.cloud.ports(ctx, s.tree.servers(), own); err != nil {
				return err
			}
			s.withoutAddress, err = d.cloud.withoutAddress(ctx, s.ports, own)
			return err
		})
	}
	return together(rest...)
}

// findGroups reads the groups' own stacks. While the top stack is in progress its state
// suffices.
func (d *Driver) findGroups(ctx context.Context, s *stack) []func() error {
	if s.inProgress() {
		return nil
	}
	var mu sync.Mutex
	var looks []func() error
	s.groups = map[string]*stackRecord{}
	for _, n := range s.tree.all {
		if n.Type != typeGroup || n.nested.id == "" {
			continue
		}
		looks = append(looks, func() error {
			g, err := d.cloud.findStack(ctx, n.nested)
			mu.Lock()
			defer mu.Unlock()
			if g != nil {
				s.groups[n.Name] = g
			}
			return err
		})
	}
	return looks
}

// findServers takes the tree's servers out of the list. It asks Nova for one that isn't in the
// list, which may have been made since: such a server must not count as dead.
func (d *Driver) findServers(ctx context.Context, s, before *stack, servers map[string]*server) error {
	s.servers, s.launched, s.images = map[string]*server{}, map[string]time.Time{}, map[string]string{}
	for _, id := range s.tree.servers() {
		v := servers[id]
		if v == nil {
			var err error
			if v, err = d.cloud.findServer(ctx, id); err != nil {
				return err
			}
		}
		s.servers[id] = v
		if v != nil {
			s.launched[id] = v.Launched
		} else {
			s.launched[id] = before.launched[id]
			continue
		}
		if v.Image != "" {
			continue
		}
		for _, id := range v.Volumes {
			image, known := before.images[id]
			if !known {
				var err error
				if image, err = d.cloud.bootImage(ctx, id); err != nil {
					return err
				}
			}
			s.images[id] = image
		}
	}
	return nil
}

// image is the id of the image that the server was made of, "" where none is known.
func (s *stack) image(v *server) string {
	if v.Image != "" {
		return v.Image
	}
	for _, volume := range v.Volumes {
		if image := s.images[volume]; image != "" {
			return image
		}
	}
	return ""
}

// together runs the functions side by side and joins their errors. The connection bounds how
// many requests are under way.
func together(fs ...func() error) error {
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
