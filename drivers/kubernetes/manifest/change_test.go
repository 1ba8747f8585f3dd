package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// deploymentOf is a manifest of a Deployment whose pods have the labels and the
// spec, both in flow style.
func deploymentOf(name, labels, spec string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + name + "}, spec: {selector: {matchLabels: {app: web}}, " +
		"template: {metadata: {labels: " + labels + "}, spec: {containers: [{name: c, image: i}], " + spec + "}}}}\n"
}

func serviceOf(name, selector string) string {
	return "{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: {selector: " + selector + ", ports: [{port: 80}]}}\n"
}

// became is the instance with other manifests, in the generation.
func became(src drivers.Source, generation string, manifests ...string) drivers.Source {
	in := *src.Instance
	files := filesOf(map[string]string{"all.yaml": strings.Join(manifests, "---\n")})
	in.Package, in.Generation = sample.TreeOf(files), generation
	in.Update.Strategy = desired.Rolling
	if generation != src.Instance.Generation {
		in.Update.Strategy = desired.BlueGreen
	}
	return drivers.Source{Instance: &in, Package: &vnfd.Package{Tree: in.Package, Files: files, VNFD: src.Package.VNFD}}
}

func runningOf(manifests ...string) drivers.Source {
	return sample.Source("i1", "ns", strings.Join(manifests, "---\n"), sample.Workloads("web"), nil)
}

// refusal is what is said against the change, "" where nothing is.
func refusal(t *testing.T, before, after drivers.Source) string {
	t.Helper()
	err := manifest.NewRenderer(nil).Change(before, after)
	var refused *drivers.RefusedError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%T: %v", err, err)
	}
	if err == nil {
		return ""
	}
	return refused.Error()
}

func TestChangesThatCanNotBeDoneAreRefusedByName(t *testing.T) {
	plain := deploymentOf("web", "{app: web}", "")
	const otherwise = ": change the package by a rolling update"
	claim := func(mode string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [" + mode + "], resources: {requests: {storage: 1Gi}}}}\n"
	}
	onClaim := deploymentOf("web", "{app: web}", "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]")
	stateful := func(more string) string {
		return "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}" + more + "}}\n"
	}
	daemon := "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: i}]}}}}\n"
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {containers: [{name: c, image: i}]}}\n"
	replicaSet := strings.Replace(onClaim, "Deployment", "ReplicaSet", 1)
	hostPort := strings.Replace(plain, "image: i", "image: i, ports: [{containerPort: 80, hostPort: 8080}]", 1)
	for name, test := range map[string]struct {
		before, after []string
		generation    string
		barePods      bool
		want          string
	}{
		"a Deployment stands beside another": {before: []string{plain}, after: []string{plain}, generation: "1"},
		"hostPort": {before: []string{plain}, after: []string{hostPort}, generation: "1",
			want: "Deployment/ns/web: uses hostPort 8080, which two generations can't have on one node" + otherwise},
		"hostPort that goes": {before: []string{hostPort}, after: []string{plain}, generation: "1"},
		"hostPort, rolling":  {before: []string{plain}, after: []string{hostPort}},
		"hostNetwork": {before: []string{plain}, after: []string{deploymentOf("web", "{app: web}", "hostNetwork: true")}, generation: "1",
			want: "Deployment/ns/web: uses hostNetwork, and two generations can't have the same ports of a node" + otherwise},
		"a claim of one node": {before: []string{onClaim, claim("ReadWriteOnce")}, after: []string{onClaim, claim("ReadWriteOnce")}, generation: "1",
			want: "Deployment/ns/web: uses claim data, which pods on two nodes can't have at once (ReadWriteOnce)" + otherwise},
		"a claim of one pod": {before: []string{replicaSet, claim("ReadWriteOncePod")}, after: []string{replicaSet, claim("ReadWriteOncePod")}, generation: "1",
			want: "ReplicaSet/ns/web: uses claim data, which pods on two nodes can't have at once (ReadWriteOncePod)" + otherwise},
		"a claim of many nodes":       {before: []string{onClaim, claim("ReadWriteMany")}, after: []string{onClaim, claim("ReadWriteMany")}, generation: "1"},
		"a claim of somebody else":    {before: []string{onClaim}, after: []string{onClaim}, generation: "1"},
		"a claim of one pod, rolling": {before: []string{onClaim, claim("ReadWriteOncePod")}, after: []string{onClaim, claim("ReadWriteOncePod")}},
		"a DaemonSet": {before: []string{plain, daemon}, after: []string{plain, daemon}, generation: "1",
			want: "DaemonSet/ns/agent: is a DaemonSet, which would run twice on every node" + otherwise},
		"a bare Pod": {before: []string{pod}, after: []string{pod}, generation: "1",
			want: "Pod/ns/probe: is a bare Pod, which nothing would make again if it failed while two generations stand" + otherwise + ", or allow it by update.barePods"},
		"a bare Pod that is allowed":    {before: []string{pod}, after: []string{pod}, generation: "1", barePods: true},
		"a StatefulSet without volumes": {before: []string{stateful("")}, after: []string{stateful("")}, generation: "1"},
		"a StatefulSet with volumes": {before: []string{stateful("")}, generation: "1",
			after: []string{stateful(", volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]")},
			want:  "StatefulSet/ns/db: is a StatefulSet with volumeClaimTemplates: another would begin with empty volumes, and the data would stay with the one that goes" + otherwise},
		"a name that is taken": {before: []string{plain, strings.Replace(plain, "name: web", "name: web-1", 1)}, after: []string{plain}, generation: "1",
			want: "Deployment/ns/web-1: has this name in generation 1, which is that of an object that runs: give the generation another name"},
		"a Service that would lead nowhere": {before: []string{plain, serviceOf("web", "{app: web}")}, after: []string{plain, serviceOf("web", "{app: other, tier: a}")},
			want: "Service/ns/web: directs traffic to Deployment/ns/web and would direct it to no pod of the new package, as none has app=other, tier=a: give the pods those labels, or let the Service select what they have"},
		"a Service whose label was renamed, rolling": {
			before: []string{deploymentOf("web", "{app: web, version: old}", ""), serviceOf("web", "{app: web, version: old}")},
			after:  []string{deploymentOf("web", "{app: web, version: new}", ""), serviceOf("web", "{app: web, version: old}")},
			want:   "Service/ns/web: directs traffic to Deployment/ns/web and would direct it to no pod of the new package, as none has app=web, version=old: give the pods those labels, or let the Service select what they have"},
		"a Service whose label was renamed, beside it": {generation: "1",
			before: []string{deploymentOf("web", "{app: web, version: old}", ""), serviceOf("web", "{app: web, version: old}")},
			after:  []string{deploymentOf("web-b", "{app: web, version: new}", ""), serviceOf("web", "{app: web, version: old}")}},
		"a Service that led nowhere before": {before: []string{plain, serviceOf("web", "{app: none}")}, after: []string{plain, serviceOf("web", "{app: none}")}},
		"a Service that goes":               {before: []string{plain, serviceOf("web", "{app: web}")}, after: []string{plain}},
		"a Service that is pointed by hand": {before: []string{plain, serviceOf("web", "{app: web}")}, after: []string{plain, serviceOf("web", "{}")}},
		"what can't be rendered": {before: []string{plain}, after: []string{plain, plain},
			want: "Files/kubernetes/all.yaml, document 2: Deployment/ns/web stands already in Files/kubernetes/all.yaml, document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			before := runningOf(test.before...)
			after := became(before, test.generation, test.after...)
			after.Instance.Update.BarePods = test.barePods
			if got := refusal(t, before, after); got != test.want {
				t.Errorf("\ngot  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestContainerUpdatesThatCanNotBeDoneAreRefusedByName(t *testing.T) {
	const path = "Files/kubernetes/one.yaml"
	fixed := func(value string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, immutable: true, data: {k: " + value + "}}\n"
	}
	secret := func(kind string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {name: one}, type: " + kind + ", data: {k: e30=}}\n"
	}
	web := deploymentOf("web", "{app: web}", "")
	for name, test := range map[string]struct{ before, after, want string }{
		"content of a map":                  {sample.ConfigMap("one", "a"), sample.ConfigMap("one", "b"), ""},
		"a map that is to be immutable":     {sample.ConfigMap("one", "a"), fixed("b"), ""},
		"an immutable map, the same":        {fixed("a"), fixed("a"), ""},
		"content of an immutable map":       {fixed("a"), fixed("b"), "ConfigMap/ns/one: is immutable, so its content can't change: give it another name in a change of package"},
		"a map that is no longer immutable": {fixed("a"), sample.ConfigMap("one", "a"), "ConfigMap/ns/one: is immutable, so its content can't change: give it another name in a change of package"},
		"the type of a Secret":              {secret("Opaque"), secret("kubernetes.io/tls"), "Secret/ns/one: is of type Opaque, and can't become one of type kubernetes.io/tls"},
		"a type that is written out":        {"{apiVersion: v1, kind: Secret, metadata: {name: one}}\n", secret("Opaque"), ""},
		"another object":                    {sample.ConfigMap("one", "a"), sample.ConfigMap("two", "a"), "Files/kubernetes/one.yaml: holds ConfigMap two, which no file that runs does: a container update can't add objects, nor change their kinds and names; change the package instead"},
	} {
		t.Run(name, func(t *testing.T) {
			before := sample.Packaged("i1", "ns", filesOf(map[string]string{"one.yaml": test.before, "web.yaml": web}), sample.Workloads("web"), nil)
			after := sample.Updated(before, filesOf(map[string]string{"one.yaml": test.after, "web.yaml": web}), path)
			if got := refusal(t, before, after); got != test.want {
				t.Errorf("\ngot  %s\nwant %s", got, test.want)
			}
		})
	}
	t.Run("a VDU that the new VNFD lacks", func(t *testing.T) {
		before := sample.Packaged("i1", "ns", filesOf(map[string]string{"web.yaml": web}), sample.Workloads("web"), nil)
		after := sample.Updated(before, filesOf(map[string]string{"web.yaml": web}))
		after.Package.VNFD = sample.Workloads("other")
		const want = "Deployment/ns/web: is VDU WEB and would be none in the new VNFD: a container update changes configuration and images alone; change the package instead"
		if got := refusal(t, before, after); got != want {
			t.Errorf("\ngot  %s\nwant %s", got, want)
		}
	})
	t.Run("an update in another generation", func(t *testing.T) {
		at := func(content string) map[string]string { return map[string]string{"one.yaml": content, "web.yaml": web} }
		before := sample.Packaged("i1", "ns", filesOf(at(fixed("a"))), sample.Workloads("web"), nil)
		after := sample.Updated(before, filesOf(at(fixed("b"))), path)
		in := *after.Instance
		in.Generation, in.Update.Strategy = "1", desired.BlueGreen
		after.Instance = &in
		if got := refusal(t, before, after); got != "" {
			t.Error(got)
		}
	})
	t.Run("a second update of an immutable map", func(t *testing.T) {
		at := func(content string) map[string]string { return map[string]string{"one.yaml": content, "web.yaml": web} }
		before := sample.Packaged("i1", "ns", filesOf(at(sample.ConfigMap("one", "a"))), sample.Workloads("web"), nil)
		first := sample.Updated(before, filesOf(at(fixed("b"))), path)
		second := sample.Updated(first, filesOf(at(fixed("c"))), path)
		if got := refusal(t, before, first); got != "" {
			t.Error(got)
		}
		if got := refusal(t, first, second); !strings.HasPrefix(got, "ConfigMap/ns/one: is immutable") {
			t.Error(got)
		}
	})
}

func TestConnectingPodsToOtherNetworksIsRefused(t *testing.T) {
	before := runningOf(deploymentOf("web", "{app: web}", ""))
	in := *before.Instance
	in.ExtVirtualLinks = []desired.ExtVirtualLink{{ID: "ext", ResourceID: "net-a"}}
	after := before
	after.Instance = &in
	const want = "extVirtualLinks: pods are on no networks that could be changed from outside: leave it as it was"
	if got := refusal(t, before, after); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	after.VDUs = []string{"web"} // the others are servers, which are on networks
	if got := refusal(t, before, after); got != "" {
		t.Errorf("beside servers: %q", got)
	}
}
