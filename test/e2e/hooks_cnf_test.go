package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// allHooks are the names in the Vnflcm interface of what these tests do.
var allHooks = []string{"instantiate", "scale", "heal", "change_current_package", "modify_information", "terminate"}

// diary is where the hooks of a package write what they are given.
type diary struct {
	b   *bench
	dir string
}

// diary makes one, and the hooks of a package that keep it: a program of Jibe's contract, and
// a script of the older one that only has a class.
func (b *bench) diary() (d *diary, program, class string) {
	b.Helper()
	// Not t.TempDir, whose parent nobody else may enter: hooks run as another user.
	dir, err := os.MkdirTemp("", "jibe-diary-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		b.Fatal(err)
	}
	program = fmt.Sprintf(`#!/bin/sh
# Keeps what it is given, and fails where the test has said so.
n=1
while ! mkdir %[1]s/$JIBE_HOOK.$n 2>/dev/null; do
  n=$((n+1))
  [ $n -lt 50 ] || { echo "no room in %[1]s" >&2; exit 9; }
done
cat > %[1]s/$JIBE_HOOK.$n/input.json
[ ! -e %[1]s/$JIBE_HOOK.fails ] || { echo "the test has said so" >&2; exit 3; }
`, dir)
	var methods strings.Builder
	for _, base := range allHooks {
		for _, when := range []string{"start", "end"} {
			fmt.Fprintf(&methods, "    def %s_%s(self):\n        self._keep('%[1]s_%[2]s')\n\n", base, when)
		}
	}
	class = fmt.Sprintf(`# A management driver of the older contract without an entry point.
import json
import os


class Diary(object):

    def __init__(self, req, inst, grant_req, grant, csar_dir):
        self.all = {'request': req, 'vnf_instance': inst, 'grant_request': grant_req, 'grant_response': grant}

    def _keep(self, hook):
        n = 1
        while True:
            try:
                os.mkdir('%[1]s/%%s.%%d' %% (hook, n))
                break
            except FileExistsError:
                n += 1
        with open('%[1]s/%%s.%%d/input.json' %% (hook, n), 'w') as f:
            json.dump(self.all, f)

%[2]s`, dir, methods.String())
	return &diary{b, dir}, program, class
}

// run is what the hook was given in its n-th run (from 1).
func (d *diary) run(hook string, n int) object {
	d.b.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, fmt.Sprintf("%s.%d", hook, n), "input.json"))
	if err != nil {
		d.b.Fatalf("%s never ran for the %d. time: %v", hook, n, err)
	}
	var input object
	if err := json.Unmarshal(text, &input); err != nil {
		d.b.Fatalf("%s: %v: %s", hook, err, text)
	}
	return input
}

// runs are the hooks that ran, in order of their names ("scale_end.1").
func (d *diary) runs() (list []string) {
	d.b.Helper()
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		d.b.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, e.Name())
		}
	}
	return list
}

// driven is a release of three kinds of pods whose every hook is the file.
func driven(n int, file, text string) release {
	r := release{n: n, files: map[string]string{file: text}, vdus: []vdu{
		{kind: "Deployment", name: "web", initial: 2},
		{kind: "StatefulSet", name: "store", initial: 2, more: "serviceName: store, "},
		{kind: "Pod", name: "probe", initial: 1},
	}}
	r.vnfd = func(vnfd string) string {
		var hooks strings.Builder
		for _, base := range allHooks {
			sides := []string{"start", "end"}
			if strings.HasSuffix(file, ".sh") {
				sides = append(sides, "rollback_start", "rollback_end")
			}
			for _, side := range sides {
				fmt.Fprintf(&hooks, "\n          %s_%s: {implementation: ../%s}", base, side, file)
			}
		}
		return strings.Replace(vnfd, "        vnfm_info: [jibe]\n", "        vnfm_info: [jibe]\n      interfaces:\n        Vnflcm:"+hooks.String()+"\n", 1)
	}
	return r
}

// targets are the names of the pods in a list of the input ("added").
func targets(input object, list string) []string {
	names := []string{}
	for _, t := range input.list(list) {
		names = append(names, t.text("unit", "name"))
	}
	slices.Sort(names)
	return names
}

// pending are the entries of a list of what is pending, as "VDU count[ at most][ by vim]".
func pending(input object, list string) []string {
	out := []string{}
	for _, p := range input.list("pending", list) {
		line := fmt.Sprintf("%s %v", p.text("vduId"), p["count"])
		if p["atMost"] == true {
			line += " at most"
		}
		if by := p.text("chosenBy"); by != "" {
			line += " by " + by
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// granted are the VDUs in a list of the grant, once for each unit.
func granted(input object, grant, list, vdu string) []string {
	out := []string{}
	for _, u := range input.list(grant, list) {
		out = append(out, u.text(vdu))
	}
	slices.Sort(out)
	return out
}

// told compares what the hook was given with what it should have been.
func (b *bench) told(what string, got, want []string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

// names are those of the live pods.
func (b *bench) names(app string) (list []string) {
	b.Helper()
	list = []string{}
	for name, p := range b.pods() {
		if app == "" || p.Labels["app"] == app {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func TestEveryHookOfACNFIsToldWhichPodsComeAndGoAndWhereKubernetesChooses(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newUnconfinedStage(t)
	d, program, _ := b.diary()
	b.publish(driven(1, "Scripts/record.sh", program), driven(2, "Scripts/record.sh", program))
	none := []string{}

	id := b.runs(b.vnfdID(1))
	start, end := d.run("instantiate_start", 1), d.run("instantiate_end", 1)
	b.told("pending at instantiate_start", pending(start, "added"), []string{"PROBE 1", "STORE 2", "WEB 2"})
	b.told("granted at instantiate_start", granted(start, "grant", "addResources", "vduId"), []string{"PROBE", "STORE", "STORE", "WEB", "WEB"})
	b.told("added at instantiate_start", targets(start, "added"), none)
	b.told("added at instantiate_end", targets(end, "added"), b.names(""))
	b.told("pending at instantiate_end", pending(end, "added"), none)

	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	start, end = d.run("scale_start", 1), d.run("scale_end", 1)
	b.told("pending as web grows", pending(start, "added"), []string{"WEB 1"})
	b.told("granted as web grows", granted(start, "grant", "addResources", "vduId"), []string{"WEB"})
	b.told("granted to go as web grows", granted(start, "grant", "removeResources", "vduId"), none)
	if got := targets(end, "added"); len(got) != 1 || !slices.Contains(b.names("web"), got[0]) {
		t.Errorf("added as web has grown: %q", got)
	}

	before := b.names("web")
	b.server.run(t, id, "scale", scale("SCALE_IN", "web_aspect", 1))
	start, end = d.run("scale_start", 2), d.run("scale_end", 2)
	b.told("removed as web shrinks", targets(start, "removed"), none)
	b.told("pending as web shrinks", pending(start, "removed"), []string{"WEB 1 by vim"})
	b.told("granted as web shrinks", granted(start, "grant", "removeResources", "vduId"), []string{"WEB"})
	b.told("removed as web has shrunk", targets(end, "removed"), slices.DeleteFunc(before, func(name string) bool { return slices.Contains(b.names("web"), name) }))

	b.server.run(t, id, "scale", scale("SCALE_OUT", "store_aspect", 2))
	b.server.run(t, id, "scale", scale("SCALE_IN", "store_aspect", 1))
	start, end = d.run("scale_start", 4), d.run("scale_end", 4)
	b.told("removed as store shrinks", targets(start, "removed"), []string{"store-3"})
	b.told("pending as store shrinks", pending(start, "removed"), none)
	b.told("granted as store shrinks", granted(start, "grant", "removeResources", "vduId"), []string{"STORE"})
	b.told("removed as store has shrunk", targets(end, "removed"), []string{"store-3"})

	web, probe := b.vnfcs(id, "WEB")[0], b.vnfcs(id, "PROBE")[0]
	b.server.run(t, id, "heal", chosen(web.uid, probe.uid))
	start, end = d.run("heal_start", 1), d.run("heal_end", 1)
	healed := slices.Sorted(slices.Values([]string{web.pod, probe.pod}))
	b.told("removed as pods are healed", targets(start, "removed"), healed)
	b.told("pending as pods are healed", pending(start, "added"), []string{"PROBE 1", "WEB 1"})
	b.told("granted as pods are healed", granted(start, "grant", "addResources", "vduId"), []string{"PROBE", "WEB"})
	b.told("removed as pods were healed", targets(end, "removed"), healed)
	if got := targets(end, "added"); len(got) != 2 {
		t.Errorf("added as pods were healed: %q", got)
	}

	b.server.run(t, id, "change_vnfpkg", b.changing(2, "RollingUpdate"))
	start, end = d.run("change_current_package_start", 1), d.run("change_current_package_end", 1)
	b.told("pending as the package changes", pending(start, "removed"), []string{"STORE 3 at most by vim", "WEB 2 at most by vim"})
	uids := func(list string) (ids []string) {
		for _, x := range end.list(list) {
			ids = append(ids, x.text("vduId"))
		}
		slices.Sort(ids)
		return ids
	}
	b.told("removed as the package has changed", uids("removed"), []string{"STORE", "STORE", "STORE", "WEB", "WEB"})
	b.told("added as the package has changed", uids("added"), []string{"STORE", "STORE", "STORE", "WEB", "WEB"})

	if err := os.WriteFile(filepath.Join(d.dir, "scale_end.fails"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	start, end = d.run("scale_rollback_start", 1), d.run("scale_rollback_end", 1)
	come := targets(d.run("scale_end", 5), "added")
	b.told("added as the scaling is taken back", targets(start, "added"), come)
	// Which of three pods of about the same age goes is Kubernetes' to say.
	left := slices.DeleteFunc(targets(end, "added"), func(name string) bool { return slices.Contains(come, name) && slices.Contains(b.names(""), name) })
	if start["isRollback"] != true || start["pending"] != nil || len(come) != 1 || len(left) != 0 {
		t.Errorf("a rollback is told %v, pending %v, and at its end %q are left", start["isRollback"], start["pending"], left)
	}

	before = b.names("")
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	start, end = d.run("terminate_start", 1), d.run("terminate_end", 1)
	b.told("removed as all goes", targets(start, "removed"), before)
	b.told("granted as all goes", granted(start, "grant", "removeResources", "vduId"), []string{"PROBE", "STORE", "STORE", "STORE", "WEB", "WEB"})
	b.told("removed as all is gone", targets(end, "removed"), before)
	b.told("what ran", d.runs(), []string{
		"change_current_package_end.1", "change_current_package_start.1", "heal_end.1", "heal_start.1", "instantiate_end.1", "instantiate_start.1",
		"scale_end.1", "scale_end.2", "scale_end.3", "scale_end.4", "scale_end.5", "scale_rollback_end.1", "scale_rollback_start.1",
		"scale_start.1", "scale_start.2", "scale_start.3", "scale_start.4", "scale_start.5", "terminate_end.1", "terminate_start.1"})
}

func TestADriverOfTheOlderContractThatOnlyHasAClassServesACNF(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newUnconfinedStage(t)
	d, _, class := b.diary()
	b.publish(driven(1, "Scripts/driver.py", class))
	id := b.runs(b.vnfdID(1))
	// The number of pods is what there is, and what comes and goes.
	total := func(hook string, n int, vdu string) (now, then int) {
		in := d.run(hook, n)
		for _, v := range in.list("vnf_instance", "instantiatedVnfInfo", "vnfcResourceInfo") {
			if v.text("vduId") == vdu {
				now++
			}
		}
		count := func(list string) (n int) {
			return len(slices.DeleteFunc(granted(in, "grant_request", list, "resourceTemplateId"), func(x string) bool { return x != vdu }))
		}
		return now, now + count("addResources") - count("removeResources")
	}
	check := func(hook string, n int, vdu string, was, will int) {
		t.Helper()
		if now, then := total(hook, n, vdu); now != was || then != will {
			t.Errorf("%s is told of %d pods of %s that become %d, want %d and %d", hook, now, vdu, then, was, will)
		}
	}
	check("instantiate_start", 1, "WEB", 0, 2)
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 2))
	check("scale_start", 1, "WEB", 2, 4)
	b.server.run(t, id, "scale", scale("SCALE_IN", "web_aspect", 1))
	check("scale_start", 2, "WEB", 4, 3)
	for _, u := range d.run("scale_start", 2).list("grant_request", "removeResources") {
		if u["resource"] != nil || u.text("type") != "COMPUTE" || u.text("id") == "" {
			t.Errorf("a pod that Kubernetes is to choose is %v", u)
		}
	}
	b.server.run(t, id, "scale", scale("SCALE_OUT", "store_aspect", 1))
	b.server.run(t, id, "scale", scale("SCALE_IN", "store_aspect", 1))
	check("scale_start", 4, "STORE", 3, 2)
	if got := d.run("scale_start", 4).list("grant_request", "removeResources"); len(got) != 1 || got[0].text("resource", "resourceId") != "store-2" {
		t.Errorf("granted to go: %v", got)
	}
	web := b.vnfcs(id, "WEB")[0]
	b.server.run(t, id, "heal", chosen(web.uid))
	check("heal_start", 1, "WEB", 3, 3)
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	check("terminate_start", 1, "WEB", 3, 0)
	if n := len(d.runs()); n != 14 {
		t.Errorf("%d hooks ran: %q", n, d.runs())
	}
}

func TestAHookThatWouldDoNothingIsRefusedBeforeAnythingMoves(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(driven(1, "Scripts/driver.py", "class Driver:\n    def instantiate_end(self):\n        pass\n"),
		driven(2, "Scripts/container_update_mgmt_v2.py", "import pickle\nfrom tacker.common import exceptions\nexceptions.main()\n"))
	for n, words := range map[int][]string{
		1: {"Scripts/driver.py (instantiate_start)", "has no class with a method instantiate_start", "hooks: skip in vnf.yaml"},
		2: {"Scripts/container_update_mgmt_v2.py (instantiate_end)", "imports tacker", "it isn't the container update that Jibe does by itself"},
	} {
		id := b.create(b.vnfdID(n))
		a := b.rest(t, "POST", instances+"/"+id+"/instantiate", b.request())
		detail := a.object(t).text("detail")
		for _, w := range words {
			if a.Status != 422 || !strings.Contains(detail, w) {
				t.Errorf("release %d: %d, the answer doesn't say %q: %s", n, a.Status, w, detail)
			}
		}
		if got := len(b.history(t, id)); got != 0 {
			t.Errorf("release %d: there are %d operations", n, got)
		}
	}
}

func TestAChangedContainerUpdateIsRunAndNotTakenForTheBuiltInOne(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newUnconfinedStage(t)
	d, _, class := b.diary()
	b.publish(driven(1, "Scripts/container_update_mgmt_v2.py", class))
	id := b.runs(b.vnfdID(1))
	a := b.must(t, 202, "PATCH", instances+"/"+id, object{"vnfInstanceDescription": "with a driver of its own"}, "Content-Type", "application/merge-patch+json")
	b.await(t, strings.TrimPrefix(a.Header.Get("Location"), b.url), "COMPLETED")
	if in := d.run("modify_information_end", 1); in.text("request", "vnfInstanceDescription") != "with a driver of its own" || in["grant_request"] != nil {
		t.Errorf("the script was given %v", in)
	}
	b.told("what ran", d.runs(), []string{"instantiate_end.1", "instantiate_start.1", "modify_information_end.1", "modify_information_start.1"})
}

func TestTheCoordinationScriptThatOnlyHasAClassIsCalledForEachNewPod(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newUnconfinedStage(t)
	d, _, _ := b.diary()
	second := standard(2)
	second.files = map[string]string{"Scripts/coordinate_new_vnf.py": fmt.Sprintf(`import os


class CoordinateNewVnf(object):

    def __init__(self, vnfc_param):
        self.vnfc_param = vnfc_param

    def coordinate_vnf(self):
        p = self.vnfc_param
        os.mkdir('%s/%%s %%s %%s' %% (p['vnfc_info_id'], p['ssh_ip'], p['k8s_info']['namespace']))
`, d.dir)}
	b.publish(standard(1), second)
	id := b.runs(b.vnfdID(1))
	asked := []any{"lcm-operation-coordinate-new-vnf", "Scripts/coordinate_new_vnf.py", "vdu_params", []object{{"vdu_id": "WEB"}}}
	a := b.rest(t, "POST", instances+"/"+id+"/change_vnfpkg", b.changing(2, "RollingUpdate", asked...))
	if detail := a.object(t).text("detail"); a.Status != 422 || !strings.Contains(detail, "name one (lcm-operation-coordinate-new-vnf-class)") {
		t.Errorf("without a class: %d %s", a.Status, detail)
	}
	b.server.run(t, id, "change_vnfpkg", b.changing(2, "RollingUpdate", append(asked, "lcm-operation-coordinate-new-vnf-class", "CoordinateNewVnf")...))
	want := []string{}
	for name, p := range b.pods() {
		if p.Labels["app"] == "web" {
			want = append(want, fmt.Sprintf("WEB-%s %s %s", name, p.Status.PodIP, b.namespace))
		}
	}
	slices.Sort(want)
	b.told("whom the class was called for", d.runs(), want)
}

func TestADriverOfClustersThatNeedsAnotherVNFMIsDoneByJibesOwnAndTheStorySaysSo(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(driven(1, "Scripts/kubernetes_mgmt.py", "from tacker.vnfm.mgmt_drivers import vnflcm_abstract_driver\n\n\nclass KubernetesMgmtDriver(vnflcm_abstract_driver.VnflcmMgmtAbstractDriver):\n    pass\n"))
	id := b.create(b.vnfdID(1))
	a := b.rest(t, "POST", instances+"/"+id+"/instantiate", b.request())
	if detail := a.object(t).text("detail"); a.Status != 422 || !strings.Contains(detail, "takes its place where the instance has the parameter that it knows: params.k8s_cluster_installation_param is missing") {
		t.Errorf("without the parameter: %d %s", a.Status, detail)
	}
	body := b.request()
	node := object{"aspect_id": "web_aspect", "ssh_cp_name": "CP1", "nic_cp_name": "CP1", "username": "ubuntu", "password": "ubuntu"}
	body["additionalParams"].(object)["k8s_cluster_installation_param"] = object{"script_path": "Scripts/not-there.sh", "master_node": node, "worker_node": node}
	path := b.begin(t, id, "instantiate", body)
	op := b.await(t, path, "FAILED_TEMP")
	// A complaint that only the driver itself has: these are no machines.
	if detail := op.text("error", "detail"); !strings.Contains(detail, "not-there.sh") && !strings.Contains(detail, "k8s_cluster_installation_param") {
		t.Errorf("the error is %q", detail)
	}
	story, _, code := b.cli(t, "get", "operation", op.text("id"))
	if want := "instantiate_start: jibe driver kubernetes-cluster in the place of Scripts/kubernetes_mgmt.py, which needs the tacker of another VNFM"; code != 0 || !strings.Contains(story, want) {
		t.Errorf("%d: the story doesn't say %q:\n%s", code, want, story)
	}
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
}
