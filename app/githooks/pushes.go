package githooks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"sync"

	"github.com/jibe-vnfm/jibe/auth"
)

// pusher is who pushes.
type pusher struct {
	who  auth.Identity
	from string // address, "" for the host itself
}

// push is one push over HTTP that is under way.
type push struct {
	pusher
	repository string
	asked      bool
	// lands says that it is to land, and that the hook which lands it hasn't asked yet.
	lands bool
	// judged is what came of it, where it was accepted: it is told apart from what git makes
	// of it afterwards.
	accepted *acceptedPush
}

// pushes are the pushes over HTTP that are under way, by ids that nobody can guess and that
// end with them.
type pushes struct {
	mu    sync.Mutex
	under map[string]*push
}

// begin notes a push; end forgets it, and returns what was accepted of it, nil for nothing.
func (p *pushes) begin(who pusher, repository string) (id string, end func() *acceptedPush) {
	id = rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.under == nil {
		p.under = map[string]*push{}
	}
	p.under[id] = &push{pusher: who, repository: repository}
	return id, func() *acceptedPush {
		p.mu.Lock()
		defer p.mu.Unlock()
		accepted := p.under[id].accepted
		delete(p.under, id)
		return accepted
	}
}

// errNoPush is returned for a push that isn't under way.
var errNoPush = errors.New("this is no push that the server knows: it has ended, was asked about already, or its id is made up; push again")

// claim returns who makes a push to a repository, once: a push has one hook, which asks once.
func (p *pushes) claim(id, repository string) (pusher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.under[id]
	if found == nil || found.asked || found.repository != repository {
		return pusher{}, errNoPush
	}
	found.asked = true
	return found.pusher, nil
}

// lands notes that a push is to land; it is false where the push has ended.
func (p *pushes) lands(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.under[id]
	if found != nil {
		found.lands = true
	}
	return found != nil
}

// claimLanding returns who makes a push that is to land, once.
func (p *pushes) claimLanding(id string) (pusher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.under[id]
	if found == nil || !found.lands {
		return pusher{}, errNoPush
	}
	found.lands = false
	return found.pusher, nil
}

// accept notes what was accepted of a push; it is false where the push has ended.
func (p *pushes) accept(id string, a *acceptedPush) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.under[id]
	if found != nil {
		found.accepted = a
	}
	return found != nil
}

type peerKey struct{}

// localPusher is who pushes by path: the user of the process at the other end of the hook's
// socket. Who may write the repository's files needs nobody's leave to.
func localPusher(ctx context.Context) (pusher, error) {
	uid, ok := ctx.Value(peerKey{}).(uint32)
	if !ok {
		return pusher{}, errors.New("the user of the push's process isn't known: this system doesn't tell it")
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return pusher{who: auth.Identity{Name: fmt.Sprintf("local:%s", name), Issuer: auth.IssuerHost, Permissions: []auth.Permission{{Role: auth.Admin}}}}, nil
}
