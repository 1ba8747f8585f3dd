package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	authzv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// lister is an account of the cluster whose right to list one kind can be taken.
type lister struct {
	*bench
	token string
}

// listedOnly is what it may list only as long as it is bound to the second role.
const listedOnly = "podtemplates"

func (b *bench) lister() *lister {
	b.Helper()
	all := []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	for name, rules := range map[string][]rbacv1.PolicyRule{
		b.namespace + "-most": {
			{APIGroups: []string{"apps", "batch", "autoscaling", "policy", "networking.k8s.io", "discovery.k8s.io", "storage.k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io"}, Resources: []string{"*"}, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "services", "serviceaccounts", "persistentvolumeclaims", "configmaps", "secrets", "events"}, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{listedOnly}, Verbs: []string{"get", "create", "patch", "delete"}},
		},
		b.namespace + "-lists": {{APIGroups: []string{""}, Resources: []string{listedOnly}, Verbs: []string{"list", "watch"}}},
	} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if _, err := b.api.RbacV1().ClusterRoles().Create(b.Context(), role, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		afterwards(func() error {
			return b.api.RbacV1().ClusterRoles().Delete(b.background(), name, metav1.DeleteOptions{})
		})
	}
	l := &lister{b, b.account("jibe", b.namespace+"-most")}
	l.may(true)
	return l
}

// may gives the account the right to list the kind, or takes it, and waits until that is in force.
func (l *lister) may(list bool) {
	l.Helper()
	name := l.namespace + "-lists"
	bindings := l.api.RbacV1().ClusterRoleBindings()
	if list {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "jibe", Namespace: l.namespace}}}
		if _, err := bindings.Create(l.Context(), binding, metav1.CreateOptions{}); err != nil {
			l.Fatal(err)
		}
	} else if err := bindings.Delete(l.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.Fatal(err)
	}

	own := rest.AnonymousClientConfig(l.config)
	own.BearerToken = l.token
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		l.Fatal(err)
	}
	kit.Eventually(l, func() error {
		asked := &authzv1.SelfSubjectAccessReview{Spec: authzv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authzv1.ResourceAttributes{Verb: "list", Resource: listedOnly}}}
		said, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(l.Context(), asked, metav1.CreateOptions{})
		if err == nil && said.Status.Allowed != list {
			err = fmt.Errorf("the account may list %s: %t", listedOnly, said.Status.Allowed)
		}
		return err
	})
}

// vim is the file of a VIM that is reached by the wire, as the account.
func (l *lister) vim(w *kit.Wire) string {
	l.Helper()
	config, err := clientcmd.LoadFromFile(kubeenv.Kubeconfig(l))
	if err != nil {
		l.Fatal(err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		l.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server, c.TLSServerName = "https://"+w.Address, "127.0.0.1"
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: l.token}
	}
	path := filepath.Join(l.TempDir(), "half-kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		l.Fatal(err)
	}
	file, err := process.Keep(l.data, "type: kubernetes\nkubeconfig: file:"+path+"\n")
	if err != nil {
		l.Fatal(err)
	}
	return file
}

// tells returns an error where one of Jibe's voices doesn't name the kind that can't be listed, or does.
func (b *bench) tells(blind string, unlisted bool) error {
	var errs []error
	for _, voice := range []string{"get problems", "get instance " + blind, "get instances", "doctor"} {
		out, errout, _ := b.cli(b, strings.Fields(voice)...)
		if strings.Contains(out+errout, "can't list") != unlisted || unlisted && !strings.Contains(out, "PodTemplate") {
			errs = append(errs, fmt.Errorf("jibe %s: %s%s", voice, out, errout))
		}
	}
	const series = `jibe_vim_unlisted_instances{kind="PodTemplate",vim="half"} 1`
	text := string(b.must(b, 200, "GET", "/metrics", nil).Body)
	if strings.Contains(text, series) != unlisted {
		errs = append(errs, fmt.Errorf("the metrics have %q: %t", series, !unlisted))
	}
	if !strings.Contains(text, `jibe_vim_up{vim="half"} 1`) {
		errs = append(errs, errors.New("the VIM counts as unreachable"))
	}
	return errors.Join(errs...)
}

func TestARightThatIsTakenBlindsNoOtherInstance(t *testing.T) {
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	if err := s.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b := benchAt(t, s, kubeenv.RestConfig(t), kubeconfig)
	w := newWire(t)
	w.Restore()
	l := b.lister()
	const templated = "e2e00000-0000-4000-8000-00000000b11d"
	b.publishAs(templated, []vdu{{kind: "Deployment", name: "blind", initial: 1}}, func(d *process.WorkTree) {
		const all = "Files/kubernetes/all.yaml"
		d.Write(all, d.Read(all)+"\n---\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: job}\ntemplate: {metadata: {labels: {app: job}}, spec: {containers: [{name: job, image: 'registry.k8s.io/pause:3.9'}]}}\n")
	})
	blind, sound := uuid.NewString(), uuid.NewString()
	d := b.clone(t, "desired.git")
	d.Write("vims/half.yaml", l.vim(w))
	for id, vnfd := range map[string]string{blind: templated, sound: plain} {
		d.Write("instances/"+id+"/vnf.yaml", fmt.Sprintf("id: %s\nname: %[1]s\nvnfdId: %s\nflavour: simple\nvim: half\nparams: {namespace: %s}\n", id, vnfd, b.namespace))
	}
	d.Push("Run")
	b.awaitHistory(blind, "INSTANTIATE COMPLETED")
	b.awaitHistory(sound, "INSTANTIATE COMPLETED")
	b.awaitPods(2)

	l.may(false)
	w.Cut() // the watch that there was goes on by the right that it began with
	w.Restore()
	kit.Eventually(t, func() error { return b.tells(blind, true) })
	deployments := b.api.AppsV1().Deployments(b.namespace)
	for _, name := range []string{"blind", "web"} {
		if err := deployments.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitHistory(sound, "INSTANTIATE COMPLETED, HEAL COMPLETED")
	if n := len(b.history(t, blind)); n != 1 {
		t.Errorf("%d operations of an instance that can't be looked at, want the first alone", n)
	}

	l.may(true)
	b.awaitHistory(blind, "INSTANTIATE COMPLETED, HEAL COMPLETED")
	kit.Eventually(t, func() error { return b.tells(blind, false) })
}

// gadgets is a definition whose versions the parameters say: which is stored, whether v1 is served, and what converts.
func gadgets(stored string, serveV1 bool, converts object) *unstructured.Unstructured {
	anything := object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	version := func(name string, served bool) any {
		return object{"name": name, "served": served, "storage": name == stored, "schema": anything}
	}
	content, err := json.Marshal(object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "gadgets.e2e.test"}, "spec": object{
		"group": "e2e.test", "scope": "Namespaced", "names": object{"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
		"versions": []any{version("v1", serveV1), version("v1beta1", true)}, "conversion": converts,
	}})
	if err != nil {
		panic(err) // plain data always encodes
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(content); err != nil {
		panic(err)
	}
	return u
}

func TestAConversionWebhookThatIsGoneIsTold(t *testing.T) {
	testenv.Real(t, "a control plane")
	t.Parallel()
	p := newOwnPlane(t) // no namespace of it could be removed meanwhile
	kubeconfig, config := p.Kubeconfig(), p.RestConfig(t)
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	define := func(stored string, serveV1 bool, converts object) {
		t.Helper()
		content, err := gadgets(stored, serveV1, converts).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		force := true
		if _, err := api.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
			Patch(t.Context(), "gadgets.e2e.test", types.ApplyPatchType, content, metav1.PatchOptions{FieldManager: "e2e", Force: &force}); err != nil {
			t.Fatal(err)
		}
	}
	none := object{"strategy": "None"}
	define("v1", true, none)
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	if err := s.equipFor(t.TempDir(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	b := benchAt(t, s, config, kubeconfig)
	const gadgeted = "e2e00000-0000-4000-8000-00000000b12d"
	b.publishAs(gadgeted, []vdu{{kind: "Deployment", name: "blind", initial: 1}}, func(d *process.WorkTree) {
		const all = "Files/kubernetes/all.yaml"
		d.Write(all, d.Read(all)+"\n---\napiVersion: e2e.test/v1beta1\nkind: Gadget\nmetadata: {name: one}\nspec: {size: 1}\n")
	})
	blind := b.runs(gadgeted)

	define("v1beta1", true, object{"strategy": "Webhook", "webhook": object{"conversionReviewVersions": []string{"v1"},
		"clientConfig": object{"service": object{"namespace": "default", "name": "gone", "path": "/convert"}}}})
	older := api.Resource(schema.GroupVersionResource{Group: "e2e.test", Version: "v1beta1", Resource: "gadgets"}).Namespace(b.namespace)
	kit.Eventually(t, func() error { // once the definition counts
		other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "e2e.test/v1beta1", "kind": "Gadget", "metadata": map[string]any{"generateName": "other-"}}}
		if _, err := older.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := api.Resource(schema.GroupVersionResource{Group: "e2e.test", Version: "v1", Resource: "gadgets"}).List(t.Context(), metav1.ListOptions{})
		if err == nil {
			return errors.New("the kind can be listed")
		}
		return nil
	})
	kit.Eventually(t, func() error {
		var errs []error
		for _, voice := range []string{"get problems", "get instance " + blind, "doctor"} {
			out, errout, _ := b.cli(t, strings.Fields(voice)...)
			if !strings.Contains(out, "Gadget.e2e.test") || !strings.Contains(out, `service "gone" not found`) {
				errs = append(errs, fmt.Errorf("jibe %s: %s%s", voice, out, errout))
			}
		}
		return errors.Join(errs...)
	})

	define("v1beta1", true, none)
	kit.Eventually(t, func() error {
		if out, errout, _ := b.cli(t, "get", "problems"); strings.Contains(out+errout, "Gadget") {
			return fmt.Errorf("the kind can be listed again, and jibe get problems: %s%s", out, errout)
		}
		return nil
	})
	define("v1beta1", false, none) // the version that Jibe watched is served no more
	kit.Eventually(t, func() error {
		if !strings.Contains(s.process.Log(), "a kind is served in another version by now") {
			return errors.New("Jibe watches the version that was removed")
		}
		return nil
	})
	if n := len(b.history(t, blind)); n != 1 {
		t.Errorf("%d operations: a version that was removed took no object with it", n)
	}
	if err := older.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.repaired(blind, 1, "Gadget.e2e.test")
	if _, err := older.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}
