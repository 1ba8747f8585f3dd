package e2e

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	regv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestADriftWhileJibeWasDownIsRepairedWhenItIsBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual) // for the namespace; the server is one of this test
	data := b.alone(t)
	id, _, _ := b.pushed(twins, "")
	if err := b.process.Stop(); err != nil {
		t.Fatal(err)
	}
	b.patch("ConfigMap/settings", "hand", "{'data': {'mode': 'slow'}}")
	b.remove("Service/front")
	b.scaled("back", "hand", 2)
	pods := b.workers()
	b.server = serve(t, data)
	op := b.repaired(id, 1, "ConfigMap/"+b.namespace+"/settings", "data.mode", "hand", "Service/"+b.namespace+"/front", "Deployment/"+b.namespace+"/back")
	if op.text("operationState") != "COMPLETED" {
		t.Errorf("%v", op)
	}
	b.awaitPods(2)
	for _, name := range gone(pods, b.workers()) {
		if !strings.HasPrefix(name, "back-") {
			t.Errorf("the pod %s was replaced", name)
		}
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
}

func TestAWebhookThatRefusesEverySecondRequestDelaysOperationsAndFailsNone(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	var mu sync.Mutex
	// By object: what is refused twice in a row is taken for refused for good where seconds lie between.
	asked, refused := map[string]int{}, 0
	b.webhook(false, func(r *admissionv1.AdmissionRequest) verdict {
		mu.Lock()
		defer mu.Unlock()
		what := r.Kind.Kind + "/" + r.Name
		if asked[what]++; asked[what]%2 == 1 {
			refused++
			return verdict{refuse: "come back later"}
		}
		return verdict{}
	}, rule("apps", "*", regv1.Create, regv1.Update, regv1.Delete), rule("", "services", regv1.OperationAll), rule("", "configmaps", regv1.OperationAll))
	id, _, _ := b.pushed(twins, "")
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 2))
	b.awaitPods(4)
	b.server.run(t, id, "heal", object{})
	b.awaitPods(4)
	objects := b.made(id)
	kit.Eventually(t, func() error { // the test's own request may be a refused one
		return b.at("Service").Delete(t.Context(), "front", metav1.DeleteOptions{})
	})
	b.repaired(id, 3, "Service/"+b.namespace+"/front")
	if got := b.renewed(objects, b.made(id)); !slices.Equal(got, []string{"Service/front"}) {
		t.Errorf("objects with a new uid: %v", got)
	}
	b.server.run(t, id, "scale", scale("SCALE_IN", "web_aspect", 2))
	b.awaitPods(2)
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
	mu.Lock()
	defer mu.Unlock()
	if refused < 5 {
		t.Errorf("only %d of the requests %v were refused", refused, asked)
	}
}

func TestAWebhookThatAlwaysRefusesEndsTheOperationWithItsWords(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, _, _ := b.pushed(twins, "")
	var open atomic.Bool
	b.webhook(false, func(*admissionv1.AdmissionRequest) verdict {
		if open.Load() {
			return verdict{}
		}
		return verdict{refuse: "no changes on a Friday"}
	}, rule("apps", "deployments", regv1.Create, regv1.Update))
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	op := b.ended(t, path)
	if s := op.text("operationState"); s != "ROLLED_BACK" && s != "FAILED_TEMP" {
		t.Errorf("the operation is %s", s)
	}
	b.says(op, "Deployment/"+b.namespace+"/web", "no changes on a Friday", "hook.e2e.test")
	open.Store(true)
	if op.text("operationState") == "FAILED_TEMP" {
		b.must(t, 202, "POST", path+"/retry", nil)
		b.await(t, path, "COMPLETED")
	} else {
		b.idle(id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	}
	b.awaitPods(3)
}

func TestAHealThatAWebhookStopsHalfwayIsFinishedByARetry(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, _, _ := b.pushed(twins, "")
	objects := b.made(id)
	var open atomic.Bool
	b.webhook(false, func(r *admissionv1.AdmissionRequest) verdict {
		if open.Load() || r.DryRun != nil && *r.DryRun {
			return verdict{}
		}
		return verdict{refuse: "no new workloads today"}
	}, rule("apps", "deployments", regv1.Create))
	path := b.begin(t, id, "heal", object{})
	b.says(b.await(t, path, "FAILED_TEMP"), "Deployment/"+b.namespace+"/", "no new workloads today")
	address := objects["Service/front"].Object["spec"].(map[string]any)["clusterIP"]
	open.Store(true)
	b.must(t, 202, "POST", path+"/retry", nil)
	b.await(t, path, "COMPLETED")
	if got, want := b.renewed(objects, b.made(id)), []string{"ConfigMap/settings", "Deployment/back", "Deployment/web", "Service/front"}; !slices.Equal(got, want) {
		t.Errorf("objects with a new uid: %v, want %v", got, want)
	}
	if is := b.read("Service/front").Object["spec"].(map[string]any)["clusterIP"]; is != address {
		t.Errorf("the service's address was %v and is %v", address, is)
	}
	b.awaitPods(2)
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
}

func TestTheErrorAtTheDeadlineNamesTheObjectAndItsLastEvent(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	id := b.runs(huge)
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	op := b.await(t, path, "FAILED_TEMP")
	var pod string
	for name := range b.pods() {
		pod = name
	}
	b.says(op, "not done within 20s", "Pod/"+b.namespace+"/"+pod, "FailedScheduling", "Insufficient cpu")
}

func TestEveryTypeOfOperationMayHaveADeadlineOfItsOwn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	id := b.create(plain)
	b.inTime(b.begin(t, id, "instantiate", b.request()))
	web := b.vnfcs(id, "WEB")[0]
	b.finalize("Pod/"+web.pod, true)
	path := b.begin(t, id, "heal", chosen(web.uid))
	b.says(b.await(t, path, "FAILED_TEMP"), "not done within 10s")
	b.finalize("Pod/"+web.pod, false)
	b.must(t, 202, "POST", path+"/retry", nil)
	b.inTime(path)
}
