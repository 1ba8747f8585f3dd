package kubernetes_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// proxy stands before the API server, counts what passes and can cut the line.
type proxy struct {
	server *httptest.Server
	calls  atomic.Int64 // but for watches
	cut    atomic.Bool
	// fault, if set, answers a request in place of the API server where it returns true.
	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	return proxyOf(t, kubeenv.RestConfig(t))
}

// proxyOf stands before the API server that the configuration is of.
func proxyOf(t *testing.T, config *rest.Config) *proxy {
	t.Helper()
	forward := kubeenv.Forward(t, config)
	p := &proxy{}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.cut.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if fault := p.fault.Load(); fault != nil && (*fault)(w, r) {
			return
		}
		if r.URL.Query().Get("watch") == "" {
			p.calls.Add(1)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

func (p *proxy) connect(t *testing.T) *kubernetes.Driver {
	t.Helper()
	d, err := kubernetes.New(drivers.VIM{Name: "proxied", Endpoint: p.server.URL}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestAtRestTheAPIServerIsAskedNothing(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	d, namespace := p.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	calls := p.calls.Load()
	for range 50 {
		if _, steps := turn(t, d, src, true, &plan.Journal{}); len(steps) > 0 {
			t.Fatalf("something is to do at rest: %+v", steps)
		}
	}
	if n := p.calls.Load() - calls; n != 0 {
		t.Errorf("50 resyncs at rest made %d calls", n)
	}
	src = sample.Source(src.Instance.ID, namespace, sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
	calls = p.calls.Load()
	converge(t, d, src, true)
	if n := p.calls.Load() - calls; n != 1 {
		t.Errorf("scaling made %d calls, want 1", n)
	}
	converge(t, d, src, false)
}

func TestAVIMThatGoesAwayIsNoticedAndFoundAgain(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	d, namespace := p.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	p.cut.Store(true)
	p.server.CloseClientConnections()
	kit.Eventually(t, func() error {
		if _, err := d.Observe(t.Context(), want); !errors.Is(err, drivers.ErrUnavailable) {
			return errors.New("the loss isn't noticed")
		}
		return nil
	})
	p.cut.Store(false)
	kit.Eventually(t, func() error {
		o, err := d.Observe(t.Context(), want)
		if err == nil && len(plan.Compute(want.Desired, o, plan.Journal{})) > 0 {
			return errors.New("not converged after the VIM came back")
		}
		return err
	})
	converge(t, d, src, false)
}
