package e2e

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// newWire is a way to the cluster, which is cut at first.
func newWire(t *testing.T) *kit.Wire {
	t.Helper()
	api, err := url.Parse(kubeenv.RestConfig(t).Host)
	if err != nil {
		t.Fatal(err)
	}
	w := kit.NewWire(t, api.Host)
	w.Cut()
	return w
}

func TestAVIMThatIsAwayForAWhileDelaysAnOperationAndNoMore(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	w := newWire(t)
	c := b.connection(b.account("jibe", "cluster-admin"))
	c["interfaceInfo"].(object)["endpoint"] = "https://" + w.Address
	body := b.request()
	body["vimConnectionInfo"] = object{"vim1": c}
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", body)
	if s := b.must(t, 200, "GET", path, nil).object(t).text("operationState"); s != "STARTING" {
		t.Errorf("without its VIM the operation is %s", s)
	}
	w.Restore()
	pod := b.waiting()
	w.Cut()
	b.bind(pod) // while nobody can see it
	b.awaitPods(1)
	w.Restore()
	b.await(t, path, "COMPLETED")
	b.sameVNFCs(id)
}

// wired instantiates the package on a VIM behind a wire, which is whole then.
func (b *bench) wired(vnfd string) (id, path string, w *kit.Wire) {
	b.Helper()
	w = newWire(b.T)
	w.Restore()
	c := b.connection(b.account("jibe", "cluster-admin"))
	c["interfaceInfo"].(object)["endpoint"] = "https://" + w.Address
	body := b.request()
	body["vimConnectionInfo"] = object{"vim1": c}
	id = b.create(vnfd)
	return id, b.begin(b.T, id, "instantiate", body), w
}

func TestAVIMThatIsAwayForLongerThanTheDeadlineFailsNoOperation(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	id, path, w := b.wired(byHand)
	pod := b.waiting()
	b.await(t, path, "PROCESSING")
	w.Cut()
	b.bind(pod)
	b.awaitPods(1)
	kit.Stays(t, 23*time.Second, func() error { // the deadline is 20 s
		if op := b.must(t, 200, "GET", path, nil).object(t); op.text("operationState") != "PROCESSING" {
			return fmt.Errorf("the operation is %s: %v", op.text("operationState"), op["error"])
		}
		return nil
	})
	// Jibe still shows the VNFC as it saw it last, and heals nothing that it can't see.
	if list := b.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo"); len(list) > 1 {
		t.Errorf("VNFCs while the VIM is away: %v", list)
	}
	w.Restore()
	b.await(t, path, "COMPLETED")
	b.sameVNFCs(id)
}

func TestADriftWhileTheVIMWasAwayIsRepairedWhenItIsBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, path, w := b.wired(twins)
	b.await(t, path, "COMPLETED")
	w.Cut()
	b.patch("ConfigMap/settings", "hand", "{'data': {'mode': 'slow'}}")
	b.remove("Service/front")
	b.scaled("web", "hand", 3)
	b.awaitPods(4)
	kit.Eventually(t, func() error {
		if b.show(t, id).get("instantiatedVnfInfo", "metadata", "stale") != true {
			return fmt.Errorf("what is shown isn't marked as stale")
		}
		return nil
	})
	if n := len(b.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo")); n != 2 {
		t.Errorf("%d VNFCs are shown, 2 were seen last", n)
	}
	for _, body := range []object{{}, chosen("web")} { // nothing is healed blindly
		b.must(t, 503, "POST", instances+"/"+id+"/heal", body)
	}
	if err := b.counted(id, 1); err != nil {
		t.Error(err)
	}
	w.Restore()
	kit.Eventually(t, func() error {
		for _, op := range b.history(t, id)[1:] {
			if op.text("operation") != "HEAL" || op.text("operationState") != "COMPLETED" {
				return fmt.Errorf("%s is %s: %v", op.text("operation"), op.text("operationState"), op["error"])
			}
		}
		if got := len(b.pods()); got != 2 {
			return fmt.Errorf("%d pods, want 2", got)
		}
		if _, ok := b.made(id)["Service/front"]; !ok {
			return fmt.Errorf("the service is still gone")
		}
		if mode := b.read("ConfigMap/settings").Object["data"]; fmt.Sprint(mode) != "map[mode:fast]" {
			return fmt.Errorf("the data is %v", mode)
		}
		return nil
	})
	if n := len(b.history(t, id)); n > 4 { // as many as there were looks, at most one a thing
		t.Errorf("%d operations", n)
	}
	b.undrifted(id)
}
