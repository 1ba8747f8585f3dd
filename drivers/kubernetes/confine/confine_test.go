package confine_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/confine"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

// pod is a manifest of a Pod whose spec has the text besides.
func pod(spec string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, image: i}], " + spec + "}}"
}

const hostNetwork = "{metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}"

func binding(roleRef, subjects string) string {
	return "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, " + roleRef + "}, subjects: [" + subjects + "]}"
}

func role(rules string) string {
	return "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [" + rules + "]}"
}

const ownAccount = "{kind: ServiceAccount, name: a}"

func service(externalIPs string) string {
	return "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 1}], externalIPs: [" + externalIPs + "]}}"
}

func cluster(group, kind string) string {
	return "{apiVersion: " + group + "/v1, kind: " + kind + ", metadata: {name: x}}"
}

// of is what a package of the manifests is rendered to in namespace amf, under the bounds.
func of(t testing.TB, manifests string, b *drivers.Bounds) (drivers.Source, []drivers.Violation) {
	t.Helper()
	src := sample.Source("11111111-2222-3333-4444-555555555555", "amf", manifests, sample.Workloads(), nil)
	form, err := manifest.NewRenderer(nil).Render(src)
	if err != nil {
		t.Fatalf("%s: %v", manifests, err)
	}
	c, err := confine.New()
	if err != nil {
		t.Fatal(err)
	}
	return src, c.Check(form, b)
}

func TestWhatIsOutOfBoundsIsRefusedByFileObjectAndRule(t *testing.T) {
	bounds := func(change func(*drivers.Bounds)) *drivers.Bounds {
		b := &drivers.Bounds{Project: "core", Forbidden: []string{"jibe"}}
		if change != nil {
			change(b)
		}
		return b
	}
	level := func(level string) *drivers.Bounds {
		return bounds(func(b *drivers.Bounds) { b.PodSecurity = level })
	}
	clusterKinds := func(kinds ...string) *drivers.Bounds {
		return bounds(func(b *drivers.Bounds) { b.ClusterKinds = append([]string{}, kinds...) })
	}
	namespace := func(name, labels string) string {
		return "{apiVersion: v1, kind: Namespace, metadata: {name: " + name + ", labels: {" + labels + "}}}"
	}
	for _, c := range []struct {
		why       string
		manifests string
		bounds    *drivers.Bounds
		rules     string // of the violations
	}{
		{"ordinary objects may be brought", sample.EveryKind, bounds(nil), ""},
		{"what nothing bounds may be brought", cluster("rbac.authorization.k8s.io", "ClusterRoleBinding"), nil, ""},
		{"a ClusterRoleBinding binds cluster rights", cluster("rbac.authorization.k8s.io", "ClusterRoleBinding"), bounds(nil), "kind"},
		{"so does a ClusterRole", cluster("rbac.authorization.k8s.io", "ClusterRole"), bounds(nil), "kind"},
		{"a webhook sees what others write", cluster("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"), bounds(nil), "kind"},
		{"an APIService answers in place of the API server", cluster("apiregistration.k8s.io", "APIService"), bounds(nil), "kind"},
		{"a PriorityClass has others' pods evicted", cluster("scheduling.k8s.io", "PriorityClass"), bounds(nil), "kind"},
		{"a definition of a kind is the cluster's", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: radios.x}, spec: {group: x, names: {kind: Radio}, scope: Cluster}}", bounds(nil), "kind"},
		{"of a kind in no namespace that the package defines, both are the cluster's", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: radios.x}, spec: {group: x, names: {kind: Radio}, scope: Cluster}}\n---\n" + cluster("x", "Radio"), bounds(nil), "kind kind"},
		{"objects in a List count", "{apiVersion: v1, kind: List, items: [" + cluster("rbac.authorization.k8s.io", "ClusterRoleBinding") + "]}", bounds(nil), "kind"},
		{"a Namespace may be brought", namespace("amf", ""), bounds(nil), ""},
		{"unless the project says no kind", namespace("amf", ""), clusterKinds(), "kind"},
		{"a kind may be allowed by name", cluster("scheduling.k8s.io", "PriorityClass"), clusterKinds("PriorityClass"), ""},
		{"or with its group", cluster("scheduling.k8s.io", "PriorityClass"), clusterKinds("PriorityClass.scheduling.k8s.io"), ""},
		{"kinds in namespaces may be named too", sample.ConfigMap("a", "b"), bounds(func(b *drivers.Bounds) { b.Kinds = []string{"Service"} }), "kind"},
		{"what is posted stays nowhere", "{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: x}}", bounds(nil), ""},

		{"the namespace isn't the project's", sample.ConfigMap("a", "b"), bounds(func(b *drivers.Bounds) { b.Namespaces = []string{"core-*"} }), "namespace"},
		{"a Namespace isn't the project's", namespace("other", ""), bounds(func(b *drivers.Bounds) { b.Namespaces = []string{"amf"} }), "namespace"},
		{"kube-system is never a project's", namespace("kube-system", ""), bounds(func(b *drivers.Bounds) { b.Namespaces = []string{"*"} }), "namespace"},
		{"neither is a forbidden one", namespace("jibe", ""), bounds(func(b *drivers.Bounds) { b.Namespaces = []string{"*"} }), "namespace"},
		{"a namespace without pod security", namespace("amf", "pod-security.kubernetes.io/enforce: privileged"), bounds(nil), "podSecurity"},
		{"a namespace with as much pod security", namespace("amf", "pod-security.kubernetes.io/enforce: baseline"), bounds(nil), ""},

		{"a pod of the host's network", pod("hostNetwork: true"), bounds(nil), "podSecurity"},
		{"a pod of the host's processes", pod("hostPID: true"), bounds(nil), "podSecurity"},
		{"a folder of the node", pod("volumes: [{name: v, hostPath: {path: /}}]"), bounds(nil), "podSecurity"},
		{"a privileged init container", pod("initContainers: [{name: i, image: i, securityContext: {privileged: true}}]"), bounds(nil), "podSecurity"},
		{"a privileged ephemeral container", pod("ephemeralContainers: [{name: i, image: i, securityContext: {privileged: true}}]"), bounds(nil), "podSecurity"},
		{"a capability", pod("initContainers: [{name: i, image: i, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]"), bounds(nil), "podSecurity"},
		{"an AppArmor annotation", "{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}}, spec: {containers: [{name: c, image: i}]}}", bounds(nil), "podSecurity"},
		{"two things at once", pod("hostIPC: true, hostNetwork: true, securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}"), bounds(nil), "podSecurity podSecurity"},
		{"all that is privileged may be permitted", pod("hostIPC: true"), level("privileged"), ""},
		{"a plain pod isn't restricted", pod("dnsPolicy: Default"), level("restricted"), "podSecurity podSecurity podSecurity podSecurity"},
		{"a level that nobody knows permits no pod", pod("dnsPolicy: Default"), level("Privileged"), "podSecurity"},
		{"a level that nobody knows permits what is no pod", sample.ConfigMap("a", "b"), level("Privileged"), ""},
		{"a pod that can't be read", pod("hostNetwork: 'true'"), bounds(nil), "podSecurity"},
		{"a volume that is a folder of the node", "{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}, spec: {hostPath: {path: /}}}", clusterKinds("PersistentVolume"), "podSecurity"},

		{"a Role to bind", role("{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [bind]}"), bounds(nil), "rights"},
		{"a Role to escalate", role("{apiGroups: [x], resources: [y], verbs: [get]}, {apiGroups: ['*'], resources: ['*'], verbs: [escalate]}"), bounds(nil), "rights"},
		{"a Role to impersonate", role("{apiGroups: [''], resources: [serviceaccounts], verbs: [impersonate]}"), bounds(nil), "rights"},
		{"a Role to do anything", role("{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"), bounds(nil), "rights"},
		{"a Role to do anything with pods", role("{apiGroups: [''], resources: [pods], verbs: ['*']}"), bounds(nil), ""},
		{"a binding of the package's Role", binding("kind: Role, name: x", ownAccount), bounds(nil), ""},
		{"a binding of a ClusterRole that gives rights in one namespace", binding("kind: ClusterRole, name: edit", ownAccount), bounds(nil), ""},
		{"a binding of cluster-admin", binding("kind: ClusterRole, name: cluster-admin", ownAccount), bounds(nil), "rights"},
		{"a binding for everybody", binding("kind: Role, name: x", "{kind: Group, name: 'system:authenticated'}"), bounds(nil), "rights"},
		{"a binding for an account of another namespace", binding("kind: Role, name: x", "{kind: ServiceAccount, name: a, namespace: jibe}"), bounds(nil), "rights"},
		{"a binding for all accounts of another namespace", binding("kind: Role, name: x", "{kind: Group, name: 'system:serviceaccounts:jibe'}"), bounds(nil), "rights"},
		{"a binding for an account of another namespace by its user's name", binding("kind: Role, name: x", "{kind: User, name: 'system:serviceaccount:jibe:a'}"), bounds(nil), "rights"},
		{"a project that may bind the cluster's rights may bind its namespaces'", binding("kind: ClusterRole, name: cluster-admin", "{kind: Group, name: 'system:authenticated'}"), clusterKinds("ClusterRoleBinding"), ""},

		{"an owner that claims would keep from going", "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}, volumeClaimTemplates: [{metadata: {name: d, ownerReferences: [{apiVersion: v1, kind: Pod, name: y, uid: z, blockOwnerDeletion: true}]}}]}}", bounds(nil), "owner"},
		{"a pod that evicts others'", pod("priorityClassName: system-cluster-critical"), bounds(nil), "podSecurity"},
		{"a pod of another priority", pod("priorityClassName: high"), bounds(nil), ""},
		{"a project that may bring priorities", pod("priorityClassName: system-node-critical"), clusterKinds("PriorityClass"), ""},

		{"a Service that takes an address", service("203.0.113.7"), bounds(nil), "address"},
		{"a Service that takes addresses, of which the project has one", service("203.0.113.7, 203.0.114.1, '::ffff:203.0.113.8'"), bounds(func(b *drivers.Bounds) {
			b.ExternalIPs = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
		}), "address"},
		{"a Service that takes what is no address", service("'203.0.113.7/24'"), bounds(func(b *drivers.Bounds) {
			b.ExternalIPs = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		}), "address"},

		{"Jobs of another VNF", "{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {jobTemplate: {metadata: {labels: {vnf.jibe.dev/instance: other}}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}}", bounds(nil), "owner"},
		{"pods of another installation, by a custom resource", "{apiVersion: x/v1, kind: Radio, metadata: {name: x}, spec: {groups: [{podLabels: {vnf.jibe.dev/installation: other}}]}}", bounds(nil), "owner"},
		{"claims of another installation", "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}, volumeClaimTemplates: [{metadata: {name: d, labels: {vnf.jibe.dev/installation: other, vnf.jibe.dev/instance: other}}}]}}", bounds(nil), "owner"},
		{"a label that Jibe writes itself", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {vnf.jibe.dev/instance: other}}}", bounds(nil), ""},
		{"a policy that selects another VNF", "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: x}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {vnf.jibe.dev/instance: other}}}]}]}}", bounds(nil), ""},
		{"an inventory that isn't Jibe's", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, annotations: {vnf.jibe.dev/contains-group-kinds: 'A.b,C.d'}}}", bounds(nil), "owner"},
		{"a Namespace that passes for another object", "{apiVersion: v1, kind: Namespace, metadata: {name: x, annotations: {vnf.jibe.dev/key: Deployment/amf/amf}}}", bounds(nil), "owner"},
		{"an owner that no package can know", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, ownerReferences: [{apiVersion: v1, kind: Pod, name: y, uid: z, controller: true}]}}", bounds(nil), "owner"},
	} {
		t.Run(c.why, func(t *testing.T) {
			_, found := of(t, c.manifests, c.bounds)
			rules := []string{}
			for _, v := range found {
				rules = append(rules, string(v.Rule))
				if v.File != "Files/kubernetes/all.yaml" || !strings.HasSuffix(v.Object, "/x") && !strings.Contains(v.Object, "/") || v.Detail == "" {
					t.Errorf("file, object or detail are missing: %+v", v)
				}
			}
			if got := strings.Join(rules, " "); got != c.rules {
				t.Errorf("violates %q, want %q: %v", got, c.rules, found)
			}
		})
	}
}

func TestEveryKindThatMakesPodsIsJudged(t *testing.T) {
	in := func(path ...string) string {
		text := hostNetwork
		for _, field := range slices.Backward(path) {
			text = "{" + field + ": " + text + "}"
		}
		return strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	}
	for kind, rest := range map[string]string{
		"apps/v1 Deployment":           in("spec", "template"),
		"apps/v1 StatefulSet":          in("spec", "template"),
		"apps/v1 DaemonSet":            in("spec", "template"),
		"apps/v1 ReplicaSet":           in("spec", "template"),
		"v1 ReplicationController":     in("spec", "template"),
		"v1 PodTemplate":               in("template"),
		"batch/v1 Job":                 in("spec", "template"),
		"batch/v1 CronJob":             in("spec", "jobTemplate", "spec", "template"),
		"argoproj.io/v1 Rollout":       in("spec", "template"),
		"extensions/v1beta1 DaemonSet": in("spec", "template"),
	} {
		version, kind, _ := strings.Cut(kind, " ")
		_, found := of(t, "{apiVersion: "+version+", kind: "+kind+", metadata: {name: x}, "+rest+"}", &drivers.Bounds{Project: "core"})
		if len(found) != 1 || found[0].Rule != drivers.RulePodSecurity || !strings.Contains(found[0].Detail, "host namespaces") {
			t.Errorf("%s: %v", kind, found)
		}
	}
}

// A pod that asks for the host's network, in whatever it is wrapped, never passes.
func FuzzConfinedManifestsAskForNothingOfTheHost(f *testing.F) {
	f.Add(pod("hostNetwork: true"))
	f.Add("{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {template: " + hostNetwork + "}}")
	f.Add("{apiVersion: v1, kind: List, items: [" + pod("hostNetwork: true") + "]}")
	f.Add(binding("kind: Role, name: x", ownAccount))
	f.Add(sample.EveryKind)
	c, err := confine.New()
	if err != nil {
		f.Fatal(err)
	}
	renderer := manifest.NewRenderer(nil)
	bounds := &drivers.Bounds{Project: "core", Namespaces: []string{"amf"}}
	f.Fuzz(func(t *testing.T, manifests string) {
		src := sample.Source("i", "amf", manifests, sample.Workloads(), nil)
		form, err := renderer.Render(src)
		if err != nil {
			return
		}
		found := c.Check(form, bounds)
		again := c.Check(form, bounds)
		if !slices.Equal(found, again) {
			t.Errorf("two answers: %v and %v", found, again)
		}
		refused := map[string]bool{}
		for _, v := range found {
			refused[v.Object] = true
		}
		for key, u := range form.Objects {
			if template := manifest.Template(u, u.GroupVersionKind().GroupKind()); template != nil && !refused[key] && asksForHost(template) {
				t.Errorf("%s passes: %v", key, u.Object)
			}
			gk := u.GroupVersionKind().GroupKind()
			if u.GetNamespace() == "" && gk != manifest.KindNamespace && !manifest.InfoOf(gk).Posted && !refused[key] {
				t.Errorf("%s, in no namespace, passes", key)
			}
		}
	})
}

func asksForHost(template map[string]any) bool {
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if asks, _, _ := unstructured.NestedBool(template, "spec", field); asks {
			return true
		}
	}
	return false
}
