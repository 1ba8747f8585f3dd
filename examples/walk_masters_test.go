package examples_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// unreached is how long the masters may have no answer: their etcd elects another leader, which takes its time
// on a machine that has much to do.
const unreached = 30 * time.Second

// reached has a client ask the API server at the masters' address until stopped. Where the
// address goes from one master to another, connections are cut: a client that tries again, as those of
// Kubernetes do, must be answered.
func (c *clusterWalk) reached() (stop func() (asked int)) {
	ctx, cancel := context.WithCancel(c.Context())
	var all sync.WaitGroup
	n := 0
	all.Go(func() {
		since, told := time.Now(), false
		for ; ctx.Err() == nil; kit.Pause(ctx, 100*time.Millisecond) {
			one, end := context.WithTimeout(ctx, 10*time.Second)
			err := c.inside.Discovery().RESTClient().Get().AbsPath("/readyz").Do(one).Error()
			end()
			n++
			if err == nil || ctx.Err() != nil {
				since, told = time.Now(), false
				continue
			}
			if !told && time.Since(since) > unreached {
				told = true
				c.Errorf("for %s no request had an answer: %v", unreached, err)
			}
		}
	})
	return func() int { cancel(); all.Wait(); return n }
}

// leader is the VNFC of the master that has the address, once one has it: on a machine that stalls it may be on its
// way from one to another.
func (c *clusterWalk) leader(address string) (found vnfc) {
	c.Helper()
	vnfcs, nodes := c.shown()
	kit.Eventually(c, func() error {
		for _, h := range c.network.Hosts() {
			out, err := h.Run(c.Context(), nil, "ip", "-o", "address", "show", "to", address)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(vnfcs, func(x vnfc) bool { return x.Compute.ID == h.Spec.Labels["server"] })
			if out != "" && i >= 0 {
				found = vnfcs[i]
				return nil
			}
		}
		return fmt.Errorf("none of %v has the address %s", slices.Collect(maps.Values(nodes)), address)
	})
	return found
}

func TestAClusterWithThreeMastersOutlivesTheOneThatLeads(t *testing.T) {
	testenv.Chaos(t, "machines") // hooks/kubecluster heals a master at each change, and another walk has one master
	address := address(7, 100)
	c := onNodes(t, "k8s-cluster-ha", "k8s-cluster-ha-1.0", "edge-ha", subnet(7), func(spec *netns.Spec) {
		// keepalived tells nobody but systemd that it runs.
		spec.Files["/etc/systemd/system/keepalived.service.d/10-test.conf"] = netns.File{Data: []byte("[Service]\nType=simple\n")}
	})
	testenv.Program(t, "keepalived", "keepalived")
	testenv.Program(t, "haproxy", "haproxy")
	c.edits[`10\.10\.0\.100`] = address
	c.run("k8s-cluster-ha", "k8s-cluster-ha-1.0", "rolling-1.0")
	c.connect()
	c.nodesAre(4)
	if vim := c.provided(); !strings.Contains(vim, "https://"+address+":16443") || strings.Contains(vim, "PRIVATE KEY") {
		t.Errorf("the VIM is %q", vim)
	}

	victim := c.leader(address)
	_, before := c.shown()
	old, err := c.inside.CoreV1().Nodes().Get(t.Context(), before[victim.Compute.ID], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop := c.reached()
	c.ask(http.MethodPost, "/heal", []byte(`{"vnfcInstanceId": ["`+victim.ID+`"], "cause": "its disk is broken"}`))
	if asked := stop(); asked < 50 {
		t.Errorf("the API server was asked %d times: too few to prove anything", asked)
	}
	c.nodesAre(4)
	if n, err := c.inside.CoreV1().Nodes().Get(t.Context(), old.Name, metav1.GetOptions{}); err == nil && n.UID == old.UID {
		t.Errorf("the node %s is the one that was there before", n.Name)
	}
	vnfcs, after := c.shown()
	if len(vnfcs) != 4 || len(after) != 4 || victim.VDU != "MasterVDU" {
		t.Errorf("%v was healed, afterwards VNFCs %v, nodes %v", victim, vnfcs, after)
	}

	// Jibe finds the cluster where it was.
	c.occupy()
	kit.Eventually(t, func() error { // one that is slow to answer its probe isn't for a while
		on, n, err := c.ready(t.Context())
		if err == nil && n != 3 {
			err = fmt.Errorf("%d pods are Ready, on %v", n, on)
		}
		return err
	})
	c.end()
}
