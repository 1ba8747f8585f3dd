package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// TestAVNFCThatWasReplacedBeforeItsHealIsNotHealedInItsSuccessor uses a forge that
// takes its time with the commit: meanwhile somebody deletes the pod.
func TestAVNFCThatWasReplacedBeforeItsHealIsNotHealedInItsSuccessor(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual) // for the namespace; the server is one of this test
	gate := t.TempDir()
	data := filepath.Join(t.TempDir(), "data")
	vim, err := process.Keep(data, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeenv.Kubeconfig(t)+"\n")
	if err != nil {
		t.Fatal(err)
	}
	forge := process.NewForge(t, map[string]string{
		"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n",
		"vims/local.yaml":   vim,
	})
	b.server = serve(t, data, "--remote", "file://"+forge, "--poll", "1s")
	b.publishPlain(t)
	id := b.create(plain)
	b.server.run(t, id, "instantiate", b.request())
	sick := b.vnfcs(id, "WEB")[0]

	hook := "#!/bin/sh\ntouch " + gate + "/asked\nuntil [ -e " + gate + "/go ]; do sleep 0.02; done\n"
	if err := os.WriteFile(filepath.Join(forge, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	answered := make(chan answer, 1)
	go func() { // not fatal: the test's own goroutine says what is wrong
		a, err := b.process.Do(b.Context(), "POST", instances+"/"+id+"/heal", chosen(sick.uid))
		if err != nil {
			t.Error(err)
		}
		answered <- answer{a}
	}()
	kit.Eventually(t, func() error { _, err := os.Stat(gate + "/asked"); return err })
	b.remove("Pod/" + sick.pod)
	var successor string
	kit.Eventually(t, func() error {
		for name, p := range b.pods() {
			if string(p.UID) != sick.uid {
				successor = name
				return nil
			}
		}
		return fmt.Errorf("no successor of %s", sick.pod)
	})
	b.awaitPods(1)
	b.sameWorkersSoon(id) // Jibe has seen it, too: else it would delete the one that is gone, and be done
	if err := os.WriteFile(gate+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a := <-answered
	if a.Answer == nil || a.Status != http.StatusAccepted {
		t.Fatalf("heal: %+v", a)
	}
	path := a.Header.Get("Location")
	b.says(b.await(t, path, "FAILED_TEMP"), sick.pod, "replaced", successor)
	b.must(t, 200, "POST", path+"/fail", nil)
	now := b.vnfcs(id, "WEB")[0]
	if now.pod != successor {
		t.Errorf("the API shows %s, not the successor %s", now.pod, successor)
	}
	op := b.server.run(t, id, "heal", chosen(now.uid)) // at once: no 409
	if got := changes(op); !slices.Equal(got, []string{"ADDED WEB", "REMOVED WEB"}) {
		t.Errorf("affected VNFCs: %v", got)
	}
	b.awaitPods(1)
}

func TestAFinalizerThatBlocksAHealIsNamedAndARetryAfterwardsSucceeds(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	id, _, _ := b.pushed(twins, "")
	objects := b.made(id)
	web := b.vnfcs(id, "WEB")[0]
	heals := 0
	for _, blocked := range []struct {
		name string
		body object
	}{{"Pod/" + web.pod, chosen(web.uid)}, {"Service/front", object{}}} {
		b.finalize(blocked.name, true)
		path := b.begin(t, id, "heal", blocked.body)
		// Beside it nothing else is begun.
		if a := b.rest(t, "POST", instances+"/"+id+"/heal", object{}); a.Status != http.StatusConflict {
			t.Errorf("a heal beside a heal: %d: %s", a.Status, a.Body)
		}
		if out, errs, code := b.cli(t, "heal", id); code == 0 || !strings.Contains(errs, "409") {
			t.Errorf("jibe heal beside a heal: %d: %s%s", code, out, errs)
		}
		kind, name, _ := strings.Cut(blocked.name, "/")
		b.says(b.await(t, path, "FAILED_TEMP"), kind+"/"+b.namespace+"/"+name, "finalizer", "e2e.test/keep")
		a := b.rest(t, "POST", path+"/rollback", nil)
		if a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "HEAL") && !strings.Contains(string(a.Body), "heal") {
			t.Errorf("rollback of a heal: %d: %s", a.Status, a.Body)
		}
		op := strings.TrimPrefix(path, operations+"/")
		if _, errs, code := b.cli(t, "rollback", op); code == 0 || !strings.Contains(errs, "409") {
			t.Errorf("jibe rollback of a heal: %d: %s", code, errs)
		}
		b.finalize(blocked.name, false)
		if _, errs, code := b.cli(t, "retry", op); code != 0 {
			t.Errorf("jibe retry: %s", errs)
		}
		b.inTime(path)
		heals++
		if err := b.counted(id, 1+heals); err != nil {
			t.Error(err)
		}
	}
	if got, want := b.renewed(objects, b.made(id)), []string{"ConfigMap/settings", "Deployment/back", "Deployment/web", "Service/front"}; !slices.Equal(got, want) {
		t.Errorf("objects with a new uid: %v, want %v", got, want)
	}
	b.awaitPods(2)
}

func TestAHealOfAPodWhoseNodeIsGoneSaysSoAndEndsWhenThePodDoes(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	node := b.namespace
	nodes := b.api.CoreV1().Nodes()
	_, err := nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}, Labels: map[string]string{"type": "kwok", "kubernetes.io/hostname": node}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "e2e.test/only", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stands := true
	t.Cleanup(func() {
		if stands {
			_ = nodes.Delete(b.background(), node, metav1.DeleteOptions{})
		}
	})
	bind := func(pod, node string) {
		t.Helper()
		if err := b.api.CoreV1().Pods(b.namespace).Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: b.namespace},
			Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	id := b.create(remote)
	path := b.begin(t, id, "instantiate", b.request())
	bind(b.waiting(), node)
	b.inTime(path)
	lost := b.vnfcs(id, "WEB")[0]
	// A pod that has time left can be ended by its node alone.
	if err := nodes.Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stands = false
	path = b.begin(t, id, "heal", chosen(lost.uid))
	bind(b.waiting(), "node-0")
	b.says(b.await(t, path, "FAILED_TEMP"), "Pod/"+b.namespace+"/"+lost.pod, node)
	// A person who knows that the node is gone for good says so.
	if err := b.api.CoreV1().Pods(b.namespace).Delete(t.Context(), lost.pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil && !apierrors.IsNotFound(err) { // the cluster tidies up after a while
		t.Fatal(err)
	}
	b.must(t, 202, "POST", path+"/retry", nil)
	op := b.inTime(path)
	if got := changes(op); !slices.Equal(got, []string{"ADDED WEB", "REMOVED WEB"}) {
		t.Errorf("affected VNFCs: %v", got)
	}
	b.awaitPods(1)
}

func TestAHealWhileAnOperationRunsIsRefusedAndLeavesNoneWaiting(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	pod := b.waiting()
	for _, body := range []object{{}, chosen(pod), {"additionalParams": object{"all": false}}} {
		if a := b.must(t, 409, "POST", instances+"/"+id+"/heal", body); !strings.Contains(string(a.Body), strings.TrimPrefix(path, operations+"/")) {
			t.Errorf("the refusal doesn't say what runs: %s", a.Body)
		}
	}
	b.bind(pod)
	b.await(t, path, "COMPLETED")
	kit.Stays(t, quiet, func() error { return b.counted(id, 1) })
	if _, still := b.pods()[pod]; !still {
		t.Error("a refused heal came true later")
	}
}

func TestAHealThatWasCutShortByAKillHealsOnce(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual) // for the namespace; the server is one of this test
	data := b.alone(t)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	b.bind(b.waiting())
	b.await(t, path, "COMPLETED")
	path = b.begin(t, id, "heal", chosen(b.vnfcs(id, "WEB")[0].uid))
	b.process.Kill() // at once: the pod may be deleted or not
	b.server = serve(t, data)
	successor := b.waiting()
	b.process.Kill() // it is deleted
	b.bind(successor)
	b.server = serve(t, data)
	op := b.await(t, path, "COMPLETED")
	if got := changes(op); !slices.Equal(got, []string{"ADDED WEB", "REMOVED WEB"}) {
		t.Errorf("affected VNFCs: %v", got)
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
	if _, ok := b.pods()[successor]; !ok {
		t.Errorf("the successor %s was healed as well: %v", successor, gone(nil, b.workers()))
	}
	b.awaitPods(1)
}

// TestAHealBringsBackAHeldVNFOfWhichNothingRuns has a heal in mind that had deleted everything when it failed: who
// fails it must get the VNF back by the next heal.
func TestAHealBringsBackAHeldVNFOfWhichNothingRuns(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id := b.runs(plain)
	b.quota("1")
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 200, "POST", path+"/fail", nil)
	b.quota("9")
	its := metav1.ListOptions{LabelSelector: "vnf.jibe.dev/instance=" + id}
	list, err := b.api.CoreV1().Services(b.namespace).List(t.Context(), its)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if err := b.api.CoreV1().Services(b.namespace).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		b.api.AppsV1().Deployments(b.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, its),
		b.api.AppsV1().StatefulSets(b.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, its),
		b.api.CoreV1().ConfigMaps(b.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, its),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.awaitPods(0)
	b.run(t, id, "heal", object{"cause": "nothing of it is left"})
	b.awaitPods(1)
	if held := b.show(t, id).get("instantiatedVnfInfo", "metadata", "held"); held != nil {
		t.Errorf("the heal didn't lift the hold: %v", held)
	}
	b.undrifted(id)
}
