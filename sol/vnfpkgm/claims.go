package vnfpkgm

import (
	"context"
	"net/http"

	"github.com/jibe-vnfm/jibe/sol/rest"
)

// Claims keep several processes from working on one package at the same moment, and have each show
// what another does. They are for order alone: what a package becomes is decided on its repository.
type Claims interface {
	// Take has this process work on the package, in an onboarding state, which may be another one
	// than before. Where another process that lives works on it, Take returns the state there, and
	// this one has nothing.
	Take(ctx context.Context, id, state string) (elsewhere string, err error)
	// Drop ends that, at the latest when the store can be reached again. It does nothing for a package that
	// this process doesn't work on.
	Drop(ctx context.Context, id string)
	// Elsewhere is the state in which another process works on the package, "" where none does.
	Elsewhere(id string) string
}

// claim takes the package for work in the state, or says that it has some already.
func (s *Service) claim(ctx context.Context, id, state string) error {
	s.mu.Lock()
	now := s.busy[id]
	if now == "" {
		s.busy[id] = state
	}
	s.mu.Unlock()
	var err error
	if now == "" && s.Claims != nil {
		if now, err = s.Claims.Take(ctx, id, state); now != "" || err != nil {
			s.mu.Lock()
			delete(s.busy, id)
			s.mu.Unlock()
		}
	}
	if now != "" {
		return rest.Problem(http.StatusConflict, "VNF package %s is busy: its onboardingState is %s", id, now)
	}
	return err
}

// proceed has a claimed package be in another state. That another process doesn't learn of it, or works on
// it as well, changes nothing: a former process has answered for the archive.
func (s *Service) proceed(ctx context.Context, id, state string) {
	s.mu.Lock()
	s.busy[id] = state
	s.mu.Unlock()
	if s.Claims == nil {
		return
	}
	if elsewhere, err := s.Claims.Take(context.WithoutCancel(ctx), id, state); err != nil || elsewhere != "" {
		s.Log.WarnContext(ctx, "other replicas don't see that this one works on a package", "package", id, "elsewhere", elsewhere, "error", err)
	}
}

// release ends the work on a package: with the other processes first, so that none of them shows it as
// worked on where this one has shown what came of it.
func (s *Service) release(ctx context.Context, id string) {
	if s.Claims != nil {
		s.Claims.Drop(context.WithoutCancel(ctx), id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, id)
}

// working is the state in which this process, or another, works on the package, "" where none does.
func (s *Service) working(id string) string {
	s.mu.Lock()
	busy := s.busy[id]
	s.mu.Unlock()
	if busy == "" && s.Claims != nil {
		busy = s.Claims.Elsewhere(id)
	}
	return busy
}
