package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// repaired waits until the instance has one operation more than n, which repaired a
// drift, and that its cause says all words.
func (b *bench) repaired(id string, n int, words ...string) object {
	b.Helper()
	var ops []object
	kit.Eventually(b, func() error {
		if ops = b.history(b.T, id); len(ops) <= n {
			return fmt.Errorf("nothing is repaired (%s)", strings.Join(words, ", "))
		}
		if op := ops[n]; op.text("operationState") != "COMPLETED" {
			return fmt.Errorf("%s is %s: %v", op.text("operation"), op.text("operationState"), op["error"])
		}
		return nil
	})
	op := ops[n]
	if op.text("operation") != "HEAL" || op["isAutomaticInvocation"] != true {
		b.Errorf("%s, automatic: %v", op.text("operation"), op["isAutomaticInvocation"])
	}
	cause := op.text("operationParams", "cause")
	for _, w := range words {
		if !strings.Contains(cause, w) {
			b.Errorf("the cause doesn't say %q: %s", w, cause)
		}
	}
	if err := b.counted(id, n+1); err != nil {
		b.Error(err)
	}
	return op
}

// content is what an object says, without what the server and controllers note on it.
func content(u *unstructured.Unstructured) string {
	text, err := json.Marshal(map[string]any{"spec": u.Object["spec"], "data": u.Object["data"], "labels": u.GetLabels()})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// damage is something done to an instance behind Jibe's back.
type damage struct {
	name   string
	object string
	do     func()
	says   []string
	// fresh says that the object is made anew; moves, whose pods may be, by the
	// beginning of their names.
	fresh bool
	moves string
}

// putRight does the damage and proves that one operation puts it right, and that
// nothing else is touched.
func (b *bench) putRight(id string, list ...damage) {
	b.Helper()
	for _, x := range list {
		objects, pods, n := b.made(id), b.workers(), len(b.history(b.T, id))
		x.do()
		kind, name, _ := strings.Cut(x.object, "/")
		b.repaired(id, n, append(x.says, kind, "/"+b.namespace+"/"+name)...)
		after := b.made(id)
		var want []string
		if x.fresh {
			want = []string{x.object}
		}
		if got := b.renewed(objects, after); !slices.Equal(got, want) {
			b.Errorf("%s: objects with a new uid: %v, want %v", x.name, got, want)
		}
		for name, u := range after {
			// Its next incarnation has what the cluster gives to each.
			if x.fresh && name == x.object {
				continue
			}
			if was, is := content(objects[name]), content(u); was != is {
				b.Errorf("%s: %s was\n%s\nand is\n%s", x.name, name, was, is)
			}
		}
		for _, name := range gone(pods, b.workers()) {
			if x.moves == "" || !strings.HasPrefix(name, x.moves) {
				b.Errorf("%s: the pod %s was replaced", x.name, name)
			}
		}
		kit.Eventually(b, func() error {
			if now := len(b.workers()); now != len(pods) {
				return fmt.Errorf("%s: %d pods, were %d", x.name, now, len(pods))
			}
			return nil
		})
		b.sameWorkersSoon(id)
	}
}

// sameWorkersSoon is sameWorkers that leaves the pods time to settle.
func (b *bench) sameWorkersSoon(id string) {
	b.Helper()
	kit.Eventually(b, func() error {
		pods, list := b.workers(), b.show(b.T, id).list("instantiatedVnfInfo", "vnfcResourceInfo")
		for _, v := range list {
			if pods[v.text("id")] == "" {
				return fmt.Errorf("VNFC %s is no pod that runs", v.text("computeResource", "resourceId"))
			}
		}
		if len(list) != len(pods) {
			return fmt.Errorf("%d VNFCs, %d pods", len(list), len(pods))
		}
		return nil
	})
}

// scaled asks for replicas by the scale subresource, as kubectl scale does.
func (b *bench) scaled(deployment, manager string, replicas int32) {
	b.Helper()
	s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: deployment, Namespace: b.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if _, err := b.api.AppsV1().Deployments(b.namespace).UpdateScale(b.Context(), deployment, s, metav1.UpdateOptions{FieldManager: manager}); err != nil {
		b.Fatal(err)
	}
}

func TestWhatIsChangedByHandIsPutBackByOneOperationThatNamesObjectFieldAndManager(t *testing.T) {
	b := newBench(t, usual)
	id, _, _ := b.everything()
	container := func(image, mode string) string {
		return "{'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': '" + image + "', 'env': [{'name': 'MODE', 'value': '" + mode + "'}], 'resources': {'requests': {'cpu': '1m'}}}]}}}}"
	}
	image, env := container("intruder.example/x:1", "fast"), container("registry.k8s.io/pause:3.10", "slow")
	b.putRight(id,
		damage{name: "a custom resource", object: "Widget/gear",
			do: func() { b.patch("Widget/gear", "hand", "{'spec': {'teeth': 13}}") }, says: []string{"spec.teeth", "13", "12", "hand"}},
		damage{name: "kubectl scale", object: "Deployment/web", moves: "web-",
			do: func() { b.scaled("web", "kubectl-hand", 4) }, says: []string{"spec.replicas", "is 4, should be 2", "kubectl-hand"}},
		damage{name: "an update of replicas", object: "StatefulSet/store", moves: "store-",
			do: func() { b.patch("StatefulSet/store", "hand", "{'spec': {'replicas': 0}}") }, says: []string{"spec.replicas", "hand"}},
		damage{name: "replicas of a ReplicaSet", object: "ReplicaSet/cache", moves: "cache-",
			do: func() { b.patch("ReplicaSet/cache", "hand", "{'spec': {'replicas': 2}}") }, says: []string{"spec.replicas", "hand"}},
		damage{name: "image", object: "Deployment/web", moves: "web-",
			do: func() { b.patch("Deployment/web", "hand", image) }, says: []string{"image", "intruder.example/x:1", "registry.k8s.io/pause:3.10", "hand"}},
		damage{name: "image of a DaemonSet", object: "DaemonSet/agent", moves: "agent-",
			do: func() { b.patch("DaemonSet/agent", "hand", image) }, says: []string{"image", "hand"}},
		damage{name: "environment", object: "StatefulSet/store", moves: "store-",
			do: func() { b.patch("StatefulSet/store", "hand", env) }, says: []string{"env[name=MODE].value", "slow", "fast", "hand"}},
		damage{name: "data of a ConfigMap", object: "ConfigMap/settings",
			do: func() { b.patch("ConfigMap/settings", "hand", "{'data': {'mode': 'slow'}}") }, says: []string{"data.mode", "slow", "fast", "hand"}},
		damage{name: "a key of a ConfigMap removed", object: "ConfigMap/settings",
			do: func() { b.patch("ConfigMap/settings", "hand", "{'data': {'mode': null}}") }, says: []string{"data.mode", "absent", "fast"}},
		damage{name: "a label", object: "ConfigMap/settings",
			do: func() { b.patch("ConfigMap/settings", "hand", "{'metadata': {'labels': {'tier': 'bronze'}}}") }, says: []string{"metadata.labels", "tier", "bronze", "gold", "hand"}},
		damage{name: "the instance's label", object: "Service/front",
			do: func() { b.patch("Service/front", "hand", "{'metadata': {'labels': {'"+instanceLabel+"': null}}}") }},
		damage{name: "the instance's label of a workload", object: "Deployment/web",
			do: func() { b.patch("Deployment/web", "hand", "{'metadata': {'labels': {'"+instanceLabel+"': null}}}") }},
		damage{name: "the instance's label, another's", object: "Secret/login",
			do: func() {
				b.patch("Secret/login", "hand", "{'metadata': {'labels': {'"+instanceLabel+"': 'somebody-else'}}}")
			}},
		damage{name: "ports of a Service", object: "Service/front",
			do: func() {
				port := b.read("Service/front").Object["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"]
				b.patch("Service/front", "hand", fmt.Sprintf("{'spec': {'ports': [{'name': 'http', 'port': 80, 'targetPort': 9999, 'nodePort': %v}]}}", port))
			}, says: []string{"spec.ports", "targetPort", "9999", "8080", "hand"}},
		damage{name: "selector of a Service", object: "Service/front",
			do: func() { b.patch("Service/front", "hand", "{'spec': {'selector': {'app': 'nothing'}}}") }, says: []string{"spec.selector", "nothing", "web", "hand"}},
	)
}

func TestWhatIsDeletedOrEvictedIsMadeAnewByOneOperationThatNamesIt(t *testing.T) {
	b := newBench(t, usual)
	id, _, _ := b.everything()
	evict := func() {
		status := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on resource: memory"}
		text, err := json.Marshal(object{"status": status})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.api.CoreV1().Pods(b.namespace).Patch(t.Context(), "probe", types.MergePatchType, text, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	deleted := func(object, moves string) damage {
		return damage{name: object + " deleted", object: object, fresh: true, moves: moves, do: func() { b.remove(object) }}
	}
	b.putRight(id,
		deleted("Service/front", ""), deleted("Service/store", ""), deleted("ConfigMap/settings", ""), deleted("Secret/login", ""),
		deleted("Widget/gear", ""), deleted("Pod/probe", "probe"),
		damage{name: "pod evicted", object: "Pod/probe", fresh: true, moves: "probe", do: evict, says: []string{"Evicted"}},
		deleted("Deployment/web", "web-"), deleted("ReplicaSet/cache", "cache-"), deleted("DaemonSet/agent", "agent-"),
	)
	// The package lets its StatefulSet take its claims along: here it goes alone.
	// Their pods go on, and what is made anew takes them back. The package lets its StatefulSet take its claims along: here it goes alone.
	for kind, name := range map[string]string{"StatefulSet": "store", "Deployment": "web"} {
		b.putRight(id, damage{name: kind + " was deleted without its pods", object: kind + "/" + name, fresh: true, do: func() {
			if err := b.at(kind).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}); err != nil {
				t.Fatal(err)
			}
		}})
	}
	if claims := b.made(id); claims["PersistentVolumeClaim/library"] == nil {
		t.Errorf("the package's claim is gone: %v", claims)
	}
	// A Job that has done its work and was tidied up is no drift.
	n := len(b.history(t, id))
	b.remove("Job/once")
	b.remove("ConfigMap/settings")
	b.repaired(id, n, "ConfigMap/"+b.namespace+"/settings")
	kit.Stays(t, quiet, func() error { return b.counted(id, n+1) })
}

func TestADeletedStatefulSetComesBackToItsClaims(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	b.volume("data-store-0")
	id, _, _ := b.pushed(claims, "")
	b.putRight(id, damage{name: "deleted", object: "StatefulSet/store", fresh: true, moves: "store-", do: func() { b.remove("StatefulSet/store") }})
	b.awaitPods(1)
}

func TestASecretsDriftIsPutBackAndItsValuesAreShownNowhere(t *testing.T) {
	b := newBench(t, usual)
	id, file, d := b.everything()
	const intruder = "of-the-intruder"
	hidden := []string{intruder, base64.StdEncoding.EncodeToString([]byte(intruder)), "from-the-package", base64.StdEncoding.EncodeToString([]byte("from-the-package"))}
	without := func(where, text string) {
		t.Helper()
		for _, h := range hidden {
			if strings.Contains(text, h) {
				t.Errorf("%s shows a secret's value: %s", where, text)
			}
		}
	}
	change := func() {
		b.patch("Secret/login", "hand", "{'data': {'password': '"+hidden[1]+"'}}")
	}
	b.putRight(id, damage{name: "data", object: "Secret/login", do: change, says: []string{"password", "hand"}})
	d.Pull()
	d.Write(file, d.Read(file)+"drift: report\n")
	d.Push("Only tell")
	// A change before the commit is known would be put right, as the file said then.
	kit.Eventually(t, func() error {
		if now := b.show(t, id).text("jibe", "driftPolicy"); now != "report" {
			return fmt.Errorf("the drift policy is %q", now)
		}
		return nil
	})
	change()
	shown := b.drifted(id, "Secret/"+b.namespace+"/login", "reported")
	without("GET /jibe/v1/drift", fmt.Sprint(shown))
	for _, args := range [][]string{{"get", "drift"}, {"get", "drift", "-o", "yaml"}, {"get", "operations", "-o", "json"}, {"get", "instance", id}} {
		out, errs, _ := b.cli(t, args...)
		without("jibe "+strings.Join(args, " "), out+errs)
	}
	without("the metrics", string(b.must(t, 200, "GET", "/metrics", nil).Body))
	without("the log", b.process.Log())
	for _, path := range []string{instances + "/" + id, operations + "?all_fields&filter=(eq,vnfInstanceId," + id + ")"} {
		without(path, string(b.must(t, 200, "GET", path, nil).Body))
	}
}

// drifted waits until the instance's drift is shown to be of the object and in
// the state, and returns the deviation.
func (b *bench) drifted(id, key, state string) (deviation object) {
	b.Helper()
	kit.Eventually(b, func() error {
		for _, x := range decodeList(b.T, b.must(b, 200, "GET", "/jibe/v1/drift", nil).Body) {
			if x.text("instance") != id {
				continue
			}
			for _, v := range x.list("deviations") {
				if v.text("object") == key && x.text("state") == state {
					deviation = v
					return nil
				}
			}
			return fmt.Errorf("the drift is %v, want %s of %s", x, state, key)
		}
		return fmt.Errorf("no drift of %s is shown, want %s of %s", id, state, key)
	})
	return deviation
}

// undrifted waits until no drift of the instance is shown.
func (b *bench) undrifted(id string) {
	b.Helper()
	kit.Eventually(b, func() error {
		if text := string(b.must(b, 200, "GET", "/jibe/v1/drift", nil).Body); strings.Contains(text, id) {
			return fmt.Errorf("drift is still shown: %s", text)
		}
		return nil
	})
}

func TestDriftThatIsToBeReportedIsShownEverywhereAndRepairedWhenThatIsSwitchedOn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, file, d := b.pushed(twins, "drift: report\n")
	key := "ConfigMap/" + b.namespace + "/settings"
	b.patch("ConfigMap/settings", "hand", "{'data': {'mode': 'slow'}}")
	v := b.drifted(id, key, "reported")
	if v.text("field") != "data.mode" || v.text("by") != "hand" || !strings.Contains(v.text("want"), "fast") || !strings.Contains(v.text("have"), "slow") {
		t.Errorf("the deviation: %v", v)
	}
	if said := b.drifted(id, key, "reported").text("at"); said == "" {
		t.Error("it doesn't say when the data was changed")
	}
	out, errs, code := b.cli(t, "get", "drift")
	for _, w := range []string{"INSTANCE", "OBJECT", "FIELD", "WANT", "HAVE", "BY", "SINCE", "STATE", key, "data.mode", "fast", "slow", "hand", "reported"} {
		if code != 0 || !strings.Contains(out, w) {
			t.Errorf("jibe get drift (%d) doesn't show %q: %s%s", code, w, out, errs)
		}
	}
	if out, _, _ := b.cli(t, "get", "instances", "-o", "wide"); !strings.Contains(lineOf(out, id), "drift") {
		t.Errorf("jibe get instances doesn't tell of it: %s", lineOf(out, id))
	}
	shown := b.show(t, id)
	if shown.text("jibe", "driftPolicy") != "report" || !strings.Contains(fmt.Sprint(shown.get("jibe", "drifted")), key) {
		t.Errorf("the instance doesn't tell of it: %v", shown["jibe"])
	}
	metric := func() string {
		for line := range strings.SplitSeq(string(b.must(t, 200, "GET", "/metrics", nil).Body), "\n") {
			if strings.HasPrefix(line, "jibe_drift_since_timestamp_seconds{") && strings.Contains(line, id) {
				return line
			}
		}
		return ""
	}
	for _, w := range []string{key, "data.mode", "hand", "reported"} {
		if !strings.Contains(metric(), w) {
			t.Errorf("the metric doesn't show %q: %s", w, metric())
		}
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 1) })
	if mode, _, _ := unstructured.NestedString(b.read("ConfigMap/settings").Object, "data", "mode"); mode != "slow" {
		t.Errorf("it was put back: %s", mode)
	}
	// An operation that somebody asks for brings about all that git says.
	b.server.run(t, id, "scale", scale("SCALE_OUT", "back_aspect", 1))
	if mode, _, _ := unstructured.NestedString(b.read("ConfigMap/settings").Object, "data", "mode"); mode != "fast" {
		t.Errorf("the data after an operation: %s", mode)
	}
	b.undrifted(id)
	if metric() != "" {
		t.Errorf("the metric is still there: %s", metric())
	}

	b.remove("Service/front")
	b.drifted(id, "Service/"+b.namespace+"/front", "reported")
	d.Pull()
	d.Replace(file, "drift: report", "drift: correct")
	d.Push("Repair it")
	kit.Eventually(t, func() error {
		ops := b.history(t, id)
		if last := ops[len(ops)-1]; last.text("operation") != "HEAL" || last.text("operationState") != "COMPLETED" {
			return fmt.Errorf("the last of %d operations is %s %s", len(ops), last.text("operation"), last.text("operationState"))
		}
		return nil
	})
	b.read("Service/front")
	b.undrifted(id)
}

// lineOf is the line of a table that is about the instance.
func lineOf(out, id string) string {
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, id) {
			return line
		}
	}
	return ""
}
