// Package nfvo is an NFVO for tests, as far as it grants operations (SOL003 v3.3.1 clause 9): an
// HTTP server that decides as a test says. It knows nothing of Jibe's own code. Each request
// that it gets, and each answer that is meant to be right, is held against the definitions that
// ETSI has published, where they are at hand.
package nfvo

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/test/published"
)

// Server is the NFVO. Make one with [New].
type Server struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	decide func(Ask) Decision
	asked  []Ask
	polls  int
	grants map[string]*pending
	// allowed says whether a request may be answered at all; nil allows all.
	allowed func(*http.Request) bool
}

type pending struct {
	ask      Ask
	decision Decision
	left     int
}

// Ask is a GrantRequest as it came.
type Ask struct {
	Body   map[string]any
	Header http.Header
}

// Text is a text of the request, "" where it has none.
func (a Ask) Text(name string) string { s, _ := a.Body[name].(string); return s }

// List is a list of the request: "addResources".
func (a Ask) List(name string) []map[string]any {
	var out []map[string]any
	list, _ := a.Body[name].([]any)
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Of are the entries of a list for units of the VDU: those of type COMPUTE.
func (a Ask) Of(list, vdu string) []map[string]any {
	var out []map[string]any
	for _, x := range a.List(list) {
		if x["type"] == "COMPUTE" && x["vduId"] == vdu {
			out = append(out, x)
		}
	}
	return out
}

// Decision is what the NFVO says. The zero value grants what was asked for.
type Decision struct {
	// With are attributes of the grant; those that it must have are filled in.
	With map[string]any
	// Each changes the entry of one resource in addResources.
	Each func(resource, info map[string]any)
	// Later is how often the NFVO answers 202 to polls first; it then answers the request
	// itself with 202, too.
	Later int
	// Until is what has to be closed before the NFVO decides; until then it answers as while it is Later.
	Until <-chan struct{}
	// Refused refuses, with this detail.
	Refused string
	// Raw answers in place of the NFVO, to the request and to polls alike.
	Raw http.HandlerFunc
}

// New starts an NFVO that grants everything, until the test ends.
func New(t testing.TB) *Server {
	s := Unstarted(t)
	s.Start()
	return s
}

// Unstarted is an NFVO that still is to be started: with StartTLS, or later.
func Unstarted(t testing.TB) *Server {
	s := &Server{t: t, decide: func(Ask) Decision { return Decision{} }, grants: map[string]*pending{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// Decide has the NFVO decide so from now on.
func (s *Server) Decide(how func(Ask) Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide = how
}

// Allow has the NFVO answer 401 to all requests that aren't allowed.
func (s *Server) Allow(allowed func(*http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = allowed
}

// Asked are the requests so far.
func (s *Server) Asked() []Ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Ask(nil), s.asked...)
}

// Polls is how often it was asked what became of a request.
func (s *Server) Polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	allowed := s.allowed == nil || s.allowed(r)
	s.mu.Unlock()
	if !allowed {
		s.answer(w, r, http.StatusUnauthorized, problem(http.StatusUnauthorized, "who are you?"))
		return
	}
	id, poll := strings.CutPrefix(r.URL.Path, "/grant/v1/grants/")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/grant/v1/grants":
		s.request(w, r)
	case r.Method == http.MethodGet && poll:
		s.poll(w, r, id)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) request(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	if _, err := published.Grants.Request(http.MethodPost, "/grants", body); err != nil {
		s.t.Errorf("a grant request breaks the published definitions: %v\n%s", err, body)
	}
	ask := Ask{Header: r.Header.Clone()}
	if err := json.Unmarshal(body, &ask.Body); err != nil {
		s.t.Errorf("a grant request isn't JSON: %v", err)
	}
	if r.Header.Get("Version") == "" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		s.t.Errorf("a grant request without Version or Content-Type: %v", r.Header)
	}
	s.mu.Lock()
	s.asked = append(s.asked, ask)
	d := s.decide(ask)
	id := uuid.NewString()
	s.grants[id] = &pending{ask, d, d.Later}
	s.mu.Unlock()
	w.Header().Set("Location", s.URL+"/grant/v1/grants/"+id)
	switch {
	case d.Raw != nil:
		w.Header().Del("Location")
		d.Raw(w, r)
	case d.Later > 0, undecided(d.Until):
		w.Header().Set("Retry-After", "1")
		s.answer(w, r, http.StatusAccepted, nil)
	case d.Refused != "":
		w.Header().Del("Location")
		s.answer(w, r, http.StatusForbidden, problem(http.StatusForbidden, d.Refused))
	default:
		s.answer(w, r, http.StatusCreated, s.grant(id, ask, d))
	}
}

func (s *Server) poll(w http.ResponseWriter, r *http.Request, id string) {
	s.mu.Lock()
	s.polls++
	p := s.grants[id]
	later := false
	if p != nil {
		later = p.left > 0 || undecided(p.decision.Until)
		p.left--
	}
	s.mu.Unlock()
	switch {
	case p == nil:
		s.answer(w, r, http.StatusNotFound, problem(http.StatusNotFound, "there is no such grant"))
	case p.decision.Raw != nil:
		p.decision.Raw(w, r)
	case later:
		w.Header().Set("Retry-After", "1")
		s.answer(w, r, http.StatusAccepted, nil)
	case p.decision.Refused != "":
		s.answer(w, r, http.StatusForbidden, problem(http.StatusForbidden, p.decision.Refused))
	default:
		s.answer(w, r, http.StatusOK, s.grant(id, p.ask, p.decision))
	}
}

// undecided says whether what a decision waits for is still to come.
func undecided(until <-chan struct{}) bool {
	if until == nil {
		return false
	}
	select {
	case <-until:
		return false
	default:
		return true
	}
}

// grant is the Grant of a decision.
func (s *Server) grant(id string, ask Ask, d Decision) map[string]any {
	links, _ := ask.Body["_links"].(map[string]any)
	g := map[string]any{
		"id": id, "vnfInstanceId": ask.Body["vnfInstanceId"], "vnfLcmOpOccId": ask.Body["vnfLcmOpOccId"],
		"_links": map[string]any{"self": map[string]any{"href": s.URL + "/grant/v1/grants/" + id}, "vnfLcmOpOcc": links["vnfLcmOpOcc"], "vnfInstance": links["vnfInstance"]},
	}
	for _, list := range []string{"addResources", "removeResources", "updateResources"} {
		var infos []any
		for _, x := range ask.List(list) {
			info := map[string]any{"resourceDefinitionId": x["id"]}
			if list == "addResources" && d.Each != nil {
				d.Each(x, info)
			}
			infos = append(infos, info)
		}
		if len(infos) > 0 {
			g[list] = infos
		}
	}
	maps.Copy(g, d.With)
	return g
}

func problem(status int, detail string) map[string]any {
	return map[string]any{"status": status, "detail": detail}
}

// answer answers rightly, and is held against the definitions.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, content map[string]any) {
	h := w.Header()
	h.Set("Version", "1.4.0")
	var body []byte
	if content != nil {
		var err error
		if body, err = json.Marshal(content); err != nil {
			s.t.Errorf("an answer of the NFVO: %v", err)
		}
		h.Set("Content-Type", "application/json")
		if status >= 400 {
			h.Set("Content-Type", "application/problem+json")
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/grant/v1")
	if _, err := published.Grants.Answer(path, r, published.Answer{Status: status, Header: h, Body: body}, nil); err != nil {
		s.t.Errorf("the NFVO of this test breaks the published definitions: %v\n%s", err, body)
	}
	w.WriteHeader(status)
	_, _ = io.Copy(w, bytes.NewReader(body))
}
