package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// The request bodies of the documents that Jibe follows are sent here as they stand there. Of
// some the published text has lost lines, which are filled in. Where an answer differs from
// what a document says, docs/sol-conformance.md says so and why.

// The ids that the documents use.
const (
	documentsVIM     = "b7e657dc-8f16-4c1c-8fa4-a7c298d6a827"
	documentsBefore  = "97018ca2-bf29-4715-9e2b-6e432dd1f414"
	documentsAfter   = "58bcc1c6-1400-46ec-b7fb-e508bf7e00e9"
	documentsNext    = "093c38b5-a731-4593-a578-d12e42596b3e"
	documentsFormer  = "093c38b5-a731-4593-a578-d12e42596b3d" // the one before, which the document doesn't name
	documentsWorkers = "002c38b5-a731-4593-a578-d12e42596b3e"
)

// documents is a server whose VIM and packages have the ids that the documents use.
// Its scripts tell of themselves in a folder that they share with the test, which confined ones
// can't: confinement has its own tests.
var documents = &sharedServer{args: []string{"--allow-hooks", "--unconfined-hooks", "--hook-timeout", "60s", "--timeout", "90s"}}

var documentsReady sync.Once

func newDocuments(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, documents)
	documentsReady.Do(func() {
		afterwards(documents.close)
		b.permit()
		d := b.clone(t, "desired.git")
		d.Replace("vims/local.yaml", "id: the-cluster", "id: "+documentsVIM)
		d.Push("Give the VIM the id that the documents use")
	})
	return b
}

// sent posts the body as it stands, and returns the path of the operation that began. The
// answer is what all documents say: 202 with the operation's place and nothing else.
func (b *bench) sent(method, instance, task, body string) string {
	b.Helper()
	a := b.must(b, 202, method, path.Join(instances, instance, task), json.RawMessage(body))
	at := a.Header.Get("Location")
	if len(a.Body) != 0 || !strings.HasPrefix(at, "http") || !strings.Contains(at, operations+"/") {
		b.Errorf("%s: Location is %q, the body %q", task, at, a.Body)
	}
	return path.Join(operations, path.Base(at))
}

// refusedUnless asks for the task on an instance that doesn't exist, and on one that isn't
// instantiated: 404 and 409, as the documents say.
func (b *bench) refusedUnless(idle, task, body string) {
	b.Helper()
	b.must(b, 404, "POST", path.Join(instances, "00000000-0000-4000-8000-000000000000", task), json.RawMessage(body))
	b.must(b, 409, "POST", path.Join(instances, idle, task), json.RawMessage(body))
}

// echoes compares operationParams with the body that was sent.
func echoes(t *testing.T, op object, body string) {
	t.Helper()
	var asked any
	if err := json.Unmarshal([]byte(body), &asked); err != nil {
		t.Fatal(err)
	}
	if got := op["operationParams"]; !reflect.DeepEqual(got, asked) {
		t.Errorf("operationParams are %v, want what was sent: %v", got, asked)
	}
}

// publishAs pushes a package with this vnfdId; change alters its files.
func (b *bench) publishAs(id string, vdus []vdu, change func(d *process.WorkTree)) {
	b.Helper()
	d := b.clone(b.T, "packages/packages.git")
	if err := writePackage(d.Dir(), id, vdus); err != nil {
		b.Fatal(err)
	}
	dir := process.WorkTreeAt(b, filepath.Join(d.Dir(), id))
	if err := os.Remove(filepath.Join(dir.Dir(), "Files/kubernetes/none.yaml")); err != nil {
		b.Fatal(err)
	}
	change(dir)
	d.Push("Publish " + id)
	b.process.AwaitPackages(b, id)
}

func TestTheBodiesOfScaleAndHealInTheDocuments(t *testing.T) {
	b := newDocuments(t)
	b.publishAs(documentsWorkers, []vdu{{kind: "Deployment", name: "worker", initial: 1}}, func(d *process.WorkTree) {
		d.Write("Definitions/vnfd.yaml", strings.ReplaceAll(d.Read("Definitions/vnfd.yaml"), "worker_aspect", "worker_instance"))
	})
	idle, id := b.create(documentsWorkers), b.runs(documentsWorkers)

	for _, body := range []string{ // scaling Kubernetes worker nodes
		`{ "type": "SCALE_OUT", "aspectId": "worker_instance", "numberOfSteps": "1" }`,
		`{ "type": "SCALE_IN", "aspectId": "worker_instance", "numberOfSteps": "1" }`,
		`{ "type": "SCALE_OUT", "aspectId": "worker_instance" }`, // CNF scale: numberOfSteps is 1 where it isn't given
	} {
		b.refusedUnless(idle, "scale", body)
		before := b.level(id, "worker_instance")
		op := b.await(t, b.sent("POST", id, "scale", body), "COMPLETED")
		want, change := before+1, "ADDED WORKER"
		if strings.Contains(body, "SCALE_IN") {
			want, change = before-1, "REMOVED WORKER"
		}
		if now := b.level(id, "worker_instance"); now != want || !slices.Equal(changes(op), []string{change}) {
			t.Errorf("%s: level %d, want %d; affected %v", body, now, want, changes(op))
		}
		if op.text("operation") != "SCALE" || op.text("operationParams", "aspectId") != "worker_instance" {
			t.Errorf("%v", op)
		}
		b.awaitPods(want + 1)
	}

	// CNF heal, pattern A: the VNFCs that the request names, whichever of their ids it gives.
	healed := b.vnfcs(id, "WORKER")
	body := fmt.Sprintf(`{ "vnfcInstanceId": [ %q ] }`, healed[0].info)
	b.refusedUnless(idle, "heal", body)
	op := b.await(t, b.sent("POST", id, "heal", body), "COMPLETED")
	if got := changes(op); !slices.Equal(got, []string{"ADDED WORKER", "REMOVED WORKER"}) {
		t.Errorf("affected %v", got)
	}
	if _, still := b.pods()[healed[0].pod]; still {
		t.Errorf("%s still runs", healed[0].pod)
	}
	if _, still := b.pods()[healed[1].pod]; !still {
		t.Errorf("%s was healed too", healed[1].pod)
	}
	// The id of a pod that is gone: refused, where the document has the operation fail.
	b.must(t, 400, "POST", path.Join(instances, id, "heal"), json.RawMessage(body))

	// Pattern B: all VNFCs, and with it or without it the choice of what else is healed.
	for _, body := range []string{`{}`, `{ "additionalParams": { "all": false } }`, `{ "additionalParams": { "all": true } }`} {
		b.refusedUnless(idle, "heal", body)
		old, deployment := b.workers(), b.read("Deployment/worker").GetUID()
		op := b.await(t, b.sent("POST", id, "heal", body), "COMPLETED")
		echoes(t, op, body)
		if left := len(old) - len(gone(old, b.workers())); left != 0 {
			t.Errorf("%s: %d pods are as before", body, left)
		}
		if anew := b.read("Deployment/worker").GetUID() != deployment; anew == strings.Contains(body, "false") {
			t.Errorf("%s: the Deployment is another one: %t", body, anew)
		}
	}
}

func TestTheBodiesOfTheContainerUpdateInTheDocuments(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newDocuments(t)
	for example, id := range map[string]string{"container-update-before": documentsBefore, "container-update-after": documentsAfter} {
		b.publishExample(example, id)
	}
	a := b.must(t, 201, "POST", instances, json.RawMessage(`{ "vnfdId": "97018ca2-bf29-4715-9e2b-6e432dd1f414" }`))
	made := a.object(t)
	id := made.text("id")
	if a.Header.Get("Location") != made.text("_links", "self", "href") || made.text("instantiationState") != "NOT_INSTANTIATED" ||
		made.text("vnfdId") != documentsBefore || !slices.Equal(linksOf(made), []string{"instantiate", "self"}) || fmt.Sprint(made["vnfConfigurableProperties"]) != "map[]" {
		t.Errorf("%s: %v", a.Header.Get("Location"), made)
	}
	// Of this body the document has lost vimType and the list's lines.
	op := b.await(t, b.sent("POST", id, "instantiate", `{
		"flavourId": "simple",
		"vimConnectionInfo": { "vim1": { "vimId": "b7e657dc-8f16-4c1c-8fa4-a7c298d6a827", "vimType": "ETSINFV.KUBERNETES.V_1" } },
		"additionalParams": { "lcm-kubernetes-def-files": [
			"Files/kubernetes/configmap_1.yaml", "Files/kubernetes/configmap_2.yaml", "Files/kubernetes/daemonset.yaml",
			"Files/kubernetes/deployments.yaml", "Files/kubernetes/pods_1.yaml", "Files/kubernetes/pods_2.yaml",
			"Files/kubernetes/replicaset.yaml", "Files/kubernetes/secret_1.yaml", "Files/kubernetes/secret_2.yaml" ] } }`), "COMPLETED")
	if op.text("operation") != "INSTANTIATE" {
		t.Errorf("%v", op)
	}
	before := map[string]string{}
	for name, p := range b.pods() {
		before[string(p.UID)] = name
	}

	// The document has lost the paths; these are the sample's.
	const body = `{
		"vnfdId": "58bcc1c6-1400-46ec-b7fb-e508bf7e00e9",
		"vnfInstanceName": "modify_vnf_after",
		"metadata": { "configmap_secret_paths": [ "Files/kubernetes/configmap_1.yaml", "Files/kubernetes/secret_1_renewed.yaml" ] } }`
	b.must(t, 404, "PATCH", path.Join(instances, "00000000-0000-4000-8000-000000000000"), json.RawMessage(body))
	op = b.await(t, b.sent("PATCH", id, "", body), "COMPLETED")
	echoes(t, op, body)
	if op.text("operation") != "MODIFY_INFO" {
		t.Errorf("%v", op)
	}
	now := b.show(t, id)
	if now.text("vnfdId") != documentsAfter || now.text("vnfInstanceName") != "modify_vnf_after" {
		t.Errorf("%v", now)
	}
	// The tables of the document: who has another pod, and who the one that it had.
	kit.Eventually(t, func() error {
		live := map[string]bool{}
		for _, p := range b.pods() {
			live[string(p.UID)] = true
		}
		for uid, name := range before {
			anew := strings.HasPrefix(name, "vdu1-update") || strings.HasPrefix(name, "vdu2-update") || strings.HasPrefix(name, "daemonset-vdu5")
			if live[uid] == anew {
				return fmt.Errorf("%s: is replaced: %t, want %t", name, !live[uid], anew)
			}
		}
		return nil
	})
	data := b.read("ConfigMap/cm-data").Object["data"].(map[string]any)["cmKey1.txt"]
	if !strings.HasPrefix(fmt.Sprint(data), "configmap2 data2") {
		t.Errorf("cm-data holds %q", data)
	}
}

// publishExample pushes an example's package under another vnfdId, with its objects in the
// test's namespace.
func (b *bench) publishExample(example, id string) {
	b.Helper()
	d := b.clone(b.T, "packages/packages.git")
	dir := filepath.Join(d.Dir(), id)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(process.Root(), "examples/packages", example))); err != nil {
		b.Fatal(err)
	}
	own := "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b30"
	if strings.HasSuffix(example, "after") {
		own = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b31"
	}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(content), own, id)
		switch {
		case filepath.Base(name) == "TOSCA.meta": // its checksums are of other files
			text, _, _ = strings.Cut(text, "\n\n")
			text += "\n"
		case strings.Contains(name, "Files"):
			text = strings.ReplaceAll(text, "\nmetadata:\n  name:", "\nmetadata:\n  namespace: "+b.namespace+"\n  name:")
		}
		return os.WriteFile(name, []byte(text), 0o644)
	})
	if err != nil {
		b.Fatal(err)
	}
	d.Push("Publish " + id)
	b.process.AwaitPackages(b, id)
}
