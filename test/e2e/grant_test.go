package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// The pods of the package wait for the test to give them a node, so that the zone that was
// granted needs no node in it.
func TestPodsAreMadeForTheZoneAndOfTheImageThatTheNFVOGrants(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	n := nfvo.New(t)
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	if err := s.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b := benchAt(t, s, kubeenv.RestConfig(t), kubeconfig)
	d := b.clone(t, "desired.git")
	d.Write("peers.yaml", "- {name: nfvo-a, type: nfvo, endpoint: '"+n.URL+"'}\n")
	d.Write("granting.yaml", "nfvo: {name: nfvo-a}\n")
	d.Push("Connect the NFVO")
	const image = "granted/image:7"
	zone := "zone-a"
	n.Decide(func(a nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{
			With: map[string]any{
				"zones":     []any{map[string]any{"id": "z", "zoneId": zone}},
				"vimAssets": map[string]any{"softwareImages": []any{map[string]any{"vnfdSoftwareImageId": "web", "vimSoftwareImageId": image}}},
			},
			Each: func(resource, info map[string]any) {
				if resource["type"] == "COMPUTE" {
					info["zoneId"] = "z"
				}
			},
		}
	})
	id := b.create(byHand)
	op := b.begin(t, id, "instantiate", b.request())
	name := b.waiting()
	pod := b.pods()[name]
	affinity := fmt.Sprintf("%+v", pod.Spec.Affinity)
	if pod.Spec.Affinity == nil || !strings.Contains(affinity, "topology.kubernetes.io/zone") || !strings.Contains(affinity, "zone-a") || pod.Spec.Containers[0].Image != image {
		t.Errorf("the pod is for %s, of %s", affinity, pod.Spec.Containers[0].Image)
	}
	b.bind(name)
	b.await(t, op, "COMPLETED")
	ask := n.Asked()[0]
	for _, x := range ask.List("addResources") {
		if x["type"] == "LINKPORT" || x["type"] == "VL" {
			t.Errorf("pods have no %v", x)
		}
	}

	// Another zone for one more pod would make the first one anew: that is refused.
	zone = "zone-b"
	failed := b.ended(t, b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1)))
	if failed.text("operationState") != "ROLLED_BACK" || !strings.Contains(failed.text("error", "detail"), "zone-b") {
		t.Errorf("the scale-out ended %v", failed)
	}
	zone = "zone-a"
	op = b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.bind(b.waiting())
	b.await(t, op, "COMPLETED")
	kit.Eventually(t, func() error {
		if now := len(b.pods()); now != 2 {
			return fmt.Errorf("%d pods", now)
		}
		return nil
	})
	asked := n.Asked()
	last := asked[len(asked)-1]
	if len(last.Of("addResources", "WEB")) != 1 || last.Text("operation") != "SCALE" {
		t.Errorf("it was asked for %v", last.Body)
	}

	// A repair that makes pods anew is granted too, and known as one that nobody asked for.
	if err := b.api.AppsV1().Deployments(b.namespace).Delete(b.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.bind(b.waiting())
	b.bind(b.waiting())
	kit.Eventually(t, func() error {
		asked := n.Asked()
		if last := asked[len(asked)-1]; last.Text("operation") != "HEAL" || last.Body["isAutomaticInvocation"] != true || len(last.Of("addResources", "WEB")) != 2 {
			return fmt.Errorf("it was asked for %v", last.Body)
		}
		return nil
	})
	b.awaitPods(2)
	b.outcome(id, 3, "HEAL COMPLETED") // Jibe sees the pods a moment later than the test
	b.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
}
