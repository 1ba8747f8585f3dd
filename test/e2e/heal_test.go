package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// vnfc is a VNFC as the API shows it, in the three forms of its id.
type vnfc struct{ uid, pod, info string }

// vnfcs are the instance's VNFCs of the VDU, by the name of their pods.
func (b *bench) vnfcs(id, vdu string) []vnfc {
	b.Helper()
	var list []vnfc
	for _, v := range b.show(b.T, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
		if v.text("vduId") == vdu {
			pod := v.text("computeResource", "resourceId")
			list = append(list, vnfc{v.text("id"), pod, vdu + "-" + pod})
		}
	}
	slices.SortFunc(list, func(x, y vnfc) int { return strings.Compare(x.pod, y.pod) })
	if len(list) == 0 {
		b.Fatalf("%s has no VNFC of %s", id, vdu)
	}
	return list
}

// chosen is the body of a request that heals the VNFCs.
func chosen(ids ...string) object {
	return object{"vnfcInstanceId": ids, "cause": "it is sick"}
}

// message is the last commit's message of the instance's directory.
func (b *bench) message(dir string) string {
	b.Helper()
	return b.clone(b.T, "desired.git").Git("log", "-1", "--format=%B", "--", dir)
}

func TestAHealOfVNFCsMakesExactlyThesePodsAnewWhateverTheirKindAndForm(t *testing.T) {
	b := newBench(t, usual)
	id, file, _ := b.everything()
	web, cache, store := b.vnfcs(id, "WEB")[1], b.vnfcs(id, "CACHE")[0], b.vnfcs(id, "STORE")[0]
	agent, probe := b.vnfcs(id, "AGENT")[0], b.vnfcs(id, "PROBE")[0]
	objects, pods := b.made(id), b.workers()

	op := b.server.run(t, id, "heal", chosen(web.uid, cache.pod, store.info, agent.uid, probe.info))
	if got, want := gone(pods, b.workers()), slices.Sorted(slices.Values([]string{web.pod, cache.pod, store.pod, agent.pod, probe.pod})); !slices.Equal(got, want) {
		t.Errorf("pods that are gone: %v, want %v", got, want)
	}
	if n := len(b.workers()); n != len(pods) {
		t.Errorf("%d pods, were %d", n, len(pods))
	}
	for _, same := range []vnfc{store, probe} { // their names are their owners' to give
		if p, ok := b.pods()[same.pod]; !ok || string(p.UID) == same.uid {
			t.Errorf("%s isn't there with a new uid", same.pod)
		}
	}
	if got := b.renewed(objects, b.made(id)); !slices.Equal(got, []string{"Pod/probe"}) {
		t.Errorf("objects with a new uid: %v, want the bare pod alone", got)
	}
	want := []string{"ADDED AGENT", "ADDED CACHE", "ADDED PROBE", "ADDED STORE", "ADDED WEB", "REMOVED AGENT", "REMOVED CACHE", "REMOVED PROBE", "REMOVED STORE", "REMOVED WEB"}
	if got := changes(op); !slices.Equal(got, want) {
		t.Errorf("affected VNFCs: %v, want %v", got, want)
	}
	if op["isAutomaticInvocation"] != false || op.text("operationParams", "cause") != "it is sick" {
		t.Errorf("%v", op)
	}
	b.sameWorkers(id)
	message := b.message(filepath.Dir(file))
	for _, w := range []string{"HEAL " + filepath.Dir(file), web.uid, web.pod, cache.pod, store.pod, agent.pod, "Pod/" + b.namespace + "/probe", "it is sick", "Operation: HEAL", "Requested-By: "} {
		if !strings.Contains(message, w) {
			t.Errorf("the commit doesn't say %q:\n%s", w, message)
		}
	}

	// The CLI does the same.
	probe = b.vnfcs(id, "PROBE")[0]
	pods = b.workers()
	if out, errs, code := b.cli(t, "heal", b.namespace, probe.pod, "--cause", "once more"); code != 0 {
		t.Fatalf("jibe heal: %d: %s%s", code, out, errs)
	}
	b.awaitHistory(id, "INSTANTIATE COMPLETED, HEAL COMPLETED, HEAL COMPLETED")
	if got := gone(pods, b.workers()); !slices.Equal(got, []string{"probe"}) {
		t.Errorf("pods that are gone: %v", got)
	}
}

// sameWorkers is sameVNFCs where there are pods that are no VNFCs.
func (b *bench) sameWorkers(id string) {
	b.Helper()
	pods := b.workers()
	list := b.show(b.T, id).list("instantiatedVnfInfo", "vnfcResourceInfo")
	for _, v := range list {
		if pods[v.text("id")] != v.text("computeResource", "resourceId") {
			b.Errorf("VNFC %s (%s) is no pod that runs", v.text("computeResource", "resourceId"), v.text("id"))
		}
	}
	if len(list) != len(pods) {
		b.Errorf("%d VNFCs, %d pods", len(list), len(pods))
	}
}

func TestAHealOfTheWholeVNFMakesEverythingAnewButDataAndAddresses(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, _, _ := b.everything()
	definition := func() any {
		u, err := b.dynamic().Resource(definitions).Get(t.Context(), "widgets.e2e.jibe.test", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u.GetUID()
	}
	crd := definition()
	kept := []string{"ConfigMap/jibe-" + id, "PersistentVolumeClaim/data-store-0", "PersistentVolumeClaim/library"}
	for name, tt := range map[string]struct {
		more object
		kept []string
	}{
		"whole":                    {nil, kept},
		"whole with the data":      {object{"all": true}, kept[:2]},
		"pods alone":               {object{"all": false}, nil},
		"whole by the CLI":         {nil, kept},
		"whole by the CLI, --all":  {nil, kept[:2]},
		"pods by the CLI (--pods)": {nil, nil},
	} {
		objects, pods := b.made(id), b.workers()
		if strings.Contains(name, "--all") { // its claim needs a volume once more
			b.volume("library")
		}
		body := object{"cause": "all of it is sick"}
		if tt.more != nil {
			body["additionalParams"] = tt.more
		}
		var op object
		if strings.Contains(name, "CLI") {
			args := []string{"heal", id}
			switch {
			case strings.Contains(name, "--all"):
				args = append(args, "--all")
			case strings.Contains(name, "--pods"):
				args = append(args, "--pods")
			}
			if out, errs, code := b.cli(t, args...); code != 0 {
				t.Fatalf("jibe %s: %d: %s%s", strings.Join(args, " "), code, out, errs)
			}
			ops := b.history(t, id)
			op = b.await(t, operations+"/"+ops[len(ops)-1].text("id"), "COMPLETED")
		} else {
			op = b.server.run(t, id, "heal", body)
		}
		after := b.made(id)
		var want []string
		for object := range objects {
			if tt.kept == nil && object == "Pod/probe" || tt.kept != nil && !slices.Contains(tt.kept, object) {
				want = append(want, object)
			}
		}
		slices.Sort(want)
		if got := b.renewed(objects, after); !slices.Equal(got, want) {
			t.Errorf("%s: objects with a new uid:\n%v\nwant\n%v", name, got, want)
		}
		if n := len(gone(pods, b.workers())); n != len(pods) || len(b.workers()) != len(pods) {
			t.Errorf("%s: %d of %d pods are gone, %d run", name, n, len(pods), len(b.workers()))
		}
		if n := len(changes(op)); n != 2*len(pods) {
			t.Errorf("%s: %d affected VNFCs, want %d: %v", name, n, 2*len(pods), changes(op))
		}
		for _, field := range []string{"clusterIP", "ports", "ipFamilies"} {
			was, _, _ := unstructured.NestedFieldNoCopy(objects["Service/front"].Object, "spec", field)
			is, _, _ := unstructured.NestedFieldNoCopy(after["Service/front"].Object, "spec", field)
			if fmt.Sprint(was) != fmt.Sprint(is) || is == nil {
				t.Errorf("%s: the service's %s was %v and is %v", name, field, was, is)
			}
		}
		if definition() != crd {
			t.Errorf("%s: the definition was made anew", name)
		}
		b.sameWorkers(id)
	}
	// Nothing is left to be repaired.
	kit.Stays(t, quiet, func() error { return b.counted(id, 7) })
}

// counted is an error unless the instance has n operations.
func (b *bench) counted(id string, n int) error {
	b.Helper()
	ops := b.history(b.T, id)
	if len(ops) != n {
		return fmt.Errorf("%d operations, want %d: the last is %s %v", len(ops), n, ops[len(ops)-1].text("operation"), ops[len(ops)-1]["operationParams"])
	}
	return nil
}

func TestAHealIsRefusedWhoseVNFCsAreUnknownAmbiguousOrOutOfScope(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, _, _ := b.everything()
	idle := b.create(plain)
	other := b.runs(crowdB)
	web := b.vnfcs(id, "WEB")[0]
	stranger := b.vnfcs(other, "WEB-1")[0]
	var job string
	for name, p := range b.pods() {
		if owner := metav1.GetControllerOf(&p); owner != nil && owner.Kind == "Job" {
			job = name
		}
	}
	before := b.workers()
	for name, tt := range map[string]struct {
		id     string
		status int
		body   object
		says   []string
	}{
		"unknown":                    {id, 400, chosen("nobody"), []string{"nobody", web.uid, web.info}},
		"one unknown of two":         {id, 400, chosen(web.uid, "nobody"), []string{"nobody"}},
		"of another instance":        {id, 400, chosen(stranger.uid), []string{stranger.uid, web.uid}},
		"name of another instance's": {id, 400, chosen(stranger.pod), []string{stranger.pod}},
		"pod of a Job":               {id, 400, chosen(job), []string{job, "Job"}},
		"twice":                      {id, 400, chosen(web.uid, web.uid), []string{web.uid, "twice"}},
		"twice, in two forms":        {id, 400, chosen(web.uid, web.pod), []string{web.uid, web.pod, "twice"}},
		"empty list":                 {id, 400, object{"vnfcInstanceId": []string{}}, []string{"vnfcInstanceId"}},
		"null":                       {id, 400, object{"vnfcInstanceId": nil}, []string{"vnfcInstanceId"}},
		"no list":                    {id, 400, object{"vnfcInstanceId": web.uid}, []string{"vnfcInstanceId"}},
		"empty id":                   {id, 400, chosen(""), []string{"vnfcInstanceId"}},
		"all with ids":               {id, 400, object{"vnfcInstanceId": []string{web.uid}, "additionalParams": object{"all": true}}, []string{"all", "single networks or volumes"}},
		"all is no boolean":          {id, 400, object{"additionalParams": object{"all": "yes"}}, []string{"all"}},
		"surplus attribute":          {id, 400, object{"vnfcInstanceIds": []string{web.uid}}, []string{"vnfcInstanceIds"}},
		"cause is no text":           {id, 400, object{"cause": 7}, []string{"cause"}},
		"not instantiated":           {idle, 409, object{}, []string{"NOT_INSTANTIATED"}},
		"no such instance":           {"nobody", 404, object{}, []string{"nobody"}},
	} {
		a := b.rest(t, "POST", instances+"/"+tt.id+"/heal", tt.body)
		for _, w := range tt.says {
			if !strings.Contains(a.object(t).text("detail"), w) {
				t.Errorf("%s: the refusal doesn't say %q: %s", name, w, a.Body)
			}
		}
		if a.Status != tt.status {
			t.Errorf("%s: %d, want %d: %s", name, a.Status, tt.status, a.Body)
		}
	}
	if out, errs, code := b.cli(t, "heal", id, web.pod, "--all"); code == 0 {
		t.Errorf("jibe heal VNFC --all: %d: %s%s", code, out, errs)
	}
	if err := b.counted(id, 1); err != nil {
		t.Error(err)
	}
	if err := b.counted(other, 1); err != nil {
		t.Error(err)
	}
	if got := gone(before, b.workers()); len(got) != 0 {
		t.Errorf("refused heals deleted %v", got)
	}
}

// idle makes the request when nothing else is under way, and awaits COMPLETED.
func (b *bench) idle(id, task string, body object) object {
	b.Helper()
	var path string
	kit.Eventually(b, func() error {
		a := b.rest(b.T, "POST", instances+"/"+id+"/"+task, body)
		if a.Status == http.StatusConflict {
			return fmt.Errorf("%s", a.Body)
		}
		if a.Status != http.StatusAccepted {
			b.Fatalf("%s: %d: %s", task, a.Status, a.Body)
		}
		path = a.Header.Get("Location")
		return nil
	})
	return b.await(b.T, path, "COMPLETED")
}
