// Package em is an element manager for tests: an HTTP server with the VNF LCM Coordination
// interface (SOL002 v3.7.1 clause 10). It holds each request that it gets, and each answer that
// it gives of itself, against the published definitions where these are at hand.
package em

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/jibe-vnfm/jibe/test/published"
)

// API is where the interface is below the server's root.
const API = "/lcmcoord/v1/coordinations"

// Behaviour is what the server does with one coordination action.
type Behaviour struct {
	// Async answers 202, and the result is there when the coordination is released, or after
	// Polls looks at it.
	Async bool
	Polls int
	// RetryAfter is sent with 202 and 503, "" for none.
	RetryAfter string
	// Refusals are the statuses of the first answers, before the request is accepted.
	Refusals []int
	// Result is the coordinationResult, "" for CONTINUE; Detail is that of its error, and Outputs
	// are its outputParams.
	Result, Detail string
	Outputs        map[string]any
	// Handle answers in place of all that.
	Handle func(w http.ResponseWriter, r *http.Request)
}

// Coordination is one that the server has accepted.
type Coordination struct {
	ID      string
	Request map[string]any
	// Polled counts the looks at it.
	Polled            int
	Cancelled, Result bool

	behaviour Behaviour
	released  bool
}

// EM is the server.
type EM struct {
	*httptest.Server

	t             testing.TB
	definition    *openapi3.T
	authorization string

	mu        sync.Mutex
	behaviour map[string]Behaviour // by action
	asked     []string             // actions, accepted or not
	all       []*Coordination
}

// Start starts a server, which ends with the test. Whatever breaks the published definitions
// fails the test.
func Start(t testing.TB) *EM {
	t.Helper()
	e := New(t)
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// New returns what a server is started of.
func New(t testing.TB) *EM {
	t.Helper()
	editions, err := published.Coordination.Editions()
	if err != nil {
		t.Fatal(err)
	}
	var definition *openapi3.T
	if len(editions) > 0 {
		definition = editions[0].T
	}
	return &EM{t: t, definition: definition, behaviour: map[string]Behaviour{}}
}

// Demand has the server refuse requests without this Authorization header.
func (e *EM) Demand(authorization string) { e.authorization = authorization }

// Behave sets what the server does with an action from now on.
func (e *EM) Behave(action string, b Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviour[action] = b
}

// Release lets all coordinations of an action come to their result.
func (e *EM) Release(action string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.all {
		c.released = c.released || c.Request["coordinationActionName"] == action
	}
}

// Asked returns the actions that were asked for, in order, also those that were refused.
func (e *EM) Asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

// Coordinations returns those that were accepted, as they are now.
func (e *EM) Coordinations() []Coordination {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Coordination
	for _, c := range e.all {
		out = append(out, *c)
	}
	return out
}

// ServeHTTP implements [http.Handler].
func (e *EM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Version", "1.0.0")
	switch id, under := strings.CutPrefix(r.URL.Path, API+"/"); {
	case e.authorization != "" && r.Header.Get("Authorization") != e.authorization:
		e.refuse(w, http.StatusUnauthorized, "who are you?")
	case r.Header.Get("Version") != "1.0.0" || !strings.Contains(r.Header.Get("Accept"), "application/json"):
		e.t.Errorf("%s %s has the headers %v", r.Method, r.URL.Path, r.Header)
	case r.URL.Path == API && r.Method == http.MethodPost:
		e.create(w, r)
	case under && r.Method == http.MethodGet && !strings.Contains(id, "/"):
		e.show(w, r, id)
	case under && r.Method == http.MethodPost && path.Base(id) == "cancel":
		e.cancel(w, r, path.Dir(id))
	default:
		e.t.Errorf("the interface has no %s %s", r.Method, r.URL.Path)
		e.refuse(w, http.StatusNotFound, "")
	}
}

func (e *EM) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		e.t.Errorf("a request that is no JSON object: %s, %v", body, err)
	}
	e.hold("/coordinations", http.MethodPost, 0, request)
	action, _ := request["coordinationActionName"].(string)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, action)
	b := e.behaviour[action]
	if len(b.Refusals) > 0 {
		status := b.Refusals[0]
		b.Refusals = b.Refusals[1:]
		e.behaviour[action] = b
		if b.RetryAfter != "" && status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", b.RetryAfter)
		}
		e.refuse(w, status, "not now")
		return
	}
	c := &Coordination{ID: fmt.Sprintf("c-%d", len(e.all)+1), Request: request, behaviour: b}
	if b.Handle != nil {
		b.Handle(w, r)
		return
	}
	e.all = append(e.all, c)
	w.Header().Set("Location", "http://"+r.Host+API+"/"+c.ID)
	if !b.Async {
		e.finish(w, c, "/coordinations", http.MethodPost, http.StatusCreated)
		return
	}
	if b.RetryAfter != "" {
		w.Header().Set("Retry-After", b.RetryAfter)
	}
	w.WriteHeader(http.StatusAccepted)
}

func (e *EM) find(id string) *Coordination {
	for _, c := range e.all {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (e *EM) show(w http.ResponseWriter, r *http.Request, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(id)
	if c == nil {
		e.refuse(w, http.StatusNotFound, "there is no coordination "+id)
		return
	}
	c.Polled++
	b := e.behaviour[c.Request["coordinationActionName"].(string)]
	if b.Handle != nil {
		b.Handle(w, r)
		return
	}
	if !c.Cancelled && !c.released && (c.behaviour.Polls == 0 || c.Polled <= c.behaviour.Polls) {
		if c.behaviour.RetryAfter != "" {
			w.Header().Set("Retry-After", c.behaviour.RetryAfter)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	e.finish(w, c, "/coordinations/{coordinationId}", http.MethodGet, http.StatusOK)
}

func (e *EM) cancel(w http.ResponseWriter, r *http.Request, id string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	if len(body) > 0 {
		e.t.Errorf("the request to cancel has a body: %s", body)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(id)
	switch {
	case c == nil:
		e.refuse(w, http.StatusNotFound, "there is no coordination "+id)
	case c.Result:
		e.refuse(w, http.StatusConflict, "it has ended")
	default:
		c.Cancelled = true
		w.WriteHeader(http.StatusAccepted)
	}
}

// finish answers with the result of the coordination.
func (e *EM) finish(w http.ResponseWriter, c *Coordination, under, method string, status int) {
	c.Result = true
	result := c.behaviour.Result
	switch {
	case c.Cancelled:
		result = "CANCELLED"
	case result == "":
		result = "CONTINUE"
	}
	link := func(uri string) map[string]any { return map[string]any{"href": uri} }
	links, _ := c.Request["_links"].(map[string]any)
	body := map[string]any{
		"id": c.ID, "coordinationResult": result, "coordinationActionName": c.Request["coordinationActionName"],
		"vnfInstanceId": c.Request["vnfInstanceId"], "vnfLcmOpOccId": c.Request["vnfLcmOpOccId"], "lcmOperationType": c.Request["lcmOperationType"],
		"_links": map[string]any{"self": link("http://em.example" + API + "/" + c.ID), "vnfLcmOpOcc": links["vnfLcmOpOcc"], "vnfInstance": links["vnfInstance"]},
	}
	if c.behaviour.Outputs != nil {
		body["outputParams"] = c.behaviour.Outputs
	}
	if result == "ABORT" {
		body["error"] = map[string]any{"title": "Not now", "status": 500, "detail": c.behaviour.Detail}
	}
	e.hold(under, method, status, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		e.t.Logf("the answer was not read: %v", err)
	}
}

func (e *EM) refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"title":"The EM refuses","status":%d,"detail":%q}`, status, detail)
}

// hold holds a request (status 0) or an answer against the published definitions.
func (e *EM) hold(under, method string, status int, body map[string]any) {
	if e.definition == nil {
		return
	}
	operation := e.definition.Paths.Find(under).GetOperation(method)
	var content openapi3.Content
	if status == 0 {
		content = operation.RequestBody.Value.Content
	} else {
		content = operation.Responses.Status(status).Value.Content
	}
	schema := content.Get("application/json").Schema.Value
	var plain any // as encoding/json reads it
	raw, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(raw, &plain)
	}
	if err == nil {
		err = published.Holds(schema, plain)
	}
	if unknown := published.Unknown(schema, plain); err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown attributes %v", unknown)
	}
	if err != nil {
		e.t.Errorf("%s %s (%d) breaks the published definitions: %v\n%s", method, under, status, err, raw)
	}
}
