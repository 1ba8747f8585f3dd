package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// quota bounds the namespace's pods, and returns when the bound is in force.
func (b *bench) quota(pods string) {
	b.Helper()
	quotas := b.api.CoreV1().ResourceQuotas(b.namespace)
	hard := corev1.ResourceList{"pods": resource.MustParse(pods)}
	q, err := quotas.Get(b.Context(), "tight", metav1.GetOptions{})
	if err != nil {
		q, err = quotas.Create(b.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "tight"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	} else { // a patch: the cluster counts in its status all the time
		q, err = quotas.Patch(b.Context(), q.Name, types.MergePatchType, []byte(`{"spec": {"hard": {"pods": "`+pods+`"}}}`), metav1.PatchOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	kit.Eventually(b, func() error {
		now, err := quotas.Get(b.Context(), q.Name, metav1.GetOptions{})
		if err == nil && now.Status.Hard.Pods().Cmp(*hard.Pods()) != 0 {
			err = fmt.Errorf("the quota isn't in force: %v", now.Status.Hard)
		}
		return err
	})
}

// says fails the test unless the operation's error has all words.
func (b *bench) says(op object, words ...string) {
	b.Helper()
	detail := op.text("error", "detail")
	for _, w := range words {
		if !strings.Contains(detail, w) {
			b.Errorf("the error doesn't say %q: %q", w, detail)
		}
	}
	if op.get("error", "status") == nil {
		b.Errorf("the error has no status: %v", op["error"])
	}
}

// kubelet writes into a pod's status that its container waits, as a kubelet would.
func (b *bench) kubelet(pod, reason, message string, exitCode int) {
	b.Helper()
	status := object{"name": "c", "ready": false, "restartCount": 3, "image": "i", "imageID": "",
		"state": object{"waiting": object{"reason": reason, "message": message}}}
	if exitCode != 0 {
		status["lastState"] = object{"terminated": object{"exitCode": exitCode, "reason": "Error"}}
	}
	patch, err := json.Marshal(object{"status": object{"containerStatuses": []object{status}}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.api.CoreV1().Pods(b.namespace).Patch(b.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
}

func TestAScaleOutBeyondTheQuotaNamesItAndARetryAfterwardsSucceeds(t *testing.T) {
	b := newBench(t, usual)
	id := b.runs(plain)
	b.quota("1")
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.says(b.await(t, path, "FAILED_TEMP"), "Deployment/"+b.namespace+"/web", "exceeded quota", "tight")
	if a := b.rest(t, "POST", instances+"/"+id+"/scale", scale("SCALE_OUT", "web_aspect", 1)); a.Status != http.StatusConflict {
		t.Errorf("a request beside one in FAILED_TEMP: %d: %s", a.Status, a.Body)
	}
	b.quota("5")
	b.awaitPods(2) // their controller tries again when it likes: the longer it failed, the later
	b.must(t, 202, "POST", path+"/retry", nil)
	op := b.await(t, path, "COMPLETED")
	if op["error"] != nil {
		t.Errorf("the completed operation still shows an error: %v", op["error"])
	}
	b.awaitPods(2)
}

func TestAScaleOutBeyondTheQuotaIsRolledBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id := b.runs(plain)
	b.quota("2")
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 3))
	b.says(b.await(t, path, "FAILED_TEMP"), "exceeded quota")
	out, errs, code := b.cli(t, "rollback", strings.TrimPrefix(path, operations+"/"))
	if code != 0 {
		t.Fatalf("jibe rollback: %d\n%s%s", code, out, errs)
	}
	b.await(t, path, "ROLLED_BACK")
	b.awaitPods(1)
	if n := b.level(id, "web_aspect"); n != 0 {
		t.Errorf("scale level is %v after the rollback", n)
	}
	// The next request works.
	b.quota("9")
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 2))
	b.awaitPods(3)
}

// inTime waits until the operation of a server that gives up soon is COMPLETED. An attempt whose time was
// up, as on a machine that stood still for a while, is made once more.
func (b *bench) inTime(path string) object {
	b.Helper()
	for end := time.Now().Add(kit.Patience); ; b.must(b, 202, "POST", path+"/retry", nil) {
		op := b.ended(b.T, path)
		switch late := strings.Contains(op.text("error", "detail"), "not done within"); {
		case op.text("operationState") == "COMPLETED":
			return op
		case op.text("operationState") != "FAILED_TEMP" || !late || time.Now().After(end):
			b.Fatalf("%s of %s is %s: %v", op.text("operation"), op.text("vnfInstanceId"), op.text("operationState"), op["error"])
		}
	}
}

// level is an aspect's scale level as the API shows it, -1 if it doesn't.
func (b *bench) level(id, aspect string) int {
	b.Helper()
	for _, s := range b.show(b.T, id).list("instantiatedVnfInfo", "scaleStatus") {
		if s.text("aspectId") == aspect {
			return int(s["scaleLevel"].(float64))
		}
	}
	return -1
}

func TestAnInstantiationThatFailsIsRolledBackAndCanBeAskedForAgain(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	pod := b.waiting()
	b.kubelet(pod, "ImagePullBackOff", `Back-off pulling image "registry.invalid/web:1"`, 0)
	b.says(b.await(t, path, "FAILED_TEMP"), pod, "ImagePullBackOff", "registry.invalid/web:1")
	if out, _, _ := b.cli(t, "get", "instances", "-o", "wide"); !strings.Contains(lineOf(out, id), "INSTANTIATE "+strings.Split(filepath.Base(path), "-")[0]+" failed: ") {
		t.Errorf("jibe get instances has no note of the failed operation: %s", lineOf(out, id))
	}
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	b.awaitPods(0)
	if s := b.show(t, id).text("instantiationState"); s != "NOT_INSTANTIATED" {
		t.Errorf("the instance is %s", s)
	}
	// The record says ROLLED_BACK a moment before git does, and until then a request is
	// refused with the advice to ask again.
	kit.Eventually(t, func() error {
		a := b.rest(t, "POST", instances+"/"+id+"/instantiate", b.request())
		if a.Status == http.StatusConflict && strings.Contains(string(a.Body), "ask again in a moment") {
			return fmt.Errorf("%s", a.Body)
		}
		if a.Status != http.StatusAccepted {
			t.Fatalf("%d: %s", a.Status, a.Body)
		}
		path = a.Header.Get("Location")
		return nil
	})
	b.bind(b.waiting())
	b.await(t, path, "COMPLETED")
}

func TestACrashLoopIsNamedWithItsExitCodeAndARetryGoesOnFromWhatExists(t *testing.T) {
	b := newBench(t, usual)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	pod := b.waiting()
	b.kubelet(pod, "CrashLoopBackOff", "back-off 10s restarting failed container", 137)
	b.says(b.await(t, path, "FAILED_TEMP"), pod, "CrashLoopBackOff", "137")
	b.bind(pod)    // and kwok, as kubelet, has it run
	b.awaitPods(1) // in its own time
	b.must(t, 202, "POST", path+"/retry", nil)
	b.await(t, path, "COMPLETED")
	if _, ok := b.pods()[pod]; !ok {
		t.Errorf("the retry replaced the pod %s: %v", pod, b.pods())
	}
}

func TestScaleInAndTerminateAreNotRolledBack(t *testing.T) {
	b := newBench(t, usual)
	id := b.runs(plain)
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	for _, task := range []struct {
		name string
		body object
	}{{"scale", scale("SCALE_IN", "web_aspect", 1)}, {"terminate", object{"terminationType": "FORCEFUL"}}} {
		// A finalizer keeps a pod from going, so that the operation can be cancelled.
		pods := b.api.CoreV1().Pods(b.namespace)
		for name := range b.pods() {
			if _, err := pods.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["e2e.test/keep"]}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		path := b.begin(t, id, task.name, task.body)
		b.await(t, path, "PROCESSING")
		b.must(t, 202, "POST", path+"/cancel", object{"cancelMode": "FORCEFUL"})
		b.await(t, path, "FAILED_TEMP")
		if a := b.rest(t, "POST", path+"/rollback", nil); a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "rolled back") && !strings.Contains(string(a.Body), "rollback") {
			t.Errorf("rollback of %s: %d: %s", task.name, a.Status, a.Body)
		}
		all, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Items {
			if _, err := pods.Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b.must(t, 202, "POST", path+"/retry", nil)
		b.await(t, path, "COMPLETED")
	}
	b.awaitPods(0)
}

func TestAFailedOperationLetsTheNextRequestWork(t *testing.T) {
	b := newBench(t, usual)
	id := b.runs(plain)
	b.quota("1")
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 2))
	b.await(t, path, "FAILED_TEMP")
	failed := b.must(t, 200, "POST", path+"/fail", nil).object(t)
	if s := failed.text("operationState"); s != "FAILED" {
		t.Errorf("the answer of fail shows %s", s)
	}
	kit.Eventually(t, func() error {
		if b.show(t, id).get("instantiatedVnfInfo", "metadata", "held") == nil {
			return fmt.Errorf("the instance doesn't show that it is held: %v", b.show(t, id)["instantiatedVnfInfo"])
		}
		return nil
	})
	for _, verb := range []string{"retry", "rollback", "fail"} {
		if a := b.rest(t, "POST", path+"/"+verb, nil); a.Status != http.StatusConflict {
			t.Errorf("%s of a FAILED operation: %d: %s", verb, a.Status, a.Body)
		}
	}
	b.quota("9")
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.awaitPods(2)
	if held := b.show(t, id).get("instantiatedVnfInfo", "metadata", "held"); held != nil {
		t.Errorf("the next request didn't lift the hold: %v", held)
	}
}

func TestCancelIsShownAsPendingUntilWhatWasStartedIsOver(t *testing.T) {
	b := newBench(t, usual)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	pod := b.waiting()
	b.must(t, 400, "POST", path+"/cancel", object{"cancelMode": "GENTLE"})
	b.must(t, 202, "POST", path+"/cancel", object{"cancelMode": "GRACEFUL"})
	op := b.must(t, 200, "GET", path, nil).object(t)
	if op["isCancelPending"] != true || op.text("cancelMode") != "GRACEFUL" || op.text("operationState") != "PROCESSING" {
		t.Errorf("the cancel isn't shown: %v", op)
	}
	b.must(t, 202, "POST", path+"/cancel", object{"cancelMode": "FORCEFUL"})
	op = b.await(t, path, "FAILED_TEMP")
	b.says(op, "cancelled")
	if op["isCancelPending"] == true {
		t.Errorf("the cancel is still pending: %v", op)
	}
	b.bind(pod)
	b.must(t, 202, "POST", path+"/retry", nil)
	b.await(t, path, "COMPLETED")
}

func TestASecondRequestIsRefusedAndASecondPushWaitsWhereItSaysSo(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	d := b.clone(t, "desired.git")
	file := "instances/wait/" + b.namespace + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nlevels: {web_aspect: 0}\nparams: {namespace: %[1]s}\n", b.namespace, byHand))
	d.Push("Run")
	first := b.waiting()
	id := b.idOf(b.namespace)
	a := b.must(t, 409, "POST", instances+"/"+id+"/terminate", object{"terminationType": "FORCEFUL"})
	if !strings.Contains(string(a.Body), b.history(t, id)[0].text("id")) {
		t.Errorf("the refusal doesn't say what runs: %s", a.Body)
	}
	d.Pull()
	d.Replace(file, "levels: {web_aspect: 0}", "levels: {web_aspect: 1}\nsupersede: never")
	d.Push("And one more")
	if ops := b.history(t, id); len(ops) != 1 || ops[0].text("operationState") != "PROCESSING" {
		t.Errorf("the second push didn't wait: %v", ops)
	}
	b.bind(first)
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE PROCESSING")
	b.bind(b.waiting())
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
}

func TestAPodWithoutRoomIsNamedWhenTheTimeIsUpAndTheLevelCanBePushedBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	d := b.clone(t, "desired.git")
	file := "instances/huge/" + b.namespace + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nlevels: {web_aspect: 0}\nparams: {namespace: %[1]s}\n", b.namespace, huge))
	d.Push("Run nothing yet")
	id := b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	d.Pull()
	d.Replace(file, "web_aspect: 0", "web_aspect: 1")
	d.Push("One that is too large")
	ops := b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE FAILED_TEMP")
	b.says(ops[1], "not done within 20s", "web-", "Insufficient cpu")
	d.Pull()
	d.Replace(file, "web_aspect: 1", "web_aspect: 0")
	d.Push("Back again")
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE ROLLED_BACK")
	b.awaitPods(0)
}

func TestAScaleOutWhoseClaimsCannotBindSaysSoAndScaleInKeepsClaims(t *testing.T) {
	b := newBench(t, impatient)
	b.volume("data-store-0")
	id := b.create(claims)
	b.inTime(b.begin(t, id, "instantiate", b.request()))
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "store_aspect", 1))
	b.says(b.await(t, path, "FAILED_TEMP"), "data-store-1", "bound")
	b.volume("data-store-1")
	b.awaitPods(2) // the scheduler tries again when it likes, not within this server's patience
	b.must(t, 202, "POST", path+"/retry", nil)
	b.inTime(path)
	b.inTime(b.begin(t, id, "scale", scale("SCALE_IN", "store_aspect", 1)))
	b.awaitPods(1)
	list, err := b.api.CoreV1().PersistentVolumeClaims(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d claims after the scale-in, want 2: %v", len(list.Items), err)
	}
	b.inTime(b.begin(t, id, "terminate", object{"terminationType": "FORCEFUL"}))
	if list, err = b.api.CoreV1().PersistentVolumeClaims(b.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("%d claims after the termination: %v", len(list.Items), err)
	}
}
