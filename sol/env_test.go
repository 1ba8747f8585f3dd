package sol_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/published"
)

const (
	operateToken = "operate-token-000"
	readToken    = "read-token-000000"
	base         = "https://vnfm.example"
	api          = "/vnflcm/v2"
	apiV1        = "/vnflcm/v1"
)

// env is the API over a real store and operation log.
type env struct {
	t       testing.TB
	repo    *memRepo
	view    *memView
	oplog   *oplog.Log
	keeper  *secret.Keeper
	config  sol.Config
	handler http.Handler
	logged  *bytes.Buffer
	mu      sync.Mutex
	poked   []string
}

func setup(t *testing.T, change ...func(*sol.Config)) *env {
	t.Helper()
	published.Held(t)
	e := build(t, change...)
	t.Cleanup(e.checkNotifications)
	return e
}

// seals encrypt for a project that has everything.
type seals struct{ keeper *secret.Keeper }

func (s seals) KeepParam(_, old, plaintext string) (string, error) {
	return s.keeper.For(secret.ForParams("p")).Keep(old, plaintext)
}

func (s seals) KeepConnection(_, endpoint, old, plaintext string) (string, error) {
	return s.keeper.For(secret.ForConnection("p", endpoint)).Keep(old, plaintext)
}

func build(t testing.TB, change ...func(*sol.Config)) *env {
	t.Helper()
	st, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	tokens, err := auth.Parse(fmt.Appendf(nil, "tokens:\n- {name: nfvo, role: operate, token: %s}\n- {name: viewer, role: read, token: %s}\n", operateToken, readToken))
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := secret.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := oplog.Open(t.Context(), st, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, repo: newRepo(t), view: newView(), oplog: log, keeper: keeper, logged: &bytes.Buffer{}}
	e.config = sol.Config{Config: rest.Config{Auth: tokens, BaseURL: base, Log: slog.New(slog.NewTextHandler(e.logged, nil))},
		Repo: e.repo, Operations: e.oplog, View: e.view, Secrets: seals{keeper},
		Poke: func(id string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.poked = append(e.poked, id)
		}}
	for _, f := range change {
		f(&e.config)
	}
	e.handler = sol.New(e.config)
	return e
}

// checkNotifications holds the notifications of what the test did against the published
// definitions.
func (e *env) checkNotifications() {
	events, err := e.oplog.Events(context.Background(), 0, 1000)
	if err != nil {
		e.t.Errorf("notifications: %v", err)
	}
	for _, ev := range events {
		for _, verbosity := range []string{notify.Full, notify.Short} {
			n, err := json.Marshal(notify.NewNotification("6d1ad17d-6a4c-4a4c-8d3a-1c2f2d1f9d11", verbosity, base, ev))
			if err == nil {
				err = published.Notification(n)
			}
			if err != nil {
				e.t.Errorf("the notification %s doesn't conform: %v", n, err)
			}
		}
	}
}

// answer is what the API said.
type answer struct {
	*http.Response
	body []byte
}

// do sends a request with a good token and Version; headers change that ("" removes).
func (e *env) do(method, path, body string, headers ...string) answer {
	e.t.Helper()
	return e.send(e.request(method, path, body, headers...))
}

func (e *env) request(method, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, base+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+operateToken)
	r.Header.Set("Version", "2.0.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

func (e *env) send(r *http.Request) answer {
	e.t.Helper()
	method, path := r.Method, r.URL.Path
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	res := w.Result()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	a := answer{res, b}
	major := "2."
	if path == apiV1 || strings.HasPrefix(path, apiV1+"/") {
		major = "1."
	}
	if !strings.HasPrefix(res.Header.Get("Version"), major) || res.Header.Get("Accept-Ranges") != "none" {
		e.t.Errorf("%s %s: headers %v lack Version or Accept-Ranges", method, path, res.Header)
	}
	if _, err := conforms(r, a); err != nil {
		e.t.Errorf("%s %s: %d doesn't conform: %v\n%.2000s", method, path, res.StatusCode, err, b)
	}
	if res.StatusCode >= 400 {
		var p lcm.ProblemDetails
		if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" || json.Unmarshal(b, &p) != nil || p.Status != res.StatusCode || p.Detail == "" || p.Title == "" {
			e.t.Errorf("%s %s: %d is no ProblemDetails (%s): %s", method, path, res.StatusCode, ct, b)
		}
	}
	return a
}

// want sends a request and fails the test if the status is another.
func (e *env) want(status int, method, path, body string, headers ...string) answer {
	e.t.Helper()
	a := e.do(method, path, body, headers...)
	if a.StatusCode != status {
		e.t.Fatalf("%s %s %s: %d, want %d: %s", method, path, body, a.StatusCode, status, a.body)
	}
	return a
}

func (a answer) json(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// object is the body as generic JSON.
func (a answer) object(t testing.TB) map[string]any {
	t.Helper()
	m := map[string]any{}
	a.json(t, &m)
	return m
}

func (a answer) detail(t testing.TB) string {
	t.Helper()
	var p lcm.ProblemDetails
	a.json(t, &p)
	return p.Detail
}

// create makes an instance and returns its id.
func (e *env) create() string {
	e.t.Helper()
	var in sol.VnfInstance
	e.want(201, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1", "vnfInstanceName": "amf"}`).json(e.t, &in)
	return in.ID
}

const inlineVIM = `"vimConnectionInfo": {"vim1": {"vimId": "v", "vimType": "ETSINFV.KUBERNETES.V_1",
	"interfaceInfo": {"endpoint": "https://k8s:6443"}, "accessInfo": {"bearer_token": "very-secret"}}}`

const instantiateBody = `{"flavourId": "simple", ` + inlineVIM + `, "additionalParams": {"lcm-kubernetes-def-files": ["Files/a.yaml"], "namespace": "amf"}}`

// instantiated makes an instance that runs.
func (e *env) instantiated() string {
	e.t.Helper()
	id := e.create()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody))
	e.finish(op, pod("a", "VDU1", "vdu1-1"), pod("b", "VDU2", "vdu2-1"))
	return id
}

// begun is the operation that a 202 names.
func (e *env) begun(a answer) string {
	e.t.Helper()
	loc := a.Header.Get("Location")
	id, ok := strings.CutPrefix(loc, base+api+"/vnf_lcm_op_occs/")
	if !ok || len(a.body) != 0 {
		e.t.Fatalf("202 with Location %q and body %q", loc, a.body)
	}
	return id
}

func pod(uid, vdu, name string) plan.Unit {
	return plan.Unit{ID: uid, Key: "Pod/amf/" + name, Name: name, VDU: vdu, Ready: true, Kind: "Deployment", Metadata: map[string]string{"node": "n1"}}
}

// finish does the reconciler's part: the operation is COMPLETED with these units.
func (e *env) finish(op string, units ...plan.Unit) {
	e.t.Helper()
	e.move(op, units, lcm.Converged)
}

// move advances an operation as the reconciler would.
func (e *env) move(op string, units []plan.Unit, events ...lcm.Event) {
	e.t.Helper()
	_, err := e.oplog.Record(e.t.Context(), op, func(op *lcm.Operation, inst *lcm.Instance) error {
		if op.State == lcm.Starting {
			if err := op.Advance(lcm.Granted, time.Now(), nil); err != nil {
				return err
			}
		}
		op.Journal.Touched = true
		op.VIM = "vim1"
		for _, ev := range events {
			if err := op.Advance(ev, time.Now(), &lcm.ProblemDetails{Status: 500, Title: "Broken", Detail: "Pod/amf/vdu1-1: image can't be pulled"}); err != nil {
				return err
			}
		}
		op.UnitsAfter, inst.Units = units, units
		e.view.mu.Lock()
		defer e.view.mu.Unlock()
		e.view.units[op.Instance] = units
		return nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
}
