package api

import (
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
)

// Told hands what happens to those who asked for it.
type Told struct {
	Identities *auth.Identities // nil where everyone is let in
	Repo       Places
	Packages   *vnfpkgm.Service // set before requests are served
}

// Places is the desired repository, which says where instances are.
type Places interface {
	Settings() (*desired.Settings, error)
	LookupHead(instance string) (desired.Head, bool)
}

// Sees reports whether the owner of a subscription may be told of an event, as of now: what they
// could see when they subscribed or, where a file here says what they may do, what they may now.
func (t *Told) Sees(owner auth.Identity, e oplog.Event) bool {
	owner, ok := t.Identities.Current(owner)
	if !ok {
		return false
	}
	scope, err := access.NewScope(owner, t.Repo.Settings)
	if err != nil {
		return false
	}
	if e.API != "" {
		return t.Packages.SeesEvent(scope, e)
	}
	at := access.Instance{Dir: e.Dir}
	if head, ok := t.Repo.LookupHead(e.Instance); ok {
		at.EM = head.EM
		if at.Dir == "" { // an event of an earlier version
			at.Dir = head.Dir
		}
	}
	return scope.Sees(at)
}
