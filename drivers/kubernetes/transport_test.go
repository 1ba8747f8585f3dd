package kubernetes_test

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// counted counts the requests that reach the proxy, watches too, and the connections
// that stand.
func counted(p *proxy) (requests, connections *atomic.Int64) {
	requests, connections = &atomic.Int64{}, &atomic.Int64{}
	count := func(http.ResponseWriter, *http.Request) bool {
		requests.Add(1)
		return false
	}
	p.fault.Store(&count)
	p.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			connections.Add(1)
		case http.StateClosed, http.StateHijacked:
			connections.Add(-1)
		}
	}
	return requests, connections
}

func TestAClosedDriverAsksItsVIMNothingMore(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	requests, connections := counted(p)
	d, namespace := p.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	watch := make(chan error)
	go func() { watch <- d.Watch(t.Context(), func(string) {}) }()
	converge(t, d, src, true)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice is the same as once
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-watch; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
	// What had been sent when the driver was closed may reach the VIM just afterwards.
	unused := func() error {
		if n := connections.Load(); n > 0 {
			return errors.New("connections to the VIM stand that nobody uses")
		}
		return nil
	}
	kit.Eventually(t, unused)
	asked := requests.Load()
	for what, do := range map[string]func() error{
		"Observe": func() error { _, err := d.Observe(t.Context(), want); return err },
		"Verify": func() error {
			return d.Verify(t.Context(), rendering(t, d, src), plan.Step{Action: plan.Apply, Object: want.Objects[0].Key})
		},
		"Do": func() error {
			return d.Do(t.Context(), rendering(t, d, src), plan.Step{Action: plan.Apply, Object: want.Objects[0].Key})
		},
		"Watch": func() error { return errors.Join(d.Watch(t.Context(), func(string) {}), drivers.ErrUnavailable) },
	} {
		if err := do(); !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("%s = %v, want that the VIM is unavailable", what, err)
		}
	}
	kit.Eventually(t, unused)
	if n := requests.Load() - asked; n != 0 {
		t.Errorf("%d requests came after the end", n)
	}
	converge(t, newProxy(t).connect(t), src, false)
}

func TestADriverOfAVIMThatNeverAnsweredEndsItsWatch(t *testing.T) {
	p := newProxy(t)
	var requests atomic.Int64
	away := func(w http.ResponseWriter, _ *http.Request) bool {
		requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	p.fault.Store(&away)
	d := p.connect(t)
	watch := make(chan error)
	go func() { watch <- d.Watch(t.Context(), func(string) {}) }()
	kit.Eventually(t, func() error {
		if requests.Load() == 0 {
			return errors.New("the VIM wasn't asked yet")
		}
		return nil
	})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-watch; err != nil { // it would go on trying for ever
		t.Errorf("the watch ended with %v", err)
	}
}
