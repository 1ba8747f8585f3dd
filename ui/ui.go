// Package ui is the web page: Jibe as a person sees it in a browser.
//
// It draws pages from the same facts as the REST APIs, for the same roles, and works without
// JavaScript; a small script swaps the regions of a page that have changed. It owns the frame of
// every page, the sessions of browsers and the events that keep pages live. It never talks to a
// VIM and never changes anything in another way than the APIs do, by a commit or an operation.
package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// Root is the path below which all pages are.
const Root = "/ui"

// View is what the page shows beside git and the operation log. It is safe for concurrent use.
type View interface {
	// Drifting returns of each instance that differs from what git says why that is so, in a
	// few words.
	Drifting() map[string]string
	// Problems returns why files at head aren't obeyed. Their Instance is that of the file, ""
	// where that isn't known.
	Problems() []desired.Problem
}

// Credential is what a person is known by: a header of a request.
type Credential struct{ Header, Value string }

// Gate finds out who callers are. Its errors are those of [auth.Authenticator].
type Gate interface {
	// Login judges a credential that somebody has typed. It MUST slow down who guesses, with a
	// [*ThrottledError], and count and record what fails.
	Login(r *http.Request, c Credential) (auth.Identity, error)
	// Again judges a credential that was good before. What fails is no guess.
	Again(r *http.Request, c Credential) (auth.Identity, error)
	// Ambient judges what the connection or the header of the request says by itself. A request
	// that says nothing is no guess.
	Ambient(r *http.Request) (auth.Identity, error)
}

// Config holds what the page works with. Repo, Operations, View, Gate and Log are required.
type Config struct {
	Repo       desired.Repo
	Operations *oplog.Log
	View       View
	Gate       Gate
	Log        *slog.Logger
	// BaseURL is the one by which people reach the server. A session's cookie is for TLS alone
	// where its scheme is https.
	BaseURL string
	Version string
	// Lifecycle, Facts, Writer and History serve the pages of instances, operations and git, and what
	// their buttons ask for; all are required.
	Lifecycle Lifecycle
	Facts     Facts
	Writer    Writer
	History   History
	// Rollouts are required, too.
	Rollouts Rollouts
	// Keystone says that tokens of Keystone are taken, too.
	Keystone bool
	// Session and Idle are how long a session lasts at most, and how long without a request
	// that a person has made. The zero value is [DefaultSession] and [DefaultIdle].
	Session, Idle time.Duration
	// Observe is told of each request, by the pattern of its path, where it isn't nil.
	Observe func(ctx context.Context, route, method string, status int, took time.Duration)
}

// How long sessions last where nobody says otherwise.
const (
	DefaultSession = 12 * time.Hour
	DefaultIdle    = time.Hour
)

// Service serves the page. It is safe for concurrent use.
type Service struct {
	Config
	mux      *http.ServeMux
	pages    pages
	static   *static
	sessions *sessions
	fleet    *fleet
	events   *events
	origin   *http.CrossOriginProtection
}

// New makes the page. [Service.Run] keeps it live.
func New(c Config) (*Service, error) {
	if c.Session <= 0 {
		c.Session = DefaultSession
	}
	if c.Idle <= 0 {
		c.Idle = DefaultIdle
	}
	s := &Service{Config: c, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection()}
	var err error
	if s.static, err = newStatic(); err != nil {
		return nil, err
	}
	if s.pages, err = s.parse(); err != nil {
		return nil, err
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if base.Host != "" {
		if err := s.origin.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
			return nil, err
		}
	}
	s.sessions = newSessions(c.Session, c.Idle, time.Now)
	s.fleet = newFleet(c.Repo, c.Operations, c.View)
	s.events = newEvents(s.fleet, c.Log)
	s.sessions.ended = s.events.endSession
	c.Operations.OnRecord(s.events.operationChanged)
	s.routes()
	return s, nil
}

// routes registers what is served. [access.Needs] says of each page what it needs; those of
// public are for everybody.
func (s *Service) routes() {
	s.mux.Handle("GET "+Root, http.RedirectHandler(Root+"/", http.StatusSeeOther))
	s.public("GET "+Root+"/login", s.showLogin)
	s.public("POST "+Root+"/login", s.login)
	s.public("POST "+Root+"/logout", s.logout)
	s.public("GET "+Root+"/theme", s.setTheme)
	s.public("GET "+Root+"/static/{hash}/{name}", s.serveStatic)
	s.public("GET "+Root+"/", s.notFound)
	s.page("GET "+Root+"/{$}", s.showFleet)
	s.page("GET "+Root+"/events", s.serveEvents)
	s.page("GET "+Root+"/instances/{id}", s.showInstance)
	s.page("GET "+Root+"/operations/{id}", s.showOperation)
	s.page("GET "+Root+"/git", s.showGit)
	s.page("GET "+Root+"/git/branch", s.toBranch)
	s.page("GET "+Root+"/git/commits/{sha}", s.showCommit)
	s.page("GET "+Root+"/git/branches/{name...}", s.showBranch)
	s.page("GET "+Root+"/rollouts", s.showRollouts)
	s.page("GET "+Root+"/rollouts/{name}", s.showRollout)
	s.page("POST "+Root+"/rollouts/{name}/propose", s.proposeRollout)
	s.page("POST "+Root+"/rollouts/{name}/commit", s.commitRollout)
	s.page("POST "+Root+"/propose", s.propose)
	s.page("POST "+Root+"/commit", s.commit)
}

// handler answers a request; an error becomes a page that says what to do ([Service.fail]).
type handler func(w http.ResponseWriter, r *http.Request) error

// public registers what needs no session.
func (s *Service) public(pattern string, h handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := s.sameOrigin(r); err != nil {
			s.fail(w, r, err)
			return
		}
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// page registers what is for those who are known. The handler finds the caller with
// [auth.From]; a form that changes something is let through with the session's token alone.
func (s *Service) page(pattern string, h handler) {
	method, path, _ := strings.Cut(pattern, " ")
	need, known := access.Needs(method, path)
	if !known {
		need = access.Need{Role: auth.Admin, Everywhere: true}
	}
	s.public(pattern, func(w http.ResponseWriter, r *http.Request) error {
		v, err := s.visitor(r)
		if errors.Is(err, auth.ErrUnauthenticated) {
			return s.askLogin(w, r)
		}
		if err != nil {
			return err
		}
		if need.NotSOL002 && v.who.EM != "" {
			return &Failure{Status: http.StatusForbidden, Title: "This page is not for element managers", Detail: v.who.String() + " is confined to the instances of one element manager",
				Remedy: "Log in with a token that isn't confined to one."}
		}
		if err := need.Denied(v.who); err != nil {
			return &Failure{Status: http.StatusForbidden, Title: "You may not do this", Detail: err.Error(), Remedy: "Log in as somebody who may, or ask an administrator for the role."}
		}
		v.ensureCookie(w)
		v.since = s.events.now()
		r = r.WithContext(withVisitor(auth.With(r.Context(), v.who), v))
		if method != http.MethodGet {
			if err := v.checkForm(w, r); err != nil {
				return err
			}
		}
		return h(w, r)
	})
}

// sameOrigin refuses what another site has had a browser send.
func (s *Service) sameOrigin(r *http.Request) error {
	if err := s.origin.Check(r); err != nil {
		return &Failure{Status: http.StatusForbidden, Title: "The request came from another site", Detail: err.Error(), Remedy: "Open the page itself, and press the button there."}
	}
	return nil
}

// scope is what the caller of the request may see and change.
func (s *Service) scope(r *http.Request) (*access.Scope, error) {
	return access.NewScope(auth.From(r.Context()), s.Repo.Settings)
}

// ServeHTTP serves everything below [Root].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	secure(w.Header())
	_, pattern := s.mux.Handler(r)
	c := newAnswer(w, r)
	s.mux.ServeHTTP(c, r)
	c.end()
	if _, path, ok := strings.Cut(pattern, " "); ok && s.Observe != nil && path != Root+"/events" {
		s.Observe(r.Context(), path, r.Method, c.status, time.Since(began))
	}
}

// Run keeps pages live until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var g sync.WaitGroup
	g.Go(func() { s.sessions.run(ctx) })
	g.Go(func() { s.events.run(ctx) })
	g.Wait()
	return nil
}

// Close ends the streams of events, which would keep the server from ending in order.
func (s *Service) Close() { s.events.close() }

// refuse notes in the audit log why a request is refused: its answer is a page for people.
func refuse(r *http.Request, reason string) {
	audit.Note(r.Context(), func(rec *audit.Record) { rec.Reason = reason })
}
