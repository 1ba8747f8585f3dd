package kubernetes_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/internal/egress"
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
