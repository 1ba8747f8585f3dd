package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// unmoved runs f, which must move nothing in the namespace and begin no operation.
func (b *bench) unmoved(id string, f func()) {
	b.Helper()
	before, n := b.snapshot(true), len(b.history(b.T, id))
	f()
	b.unchanged(before, true)
	if err := b.counted(id, n); err != nil {
		b.Error(err)
	}
}

// barred asks for the change to release n through the API and by a push, both of which have to refuse it
// with the status and all words. more is the request's additional parameters and yaml
// what the file gets beside the vnfdId.
func (b *bench) barred(id, file string, n, status int, body object, yaml string, words ...string) {
	b.Helper()
	b.unmoved(id, func() {
		a := b.rest(b.T, http.MethodPost, instances+"/"+id+"/change_vnfpkg", body)
		detail := a.object(b.T).text("detail")
		b.Logf("%d: %s", a.Status, detail)
		if a.Status != status {
			b.Errorf("the request is answered with %d, want %d: %s", a.Status, status, a.Body)
		}
		d := b.clone(b.T, "desired.git")
		d.Replace(file, "vnfdId: "+b.vnfdID(1), "vnfdId: "+b.vnfdID(n))
		d.Write(file, d.Read(file)+yaml)
		d.Commit("Something that can't be")
		out, err := d.TryPush()
		if err == nil {
			b.Fatalf("the push is accepted:\n%s", out)
		}
		b.Logf("\n%s", out)
		for _, w := range words {
			if !strings.Contains(detail, w) {
				b.Errorf("the answer doesn't say %q: %s", w, detail)
			}
			if !strings.Contains(out, w) {
				b.Errorf("the refusal of the push doesn't say %q:\n%s", w, out)
			}
		}
		if !strings.Contains(out, file+":") {
			b.Errorf("the refusal of the push doesn't name file and line:\n%s", out)
		}
	})
}

func TestAPackageThatDoesNotFitWhatRunsIsRefusedBeforeAnythingMoves(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	lower, renamed, missing := standard(2), standard(3), standard(4)
	lower.vnfd = func(text string) string { return strings.ReplaceAll(text, "max_scale_level: 5", "max_scale_level: 1") }
	renamed.vnfd = func(text string) string { return strings.ReplaceAll(text, "web_aspect", "front_aspect") }
	missing.vdus = missing.vdus[:1]
	b.publish(standard(1), lower, renamed, missing)
	id, file, _ := b.pushed(b.vnfdID(1), "levels: {web_aspect: 2}\n")
	b.barred(id, file, 9, 422, b.changing(9, "RollingUpdate"), "", b.vnfdID(9))
	b.barred(id, file, 2, 400, b.changing(2, "RollingUpdate"), "", "web_aspect", "0..1")
	b.barred(id, file, 3, 400, b.changing(3, "Blue-Green"), greenly, "web_aspect")
	b.barred(id, file, 4, 400, b.changing(4, "RollingUpdate"), "", "BACK", b.vnfdID(4))
	b.versions(id, 1)
}

func TestBlueGreenIsRefusedForWorkloadsThatCanNotStandTwice(t *testing.T) {
	for name, tt := range map[string]struct {
		vdu    vdu
		beside string
		words  []string
	}{
		"StatefulSet with claims": {vdu: vdu{kind: "StatefulSet", name: "store", more: `serviceName: store, volumeClaimTemplates: [{metadata: {name: data},
    spec: {storageClassName: by-hand, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}], `}, words: []string{"StatefulSet", "store", "volumeClaimTemplates"}},
		"DaemonSet":      {vdu: vdu{kind: "DaemonSet", name: "agent"}, words: []string{"DaemonSet", "agent"}},
		"Pod":            {vdu: vdu{kind: "Pod", name: "probe", initial: 1}, words: []string{"Pod", "probe", "barePods"}},
		"host's network": {vdu: vdu{kind: "Deployment", name: "edge", pod: "hostNetwork: true, "}, words: []string{"edge", "hostNetwork"}},
		"claim of one writer": {vdu: vdu{kind: "Deployment", name: "disk", pod: "volumes: [{name: d, persistentVolumeClaim: {claimName: disk}}], "},
			beside: "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk}, spec: {storageClassName: by-hand, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}\n",
			words:  []string{"disk", "ReadWriteOnce"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			made := func(n int) release {
				r := standard(n)
				r.vdus = append(r.vdus, tt.vdu)
				r.beside += tt.beside
				return r
			}
			b.publish(made(1), made(2))
			if tt.beside != "" {
				b.volume("disk")
			}
			if strings.Contains(tt.vdu.pod, "hostNetwork") { // which only a project that says so may bring
				b.clone(b.T, "desired.git").PushFiles(map[string]string{"projects/" + b.namespace + ".yaml": fmt.Sprintf(
					"instances: [pushed/%[1]s]\nrepositories: ['*']\nvims: [local]\nnamespaces: [%[1]s]\npodSecurity: privileged\n", b.namespace)})
			}
			id, file, d := b.pushed(b.vnfdID(1), "")
			b.barred(id, file, 2, 400, b.changing(2, "Blue-Green"), greenly, tt.words...)
			if name != "Pod" {
				return
			}
			// A bare Pod may be replaced where the operator says so.
			b.amend(d, file, "Replace Pods, too", "vnfdId: "+b.vnfdID(1), "update: {strategy: blueGreen, barePods: true}\nvnfdId: "+b.vnfdID(2))
			b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
			b.awaitPods(4)
			b.only(id, "1")
		})
	}
}

func TestWhatOnlyTheAPIServerCanRefuseIsSaidBeforeAnythingMoves(t *testing.T) {
	b := newStage(t)
	with := func(n int, change func(*release)) release {
		r := standard(n)
		r.vdus = append(r.vdus, vdu{kind: "StatefulSet", name: "store", more: `serviceName: store, volumeClaimTemplates: [{metadata: {name: data},
    spec: {storageClassName: by-hand, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}], `})
		if change != nil {
			change(&r)
		}
		return r
	}
	selector := with(2, func(r *release) { r.vdus[1].app = "other" })
	clusterIP := with(3, func(r *release) {
		r.beside = strings.Replace(r.beside, "spec: {type: NodePort,", "spec: {type: NodePort, clusterIP: 10.96.77.77,", 1)
	})
	template := with(4, func(r *release) { r.vdus[2].more = strings.Replace(r.vdus[2].more, "1Mi", "2Mi", 1) })
	b.publish(with(1, nil), selector, clusterIP, template)
	id := b.runs(b.vnfdID(1))
	for n, words := range map[int][]string{2: {"Deployment/" + b.namespace + "/back", "selector"}, 3: {"Service/" + b.namespace + "/front", "clusterIP"}, 4: {"StatefulSet/" + b.namespace + "/store", "updates to statefulset spec"}} {
		before := b.snapshot(true)
		op := b.ended(t, b.begin(t, id, "change_vnfpkg", b.changing(n, "RollingUpdate")))
		if op.text("operationState") != "ROLLED_BACK" {
			t.Fatalf("%v: the operation is %s: %v", words, op.text("operationState"), op["error"])
		}
		b.says(op, words...)
		b.unchanged(before, true)
		b.versions(id, 1)
	}
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
}

func TestOfTwoUpgradesAtOnceTheRequestIsRefusedAndTheCommitWaitsItsTurn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2), standard(3))
	id, file, d := b.pushed(b.vnfdID(1), "supersede: never\n")
	b.upgraded(d, file, 1, 2)
	b.unplaced()
	a := b.rest(t, http.MethodPost, instances+"/"+id+"/change_vnfpkg", b.changing(3, "RollingUpdate"))
	if a.Status != http.StatusConflict {
		t.Errorf("a second request is answered with %d: %s", a.Status, a.Body)
	}
	b.must(t, 409, "PATCH", instances+"/"+id, object{"vnfdId": b.vnfdID(3)}, "Content-Type", "application/merge-patch+json")
	b.upgraded(d, file, 2, 3)
	kit.Stays(t, quiet, func() error {
		if n := b.running(3); n > 0 {
			return fmt.Errorf("%d pods of the release that has to wait", n)
		}
		return b.counted(id, 2)
	})
	b.placing(func() error {
		if now := b.history(t, id)[1].text("operationState"); now != "COMPLETED" {
			return fmt.Errorf("the first upgrade is %s", now)
		}
		return nil
	})
	b.outcome(id, 2, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(3)
	b.versions(id, 3)
	b.sameVNFCs(id)
}

func TestRequestsToChangeThePackageAreValidated(t *testing.T) {
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id := b.runs(b.vnfdID(1))
	idle := b.create(b.vnfdID(1))
	changed := func(change func(body, params object)) object {
		body := b.changing(2, "RollingUpdate")
		change(body, body["additionalParams"].(object))
		return body
	}
	b.unmoved(id, func() {
		for _, tt := range []struct {
			status   int
			instance string
			body     object
			says     string
		}{
			{404, "nobody", b.changing(2, "RollingUpdate"), "nobody"},
			{409, idle, b.changing(2, "RollingUpdate"), "NOT_INSTANTIATED"},
			{400, id, object{"additionalParams": object{"upgrade_type": "RollingUpdate"}}, "vnfdId"},
			{400, id, changed(func(body, _ object) { body["vnfdId"] = 7 }), "vnfdId"},
			{400, id, changed(func(body, _ object) { body["surplus"] = true }), "surplus"},
			{400, id, changed(func(_, p object) { p["upgrade_type"] = "Canary" }), "upgrade_type"},
			{400, id, changed(func(_, p object) { p["lcm-kubernetes-def-files"] = []string{"Files/none.yaml"} }), "Files/none.yaml"},
			{400, id, changed(func(_, p object) { p["lcm-kubernetes-def-files"] = "Files/kubernetes/all.yaml" }), "lcm-kubernetes-def-files"},
			{400, id, changed(func(_, p object) { p["vdu_params"] = []object{{"vdu_id": "NOBODY"}} }), "NOBODY"},
			{422, id, changed(func(_, p object) { p["lcm-operation-coordinate-new-vnf"] = "Scripts/none.sh" }), "Scripts/none.sh"},
			{422, id, changed(func(body, _ object) {
				body["extVirtualLinks"] = []object{{"id": "l", "resourceId": "r", "extCps": []object{}}}
			}), "extVirtualLinks"},
			{422, id, changed(func(body, _ object) {
				body["extManagedVirtualLinks"] = []object{{"id": "l", "vnfVirtualLinkDescId": "d", "resourceId": "r"}}
			}), "extManagedVirtualLinks"},
		} {
			a := b.rest(t, "POST", instances+"/"+tt.instance+"/change_vnfpkg", tt.body)
			if a.Status != tt.status || !strings.Contains(a.object(t).text("detail"), tt.says) {
				t.Errorf("%v: %d %s, want %d and %q", tt.body, a.Status, a.Body, tt.status, tt.says)
			}
		}
	})
}

func TestAScriptOfAPackageThatMayRunNoneIsRefusedBeforeAnythingMoves(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual) // whose repository doesn't allow hooks
	second := standard(2)
	second.files = map[string]string{"Scripts/new.sh": "#!/bin/sh\nexit 0\n"}
	b.publish(standard(1), second)
	id, file, _ := b.pushed(b.vnfdID(1), "")
	b.barred(id, file, 2, 422, b.changing(2, "RollingUpdate", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"),
		"update: {coordinate: {new: Scripts/new.sh}}\n", "Scripts/new.sh", "hooks: true")
	// Without the script it can be done.
	b.server.run(t, id, "change_vnfpkg", b.changing(2, "RollingUpdate"))
}
