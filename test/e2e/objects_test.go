package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	regv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// resources are the kinds of which the tests' packages are made.
var resources = map[string]schema.GroupVersionResource{
	"Deployment":              {Group: "apps", Version: "v1", Resource: "deployments"},
	"ReplicaSet":              {Group: "apps", Version: "v1", Resource: "replicasets"},
	"StatefulSet":             {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"DaemonSet":               {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"Pod":                     {Version: "v1", Resource: "pods"},
	"ConfigMap":               {Version: "v1", Resource: "configmaps"},
	"Secret":                  {Version: "v1", Resource: "secrets"},
	"Service":                 {Version: "v1", Resource: "services"},
	"PersistentVolumeClaim":   {Version: "v1", Resource: "persistentvolumeclaims"},
	"Job":                     {Group: "batch", Version: "v1", Resource: "jobs"},
	"Widget":                  {Group: "e2e.jibe.test", Version: "v1", Resource: "widgets"},
	"HorizontalPodAutoscaler": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

const instanceLabel = "vnf.jibe.dev/instance"

// quiet is for how long a test watches that nothing happens.
const quiet = time.Second

func (b *bench) dynamic() dynamic.Interface {
	b.Helper()
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// at is the kind's objects in the namespace.
func (b *bench) at(kind string) dynamic.ResourceInterface {
	b.Helper()
	return b.dynamic().Resource(resources[kind]).Namespace(b.namespace)
}

// read is the object "Kind/name".
func (b *bench) read(object string) *unstructured.Unstructured {
	b.Helper()
	kind, name, _ := strings.Cut(object, "/")
	u, err := b.at(kind).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// patch merges the JSON into the object "Kind/name", as the field manager, with
// quotes written as '.
func (b *bench) patch(object, manager, text string, subresources ...string) {
	b.Helper()
	kind, name, _ := strings.Cut(object, "/")
	text = strings.ReplaceAll(text, "'", `"`)
	if _, err := b.at(kind).Patch(b.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: manager}, subresources...); err != nil {
		b.Fatalf("patch %s: %v", object, err)
	}
}

// remove deletes the object "Kind/name", and what belongs to it.
func (b *bench) remove(object string) {
	b.Helper()
	kind, name, _ := strings.Cut(object, "/")
	background := metav1.DeletePropagationBackground
	if err := b.at(kind).Delete(b.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		b.Fatalf("delete %s: %v", object, err)
	}
}

// made are the instance's live objects by "Kind/name", without those that
// controllers made of them.
func (b *bench) made(id string) map[string]*unstructured.Unstructured {
	b.Helper()
	objects := map[string]*unstructured.Unstructured{}
	for kind := range resources {
		list, err := b.at(kind).List(b.Context(), metav1.ListOptions{LabelSelector: instanceLabel + "=" + id})
		if apierrors.IsNotFound(err) {
			continue // a custom resource that no test has defined yet
		}
		if err != nil {
			b.Fatal(err)
		}
		for _, u := range list.Items {
			made := metav1.GetControllerOf(&u) != nil
			if u.GetDeletionTimestamp() == nil && !made {
				objects[kind+"/"+u.GetName()] = &u
			}
		}
	}
	return objects
}

// renewed compares two sights: which objects have a new uid, sorted. A set of
// names that differs fails the test.
func (b *bench) renewed(before, after map[string]*unstructured.Unstructured) []string {
	b.Helper()
	if was, is := slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)); !slices.Equal(was, is) {
		b.Errorf("objects were\n%v\nand are\n%v", was, is)
	}
	var names []string
	for name, u := range before {
		if now, ok := after[name]; ok && now.GetUID() != u.GetUID() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// workers are the instance's live pods, but for those of Jobs: uid -> name.
func (b *bench) workers() map[string]string {
	b.Helper()
	uids := map[string]string{}
	for name, p := range b.pods() {
		if owner := metav1.GetControllerOf(&p); owner == nil || owner.Kind != "Job" {
			uids[string(p.UID)] = name
		}
	}
	return uids
}

// gone are the pods that were and aren't any more: their names, sorted.
func gone(before, after map[string]string) []string {
	var names []string
	for uid, name := range before {
		if _, still := after[uid]; !still {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// volume makes a volume that only the claim may have.
func (b *bench) volume(claim string) {
	b.Helper()
	volumes := b.api.CoreV1().PersistentVolumes()
	made, err := volumes.Create(b.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: b.namespace + "-" + claim + "-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{"storage": resource.MustParse("1Mi")}, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			StorageClassName: "by-hand", ClaimRef: &corev1.ObjectReference{Namespace: b.namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := volumes.Delete(b.background(), made.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
}

// finalize puts a finalizer of the test on the object "Kind/name", or takes it away.
func (b *bench) finalize(object string, on bool) {
	b.Helper()
	list := "null"
	if on {
		list = "['e2e.test/keep']"
	}
	b.patch(object, "e2e", "{'metadata': {'finalizers': "+list+"}}")
}

// changes are the operation's affected VNFCs as "ADDED WEB", sorted.
func changes(op object) []string {
	var all []string
	for _, v := range op.list("resourceChanges", "affectedVnfcs") {
		all = append(all, v.text("changeType")+" "+v.text("vduId"))
	}
	slices.Sort(all)
	return all
}

// pushed defines and instantiates an instance by a push; more is YAML that its
// file has beside.
func (b *bench) pushed(vnfd, more string) (id, file string, d *process.WorkTree) {
	b.Helper()
	d = b.clone(b.T, "desired.git")
	file = "instances/pushed/" + b.namespace + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s, lcm-kubernetes-def-files: [Files/kubernetes/all.yaml]}\n%[3]s", b.namespace, vnfd, more))
	d.Push("Run")
	id = b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	d.Pull()
	return id, file, d
}

// everything instantiates the package that has one of everything, with its volumes.
func (b *bench) everything() (id, file string, d *process.WorkTree) {
	b.Helper()
	for _, claim := range []string{"data-store-0", "library", "library"} { // one more, for a successor
		b.volume(claim)
	}
	return b.pushed(whole, "")
}

// verdict is what a webhook says: a reason to refuse, or a JSON patch.
type verdict struct{ refuse, patch string }

// webhook has the API server ask f about requests in the namespace, until the
// test ends. f isn't asked about those of the API server's own controllers.
func (b *bench) webhook(mutating bool, f func(*admissionv1.AdmissionRequest) verdict, rules ...regv1.RuleWithOperations) {
	b.Helper()
	asked := make(chan struct{}, 1)
	const probe = "webhook-probe"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		switch {
		case review.Request.Name == probe:
			select {
			case asked <- struct{}{}:
			default:
			}
		case !strings.HasPrefix(review.Request.UserInfo.Username, "system:serviceaccount:kube-system:") && !strings.HasPrefix(review.Request.UserInfo.Username, "system:kube-"):
			v := f(review.Request)
			if v.refuse != "" {
				answer.Allowed, answer.Result = false, &metav1.Status{Message: v.refuse, Code: http.StatusForbidden}
			}
			if v.patch != "" {
				answer.Patch, answer.PatchType = []byte(v.patch), new(admissionv1.PatchType("JSONPatch"))
			}
		}
		review.Response, review.Request = answer, nil
		_ = json.NewEncoder(w).Encode(review) // the API server may have gone away
	}))
	b.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	client := regv1.WebhookClientConfig{URL: new(s.URL + "/"), CABundle: ca}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": b.namespace}}
	rules = append(rules, rule("", "serviceaccounts", regv1.Create)) // of which no package has one
	meta := metav1.ObjectMeta{Name: b.namespace + "-hook"}
	registry := b.api.AdmissionregistrationV1()
	patience := int32(30) // as long as may be: a test that stands still for a while refuses nothing
	var err error
	if mutating {
		_, err = registry.MutatingWebhookConfigurations().Create(b.Context(), &regv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []regv1.MutatingWebhook{{
			Name: "hook.e2e.test", ClientConfig: client, Rules: rules, NamespaceSelector: selector, FailurePolicy: new(regv1.Fail),
			SideEffects: new(regv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: &patience,
		}}}, metav1.CreateOptions{})
	} else {
		_, err = registry.ValidatingWebhookConfigurations().Create(b.Context(), &regv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []regv1.ValidatingWebhook{{
			Name: "hook.e2e.test", ClientConfig: client, Rules: rules, NamespaceSelector: selector, FailurePolicy: new(regv1.Fail),
			SideEffects: new(regv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: &patience,
		}}}, metav1.CreateOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		var err error
		if mutating {
			err = registry.MutatingWebhookConfigurations().Delete(b.background(), meta.Name, metav1.DeleteOptions{})
		} else {
			err = registry.ValidatingWebhookConfigurations().Delete(b.background(), meta.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			b.Error(err)
		}
	})
	kit.Eventually(b, func() error { // the API server learns of it by and by
		_, err := b.api.CoreV1().ServiceAccounts(b.namespace).Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: probe}}, metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return err
		}
		select {
		case <-asked:
			return nil
		default:
			return fmt.Errorf("the webhook isn't asked")
		}
	})
}

// rule is requests that a webhook is asked about.
func rule(group, resource string, operations ...regv1.OperationType) regv1.RuleWithOperations {
	return regv1.RuleWithOperations{Operations: operations,
		Rule: regv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}}}
}
