package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/ui"
)

// PageOptions are those of the web page.
type PageOptions struct {
	// Off leaves it out.
	Off bool
	// Session and Idle are how long a session lasts at most, and how long without a request that
	// a person has made; 0 is the default of package ui.
	Session, Idle time.Duration
}

// servePage adds the web page to mux.
func (s *API) servePage(mux *http.ServeMux, lifecycle *sol.Service, repo desired.Repo, observe func(ctx context.Context, route, method string, status int, took time.Duration)) error {
	if s.Page.Off {
		return nil
	}
	page, err := ui.New(ui.Config{
		Repo: s.Repo, Operations: s.Oplog, View: pageView{s.View, s.Problems}, Gate: pageGate{s}, Log: s.Log,
		BaseURL: s.BaseURL, Version: s.Version, Keystone: s.Keystone, Session: s.Page.Session, Idle: s.Page.Idle, Observe: observe,
		Lifecycle: lifecycle, Facts: pageFacts{s}, Writer: &pageWriter{s: s, repo: repo}, History: newPageHistory(s), Rollouts: pageRollouts{s},
	})
	if err != nil {
		return fmt.Errorf("web page: %w", err)
	}
	s.page = page
	mux.Handle(ui.Root, s.Freshness.Wrap(page))
	mux.Handle(ui.Root+"/", s.Freshness.Wrap(page))
	return nil
}

// makeLink answers with a link that opens the web page with the caller's own credential: [ui.Link].
func (s *API) makeLink(w http.ResponseWriter, r *http.Request) {
	if s.page == nil {
		answer.Problem(w, http.StatusNotFound, "this server has no web page (--no-ui)")
		return
	}
	link, err := s.page.Link(r, auth.From(r.Context()))
	if err != nil {
		answer.Problem(w, http.StatusConflict, err.Error())
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	answer.JSON(w, http.StatusCreated, link)
}

// pageView is what the web page may ask of the reconciler.
type pageView struct {
	*reconciler.View
	problems *Problems
}

// Drifting implements [ui.View].
func (v pageView) Drifting() map[string]string {
	all := map[string]string{}
	for _, d := range v.Drift() {
		text := string(d.State)
		if n := len(d.Deviations); n > 0 {
			text += ": " + d.Deviations[0].Object
			if n > 1 {
				text += fmt.Sprintf(" and %d more", n-1)
			}
		}
		all[d.Instance] = text
	}
	return all
}

// Problems implements [ui.View].
func (v pageView) Problems() []desired.Problem {
	var all []desired.Problem
	for _, p := range v.problems.List() {
		x := p.Problem
		x.Instance = p.Instance
		all = append(all, x)
	}
	return all
}

// pageGate lets people in to the web page as the API lets callers in.
type pageGate struct{ *API }

// with is the request with the credential, as the API would get it.
func (g pageGate) with(r *http.Request, c ui.Credential) *http.Request {
	as := r.Clone(entrance.Aside(r.Context()))
	as.Header.Del("Authorization")
	as.Header.Del("X-Auth-Token")
	if c.Header != "" {
		as.Header.Set(c.Header, c.Value)
	}
	return as
}

// Login implements [ui.Gate]: what is typed into the form is throttled, counted and logged as what
// comes in a header is.
func (g pageGate) Login(r *http.Request, c ui.Credential) (auth.Identity, error) {
	who, wait, err := g.Entrance.Login(r, g.with(r, c), g.Auth)
	if wait > 0 {
		return auth.Identity{}, &ui.ThrottledError{Wait: wait}
	}
	return who, err
}

// Again implements [ui.Gate].
func (g pageGate) Again(r *http.Request, c ui.Credential) (auth.Identity, error) {
	return g.Auth.Authenticate(g.with(r, c))
}

// Ambient implements [ui.Gate]. A request without a header isn't one that failed to log in: the
// answer is the form.
func (g pageGate) Ambient(r *http.Request) (auth.Identity, error) {
	if entrance.Presented(r) {
		return g.Auth.Authenticate(r)
	}
	return g.Auth.Authenticate(g.with(r, ui.Credential{}))
}

// toPage leads browsers from the server's root to the page; others are answered as ever.
func (s *API) toPage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.page != nil && r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, ui.Root+"/", http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}
