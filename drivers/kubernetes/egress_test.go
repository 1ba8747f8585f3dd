package kubernetes_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
)

func TestAnAPIServerAtAForbiddenAddressIsNotCalledByWhicheverFile(t *testing.T) {
	var called atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer s.Close()
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster: {server: \"" + s.URL + "\"}\ncontexts:\n- name: a\n  context: {cluster: a, user: a}\nusers:\n- name: a\n  user: {token: t}\n"
	for _, vim := range []drivers.VIM{{Name: "a", Endpoint: s.URL, Token: "t"}, {Name: "b", Kubeconfig: []byte(kubeconfig)}} {
		d, err := kubernetes.New(vim, kubernetes.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Observe(t.Context(), drivers.Absent(&desired.Instance{ID: "4f1b"}))
		if _, no := errors.AsType[*egress.RefusedError](err); !no && !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", vim.Name, err)
		}
		d.Close()
	}
	if called.Load() != 0 {
		t.Errorf("it was called %d times", called.Load())
	}
}

func TestARedirectOfAnAPIServerTakesNoTokenElsewhere(t *testing.T) {
	var called atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer s.Close()
	d, err := kubernetes.New(drivers.VIM{Name: "a", Endpoint: s.URL, Token: "t"}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Observe(t.Context(), drivers.Absent(&desired.Instance{ID: "4f1b"})); err == nil || called.Load() != 0 {
		t.Errorf("%v, and the other server was called %d times", err, called.Load())
	}
}

func TestATokenIsNotSentInClear(t *testing.T) {
	var called, told atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called.Add(1)
		if r.Header.Get("Authorization") != "" {
			told.Add(1)
		}
	}))
	defer s.Close()
	d, err := kubernetes.New(drivers.VIM{Name: "a", Endpoint: s.URL, Token: "t"}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Observe(t.Context(), drivers.Absent(&desired.Instance{ID: "4f1b"})); err == nil || called.Load() == 0 || told.Load() != 0 {
		t.Errorf("%v: of %d requests %d had the token", err, called.Load(), told.Load())
	}
}

// What is written as a project's account bears Jibe's own token all the same.
func TestARedirectTakesNoTokenOfAnAccountElsewhere(t *testing.T) {
	t.Parallel()
	var called atomic.Int64
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer elsewhere.Close()
	api := http.NewServeMux()
	for path, answer := range map[string]string{
		"/api":    `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":   `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["get", "patch"]}]}`,
	} {
		api.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		})
	}
	var as atomic.Value
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		as.Store(r.Header.Get("Impersonate-User"))
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	s := httptest.NewTLSServer(api)
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	d, err := kubernetes.New(drivers.VIM{Name: "a", Endpoint: s.URL, Token: "t", CACert: ca}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	src := sample.Source("4f1b", "amf", sample.ConfigMap("settings", "x"), sample.Workloads(), nil)
	src.Bounds = &drivers.Bounds{Project: "core", Account: "tenants/core"}
	r, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Do(t.Context(), r, plan.Step{Action: plan.Apply, Object: "ConfigMap/amf/settings"})

	if as.Load() != "system:serviceaccount:tenants:core" {
		t.Errorf("it was written as %v: %v", as.Load(), err)
	}
	if !errors.Is(err, egress.ErrRedirect) || called.Load() != 0 {
		t.Errorf("%v, and the other server was called %d times", err, called.Load())
	}
}
