package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// gate is an address of the cluster's API server that counts what comes through.
type gate struct {
	*httptest.Server
	requests, connections atomic.Int64
}

func newGate(t *testing.T) *gate {
	t.Helper()
	forward := kubeenv.Forward(t, kubeenv.RestConfig(t))
	g := &gate{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.requests.Add(1)
		forward.ServeHTTP(w, r)
	}))
	g.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			g.connections.Add(1)
		case http.StateClosed, http.StateHijacked:
			g.connections.Add(-1)
		}
	}
	g.Start()
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// left waits until nobody is connected, and returns how many requests came until then.
func (g *gate) left(t *testing.T) int64 {
	t.Helper()
	kit.Eventually(t, func() error {
		if n := g.connections.Load(); n > 0 {
			return fmt.Errorf("%d connections to an address that git doesn't name", n)
		}
		return nil
	})
	return g.requests.Load()
}

func TestAVIMThatWasReplacedOrRemovedIsAskedNothingMore(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	first, second := newGate(t), newGate(t)
	vim := "vims/" + b.namespace + ".yaml"
	is := func(g *gate) string { return "type: kubernetes\nendpoint: " + g.URL + "\n" }
	d := b.clone(t, "desired.git")
	d.Write(vim, is(first))
	d.Push("Add a VIM")
	id := uuid.NewString()
	file := "instances/retire/" + b.namespace + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("id: "+id+"\nname: %[1]s\nvnfdId: %[2]s\nflavour: simple\nvim: %[1]s\nparams: {namespace: %[1]s}\n", b.namespace, plain))
	d.Push("Run there")
	b.awaitPods(1)
	if first.requests.Load() == 0 {
		t.Fatal("the VIM isn't reached by its address")
	}

	d.Pull()
	d.Write(vim, is(second))
	d.Push("Reach the VIM in another way")
	asked := first.left(t)
	d.Pull()
	d.Write(file, d.Read(file)+"levels: {web_aspect: 1}\n")
	d.Push("Scale out")
	b.awaitPods(2)
	if n := first.requests.Load() - asked; n != 0 {
		t.Errorf("%d requests reached the address that was replaced", n)
	}

	d.Pull()
	d.Git("rm", "-r", "--quiet", "instances/retire/"+b.namespace)
	d.Push("Terminate")
	b.awaitPods(0)
	kit.Eventually(t, func() error {
		if a := b.rest(t, "GET", instances+"/"+id, nil); a.Status != http.StatusNotFound {
			return fmt.Errorf("the instance is still there: %d", a.Status)
		}
		return nil
	})
	d.Pull()
	d.Git("rm", "--quiet", vim)
	d.Push("Remove the VIM")
	asked = second.left(t)
	b.runs(plain) // at the VIM that is left
	b.awaitPods(1)
	if n := second.requests.Load() - asked; n != 0 {
		t.Errorf("%d requests reached the VIM that was removed", n)
	}
}
