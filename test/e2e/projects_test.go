package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// hostile are packages that bring what a project doesn't allow unless it says so, by what they
// bring.
var hostile = map[string]struct {
	vnfd   string
	pod    string // more of the pod's spec, a line
	beside string
	// elsewhere is the namespace that its objects name, which counts where the instance names none.
	elsewhere string
	words     []string // what a refusal says
	allow     string   // what of the project's file allows it; "" can't be allowed
}{
	"cluster rights": {vnfd: "e2e00000-0000-4000-8000-0000000000a1",
		beside: "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NAMESPACE}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: default, namespace: NAMESPACE}]}\n",
		words:  []string{"ClusterRoleBinding", "(kind)"}, allow: "kinds: {clusterScoped: [Namespace, ClusterRoleBinding]}\n"},
	"a folder of the host": {vnfd: "e2e00000-0000-4000-8000-0000000000a2", pod: "volumes: [{name: h, hostPath: {path: /}}], ",
		words: []string{"web", "hostPath", "(podSecurity)"}, allow: "podSecurity: privileged\n"},
	"the network of the host": {vnfd: "e2e00000-0000-4000-8000-0000000000a3", pod: "hostNetwork: true, ",
		words: []string{"web", "host", "(podSecurity)"}, allow: "podSecurity: privileged\n"},
	"the processes of the host": {vnfd: "e2e00000-0000-4000-8000-0000000000a4", pod: "hostPID: true, ",
		words: []string{"web", "host", "(podSecurity)"}, allow: "podSecurity: privileged\n"},
	"the namespace of Kubernetes": {vnfd: "e2e00000-0000-4000-8000-0000000000a5",
		beside: "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: intruder}}\n", elsewhere: "kube-system",
		words: []string{"intruder", "kube-system", "(namespace)"}},
	"a namespace of others": {vnfd: "e2e00000-0000-4000-8000-0000000000a6",
		beside: "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: intruder}}\n", elsewhere: "e2e-of-others",
		words: []string{"intruder", "e2e-of-others", "(namespace)"}},
}

// projectBench is a server with two projects, the hostile packages and a harmless one. mine
// has the namespace of the bench and what more of its file says.
type projectBench struct{ *bench }

func (b projectBench) mine(more string) map[string]string {
	return map[string]string{"projects/mine.yaml": fmt.Sprintf("instances: [mine]\nvims: [local]\nnamespaces: [%s]\nrepositories: [packages]\n%s", b.namespace, more)}
}

func newProjectBench(t *testing.T, args ...string) projectBench {
	t.Helper()
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"), args...)
	return projectBench{benchAt(t, s, kubeenv.RestConfig(t), kubeconfig)}
}

// files are those of the desired repository but for instances.
func (b projectBench) files(kubeconfig string) map[string]string {
	b.Helper()
	vim := "type: kubernetes\nkubeconfig: file:" + kubeconfig + "\n"
	vim, err := process.Keep(b.data, vim)
	if err != nil {
		b.Fatal(err)
	}
	files := map[string]string{
		"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n- name: foreign\n  url: foreign.git\n  branch: main\n",
		"vims/local.yaml":   vim + "default: true\n", "vims/others.yaml": vim,
		"projects/others.yaml": "instances: [others]\nvims: [others, local]\nnamespaces: [e2e-of-others]\nrepositories: [foreign]\n",
	}
	maps.Copy(files, b.mine(""))
	return files
}

// foreign is the package that only the other project's repository has.
const foreign = "e2e00000-0000-4000-8000-0000000000b1"

// publishHostile pushes all packages.
func (b projectBench) publishHostile() {
	b.Helper()
	if out, err := process.Git(b.Context(), b.data, "init", "--quiet", "--bare", "--initial-branch=main", filepath.Join(b.data, "packages/foreign.git")); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	lay := func(d *process.WorkTree, id, pod, objects, namespace string) {
		if err := writePackage(d.Dir(), id, []vdu{{kind: "Deployment", name: "web", initial: 1, pod: pod}}); err != nil {
			b.Fatal(err)
		}
		file := id + "/Files/kubernetes/all.yaml"
		text := d.Read(file) + strings.ReplaceAll(objects, "NAMESPACE", b.namespace)
		if namespace != "" {
			text = strings.ReplaceAll(text, "metadata: {name: ", "metadata: {namespace: "+namespace+", name: ")
		}
		d.Write(file, text)
		if err := os.Remove(filepath.Join(d.Dir(), id, "Files/kubernetes/none.yaml")); err != nil {
			b.Fatal(err)
		}
	}
	d := b.clone(b.T, "packages/packages.git")
	lay(d, plain, "", "", "")
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		h := hostile[name]
		lay(d, h.vnfd, h.pod, h.beside, h.elsewhere)
	}
	d.Push("Publish")
	d = b.clone(b.T, "packages/foreign.git")
	lay(d, foreign, "", "", "")
	d.Push("Publish")
}

// known waits until the server knows all packages.
func (b projectBench) known() {
	b.Helper()
	all := []string{plain, foreign}
	for _, h := range hostile {
		all = append(all, h.vnfd)
	}
	b.process.AwaitPackages(b, all...)
}

// text is the file of an instance of the package in the namespace.
func (b projectBench) text(vnfd, state, more string) string {
	return fmt.Sprintf("vnfdId: %s\nstate: %s\nflavour: simple\nparams: {namespace: %s, lcm-kubernetes-def-files: [Files/kubernetes/all.yaml]}\n%s", vnfd, state, b.namespace, more)
}

// attempts are what the project may not do, by what that is, as files of instances.
func (b projectBench) attempts(state string) map[string]attemptOut {
	all := map[string]attemptOut{
		"a VIM of others":        {text: b.text(plain, state, "vim: others\n"), words: []string{"project mine may not use VIM others", "projects/mine.yaml"}},
		"a repository of others": {text: b.text(foreign, state, ""), words: []string{"project mine may not run package", "foreign", "projects/mine.yaml"}},
		"a namespace by parameter": {text: strings.Replace(b.text(plain, state, ""), "namespace: "+b.namespace, "namespace: e2e-of-others", 1),
			words: []string{"Files/kubernetes/all.yaml", "e2e-of-others", "(namespace)", "project mine"}},
	}
	for name, h := range hostile {
		text := b.text(h.vnfd, state, "")
		if h.elsewhere != "" {
			text = strings.Replace(text, "namespace: "+b.namespace+", ", "", 1)
		}
		all[name] = attemptOut{text: text, words: append([]string{"project mine", "Files/kubernetes/all.yaml"}, h.words...)}
	}
	return all
}

type attemptOut struct {
	text  string
	words []string
}

func (b projectBench) saysAll(what, said string, words []string) {
	b.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			b.Errorf("%s: it doesn't say %q: %s", what, w, said)
		}
	}
}

// untouched fails where anything of a hostile package is at the cluster.
func (b projectBench) untouched() {
	b.Helper()
	if len(b.pods()) > 0 {
		b.Errorf("pods: %v", b.pods())
	}
	if _, err := b.api.CoreV1().ConfigMaps("kube-system").Get(b.Context(), "intruder", metav1.GetOptions{}); err == nil {
		b.Error("an object stands in kube-system")
	}
	if _, err := b.api.RbacV1().ClusterRoleBindings().Get(b.Context(), b.namespace, metav1.GetOptions{}); err == nil {
		b.Error("a ClusterRoleBinding stands")
	}
}

func TestWhatAProjectDoesNotAllowIsRefusedByPushAndByRequestWithFileObjectRuleAndProject(t *testing.T) {
	b := newProjectBench(t)
	b.publishHostile()
	b.clone(b.T, "desired.git").PushFiles(b.files(kubeenv.Kubeconfig(t)))
	b.known()
	for name, x := range b.attempts("instantiated") {
		d := b.clone(b.T, "desired.git")
		d.Write("instances/mine/x/vnf.yaml", x.text)
		d.Commit("Try")
		out, err := d.TryPush()
		if err == nil {
			t.Errorf("%s is pushed:\n%s", name, out)
		}
		b.saysAll(name+", pushed", out, append(x.words, "instances/mine/x/vnf.yaml:"))
		validated, errs, code := b.cli(t, "validate", d.Dir())
		if code != 1 {
			t.Errorf("%s: jibe validate ends with %d", name, code)
		}
		b.saysAll(name+", validated", validated+errs, x.words)
	}
	// A VNF that isn't instantiated brings nothing, until somebody asks for it.
	files := map[string]string{}
	for name, x := range b.attempts("notInstantiated") {
		files["instances/mine/"+strings.ReplaceAll(name, " ", "-")+"/vnf.yaml"] = "name: " + strings.ReplaceAll(name, " ", "-") + "\n" + x.text
	}
	b.clone(b.T, "desired.git").PushFiles(files)
	for name, x := range b.attempts("notInstantiated") {
		id := b.idOf(strings.ReplaceAll(name, " ", "-"))
		body := b.request()
		if hostile[name].elsewhere != "" {
			delete(body["additionalParams"].(object), "namespace")
		}
		if name == "a namespace by parameter" {
			body["additionalParams"].(object)["namespace"] = "e2e-of-others"
		}
		a := b.rest(b.T, "POST", instances+"/"+id+"/instantiate", body)
		if a.Status != 400 && a.Status != 422 {
			t.Errorf("%s: the request is answered with %d: %s", name, a.Status, a.Body)
		}
		b.saysAll(name+", requested", a.object(b.T).text("detail"), x.words)
	}
	b.untouched()

	// What the project's file allows then runs; what nobody can allow doesn't.
	for _, name := range []string{"cluster rights", "a folder of the host"} {
		b.clone(b.T, "desired.git").PushFiles(b.mine(hostile[name].allow))
		id := b.idOf(strings.ReplaceAll(name, " ", "-"))
		b.await(b.T, b.begin(b.T, id, "instantiate", b.request()), "COMPLETED")
		b.await(b.T, b.begin(b.T, id, "terminate", object{"terminationType": "FORCEFUL"}), "COMPLETED")
	}
	b.clone(b.T, "desired.git").PushFiles(b.mine("kinds: {namespaced: ['*'], clusterScoped: ['*']}\npodSecurity: privileged\n"))
	id := b.idOf("the-namespace-of-Kubernetes")
	body := b.request()
	delete(body["additionalParams"].(object), "namespace")
	if a := b.rest(b.T, "POST", instances+"/"+id+"/instantiate", body); a.Status != 400 {
		t.Errorf("kube-system: %d %s", a.Status, a.Body)
	}
}

func TestWhatAProjectDoesNotAllowIsNotObeyedWhereAForgeHasMergedIt(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	kubeconfig := kubeenv.Kubeconfig(t)
	forge := process.NewForge(t, map[string]string{"repositories.yaml": "[]\n", "vims/local.yaml": "type: sim\n"})
	b := newProjectBench(t, "--remote", "file://"+forge, "--poll", "1s")
	b.publishHostile()
	work := process.NewWorkTree(t, forge)
	files := b.files(kubeconfig)
	files["instances/mine/good/vnf.yaml"] = "name: good\n" + b.text(plain, "instantiated", "")
	work.PushFiles(files)
	b.known()
	b.awaitHistory(b.idOf("good"), "INSTANTIATE COMPLETED")
	before := b.pods()

	merged := map[string]string{}
	for name, x := range b.attempts("instantiated") {
		merged["instances/mine/"+strings.ReplaceAll(name, " ", "-")+"/vnf.yaml"] = x.text
	}
	work.Pull()
	merged["instances/mine/good/vnf.yaml"] = strings.Replace(work.Read("instances/mine/good/vnf.yaml"), "namespace: "+b.namespace, "namespace: e2e-of-others", 1)
	work.PushFiles(merged)
	kit.Eventually(t, func() error {
		var list []struct{ File, Message string }
		if err := json.Unmarshal(b.must(t, 200, "GET", "/jibe/v1/problems", nil).Body, &list); err != nil {
			return err
		}
		said := map[string]string{}
		for _, p := range list {
			said[p.File] += p.Message
		}
		for name, x := range b.attempts("instantiated") {
			file := "instances/mine/" + strings.ReplaceAll(name, " ", "-") + "/vnf.yaml"
			for _, w := range x.words {
				if !strings.Contains(said[file], w) {
					return fmt.Errorf("%s doesn't say %q: %q", file, w, said[file])
				}
			}
		}
		if !strings.Contains(said["instances/mine/good/vnf.yaml"], "e2e-of-others") {
			return fmt.Errorf("what runs and would leave its namespace: %v", said)
		}
		return nil
	})
	if after := b.pods(); !slices.Equal(slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before))) {
		t.Errorf("the last good revision doesn't stand: %v, %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	if _, err := b.api.RbacV1().ClusterRoleBindings().Get(b.Context(), b.namespace, metav1.GetOptions{}); err == nil {
		t.Error("a ClusterRoleBinding stands")
	}
	// Allowed afterwards, it begins by itself. What runs has an object of the same name, and goes.
	allowed := b.mine(hostile["cluster rights"].allow)
	allowed["instances/mine/good/vnf.yaml"] = ""
	work.PushFiles(allowed)
	kit.Eventually(t, func() error {
		_, err := b.api.RbacV1().ClusterRoleBindings().Get(b.Context(), b.namespace, metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() {
		_ = b.api.RbacV1().ClusterRoleBindings().Delete(b.background(), b.namespace, metav1.DeleteOptions{})
	})
}

func TestWhatRunsIsLookedAfterWhenItsProjectNoLongerAllowsItAndNothingElseIsMadeOfIt(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newProjectBench(t)
	b.publishHostile()
	files := b.files(kubeenv.Kubeconfig(t))
	maps.Copy(files, b.mine("podSecurity: privileged\n"))
	b.clone(b.T, "desired.git").PushFiles(files)
	b.known()
	h := hostile["the network of the host"]
	file := "instances/mine/bold/vnf.yaml"
	b.clone(b.T, "desired.git").PushFiles(map[string]string{file: "name: bold\n" + b.text(h.vnfd, "instantiated", "")})
	id := b.idOf("bold")
	b.awaitHistory(id, "INSTANTIATE COMPLETED")

	// Whoever tightens the project is warned, and it is shown from then on.
	d := b.clone(b.T, "desired.git")
	d.WriteFiles(b.mine("quotas: {instances: 1, vnfcs: 2}\n"))
	d.Commit("Tighten")
	out, err := d.TryPush()
	if err != nil {
		t.Fatalf("the project's file is refused: %v\n%s", err, out)
	}
	b.saysAll("the push", out, append(h.words, file, "project mine", "would be refused"))
	kit.Eventually(t, func() error {
		said, _, _ := b.cli(t, "get", "problems")
		for _, w := range append(h.words, file, "it runs, and would be refused by now") {
			if !strings.Contains(said, w) {
				return fmt.Errorf("jibe get problems doesn't say %q: %s", w, said)
			}
		}
		return nil
	})

	b.await(t, b.begin(t, id, "scale", object{"type": "SCALE_OUT", "aspectId": "web_aspect"}), "COMPLETED")
	b.awaitPods(2)
	a := b.rest(t, "POST", instances+"/"+id+"/scale", object{"type": "SCALE_OUT", "aspectId": "web_aspect"})
	if said := a.object(t).text("detail"); a.Status != 409 || !strings.Contains(said, "the quota vnfcs of project mine is 2") {
		t.Errorf("beyond the quota: %d %s", a.Status, said)
	}
	if said, _, _ := b.cli(t, "get", "projects"); !strings.Contains(said, "1/1") || !strings.Contains(said, "2/2") {
		t.Errorf("jibe get projects: %s", said)
	}
	b.remove("Deployment/web") // drift is repaired as ever
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, HEAL COMPLETED")
	b.awaitPods(2)
	b.await(t, b.begin(t, id, "heal", object{"cause": "asked for"}), "COMPLETED")

	d = b.clone(b.T, "desired.git")
	d.Replace(file, "params: {", "params: {more: of-it, ")
	d.Commit("Make it of something else")
	if out, err := d.TryPush(); err == nil {
		t.Errorf("other parameters are accepted:\n%s", out)
	} else {
		b.saysAll("other parameters", out, append(h.words, "project mine"))
	}
	metrics := string(b.must(t, 200, "GET", "/metrics", nil).Body)
	b.saysAll("metrics", metrics, []string{`jibe_project_instances{project="mine"} 1`, `jibe_project_vnfcs{project="mine"} 2`})
	b.await(t, b.begin(t, id, "terminate", object{"terminationType": "FORCEFUL"}), "COMPLETED")
	b.awaitPods(0)
	if a := b.rest(t, "POST", instances+"/"+id+"/instantiate", b.request()); a.Status != 400 {
		t.Errorf("once it has ended it is judged anew: %d %s", a.Status, a.Body)
	}
}
