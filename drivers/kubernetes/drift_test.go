package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// all is a VNF with something of everything that drifts.
const all = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {example.com/owner: radio}, labels: {team: radio}}
data: {mode: fast, app.conf: "a=1"}
---
apiVersion: v1
kind: Secret
metadata: {name: pin}
stringData: {pin: open-sesame}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  selector: {app: front}
  ports:
  - {name: dns, port: 53, targetPort: 5353, protocol: UDP}
  - {name: dns-tcp, port: 53, targetPort: 5353}
  - {name: http, port: 80, targetPort: 8080}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget}
spec: {minAvailable: 1, selector: {matchLabels: {app: front}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, labels: {team: radio}}
spec:
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}, annotations: {example.com/rev: "1"}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: front
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 1m}}
        env: [{name: MODE, value: fast}, {name: LEVEL, value: "3"}]
        ports: [{containerPort: 8080}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: front-back}
spec:
  serviceName: front
  selector: {matchLabels: {app: back}}
  template:
    metadata: {labels: {app: back}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: back, image: "registry.k8s.io/pause:3.10"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: helper}
spec:
  replicas: 1
  selector: {matchLabels: {app: helper}}
  template:
    metadata: {labels: {app: helper}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: helper, image: "registry.k8s.io/pause:3.10"}]
`

// person changes a cluster by hand, under a name of its own.
type person struct {
	client    dynamic.Interface
	namespace string
}

const byHand = "kubectl-edit"

func newPerson(t *testing.T, namespace string) person {
	t.Helper()
	client, err := dynamic.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return person{client, namespace}
}

func (p person) of(kind string) dynamic.ResourceInterface {
	gk := schema.GroupVersionKind{Version: "v1", Kind: kind}
	switch kind {
	case "Deployment", "StatefulSet":
		gk.Group = "apps"
	case "Role", "RoleBinding":
		gk.Group = "rbac.authorization.k8s.io"
	case "PodDisruptionBudget":
		gk.Group = "policy"
	}
	plural, _ := meta.UnsafeGuessKindToResource(gk)
	return p.client.Resource(plural).Namespace(p.namespace)
}

// patch is a change as kubectl makes it: strategic where lists are merged.
func (p person) patch(kind, name, change string, sub ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.of(kind).Patch(ctx, name, types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{FieldManager: byHand}, sub...)
		return err
	}
}

func (p person) json(kind, name, change string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.of(kind).Patch(ctx, name, types.JSONPatchType, []byte(change), metav1.PatchOptions{FieldManager: byHand})
		return err
	}
}

func (p person) delete(kind, name string) func(context.Context) error {
	return func(ctx context.Context) error { return p.of(kind).Delete(ctx, name, metav1.DeleteOptions{}) }
}

func (p person) get(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := p.of(kind).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// examined looks until the driver tells of a deviation that fits.
func examined(t *testing.T, d *kubernetes.Driver, src drivers.Source, fits func([]drivers.Deviation) bool) []drivers.Deviation {
	t.Helper()
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	var found []drivers.Deviation
	kit.Eventually(t, func() error {
		steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
		var err error
		if found, err = d.Examine(t.Context(), want, steps...); err != nil {
			t.Fatal(err)
		}
		if !fits(found) {
			return fmt.Errorf("of %+v is told %+v", steps, found)
		}
		return nil
	})
	return found
}

// settled says whether nothing is to do, which it may take a watch a moment to see.
func settled(t *testing.T, d drivers.Driver, src drivers.Source) {
	t.Helper()
	kit.Eventually(t, func() error {
		if _, steps := look(t, d, src); len(steps) > 0 {
			return fmt.Errorf("left to do: %+v", steps)
		}
		return nil
	})
}

// look is one pass at rest, in which nothing is done.
func look(t *testing.T, d drivers.Driver, src drivers.Source) (drivers.Rendering, []plan.Step) {
	t.Helper()
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	return want, plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
}

func TestEveryDriftIsReportedFieldByFieldAndRepaired(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	p := newPerson(t, namespace)
	src := sample.Source(uuid.NewString(), namespace, all, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	settings, front := "ConfigMap/"+namespace+"/settings", "Deployment/"+namespace+"/front"
	service := "Service/" + namespace + "/front"
	const container = "spec.template.spec.containers[name=front]"
	for _, test := range []struct {
		name   string
		change func(context.Context) error
		want   []drivers.Deviation
	}{
		{"a value of a ConfigMap", p.patch("ConfigMap", "settings", `{"data":{"mode":"slow"}}`),
			[]drivers.Deviation{{Object: settings, Field: "data.mode", Want: `"fast"`, Have: `"slow"`, By: byHand}}},
		{"a value whose name has dots", p.patch("ConfigMap", "settings", `{"data":{"app.conf":"a=2"}}`),
			[]drivers.Deviation{{Object: settings, Field: "data[app.conf]", Want: `"a=1"`, Have: `"a=2"`, By: byHand}}},
		{"a value removed", p.patch("ConfigMap", "settings", `{"data":{"mode":null}}`),
			[]drivers.Deviation{{Object: settings, Field: "data.mode", Want: `"fast"`}}},
		{"a label of the package", p.patch("ConfigMap", "settings", `{"metadata":{"labels":{"team":"core"}}}`),
			[]drivers.Deviation{{Object: settings, Field: "metadata.labels.team", Want: `"radio"`, Have: `"core"`, By: byHand}}},
		{"an annotation of the package", p.patch("ConfigMap", "settings", `{"metadata":{"annotations":{"example.com/owner":"core"}}}`),
			[]drivers.Deviation{{Object: settings, Field: "metadata.annotations[example.com/owner]", Want: `"radio"`, Have: `"core"`, By: byHand}}},
		{"a label of Jibe's", p.patch("Deployment", "front", `{"metadata":{"labels":{"vnf.jibe.dev/vdu":"VDU2"}}}`),
			[]drivers.Deviation{{Object: front, Field: "metadata.labels[vnf.jibe.dev/vdu]", Want: `"VDU1"`, Have: `"VDU2"`, By: byHand}}},
		{"the instance's label", p.patch("ConfigMap", "settings", `{"metadata":{"labels":{"vnf.jibe.dev/instance":null}}}`),
			[]drivers.Deviation{{Object: settings, Field: "metadata.labels[vnf.jibe.dev/instance]", Want: `"` + src.Instance.ID + `"`}}},
		{"the instance's label of a workload", p.patch("Deployment", "front", `{"metadata":{"labels":{"vnf.jibe.dev/instance":"other"}}}`),
			[]drivers.Deviation{{Object: front, Field: "metadata.labels[vnf.jibe.dev/instance]", Want: `"` + src.Instance.ID + `"`, Have: `"other"`, By: byHand}}},
		{"the digest", p.patch("ConfigMap", "settings", `{"metadata":{"annotations":{"vnf.jibe.dev/digest":"x"}}}`),
			[]drivers.Deviation{{Object: settings, Field: "metadata.annotations[vnf.jibe.dev/digest]", Have: `"x"`, By: byHand}}},
		{"the digest removed", p.patch("ConfigMap", "settings", `{"metadata":{"annotations":{"vnf.jibe.dev/digest":null}}}`),
			[]drivers.Deviation{{Object: settings, Field: "metadata.annotations[vnf.jibe.dev/digest]"}}},
		{"a Secret", p.patch("Secret", "pin", `{"stringData":{"pin":"guessed"}}`),
			[]drivers.Deviation{{Object: "Secret/" + namespace + "/pin", Field: "data.pin", Want: "(hidden)", Have: "(hidden)", By: byHand}}},
		{"a Secret emptied", p.json("Secret", "pin", `[{"op":"remove","path":"/data"}]`),
			[]drivers.Deviation{{Object: "Secret/" + namespace + "/pin", Field: "data.pin", Want: "(hidden)"}}},
		{"a Service's selector", p.patch("Service", "front", `{"spec":{"selector":{"app":"back"}}}`),
			[]drivers.Deviation{{Object: service, Field: "spec.selector", By: byHand,
				Want: `{"app":"front","vnf.jibe.dev/generation":"0","vnf.jibe.dev/instance":"` + src.Instance.ID + `"}`,
				Have: `{"app":"back","vnf.jibe.dev/generation":"0","vnf.jibe.dev/instance":"` + src.Instance.ID + `"}`}}},
		{"a Service's port", p.json("Service", "front", `[{"op":"replace","path":"/spec/ports/2/targetPort","value":9090}]`),
			[]drivers.Deviation{{Object: service, Field: "spec.ports[port=80,protocol=TCP].targetPort", Want: "8080", Have: "9090", By: byHand}}},
		{"one of two ports of one number", p.json("Service", "front", `[{"op":"replace","path":"/spec/ports/1/targetPort","value":9090}]`),
			[]drivers.Deviation{{Object: service, Field: "spec.ports[port=53,protocol=TCP].targetPort", Want: "5353", Have: "9090", By: byHand}}},
		{"a Service's port renumbered", p.json("Service", "front", `[{"op":"replace","path":"/spec/ports/2/port","value":81}]`),
			[]drivers.Deviation{{Object: service, Field: "spec.ports[port=80,protocol=TCP]", Want: `{"name":"http","port":80,"targetPort":8080}`}}},
		{"an RBAC rule", p.json("Role", "reader", `[{"op":"replace","path":"/rules/0/verbs","value":["get","delete"]}]`),
			[]drivers.Deviation{{Object: "Role/" + namespace + "/reader", Field: "rules", By: byHand,
				Want: `[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`, Have: `[{"apiGroups":[""],"resources":["pods"],"verbs":["get","delete"]}]`}}},
		{"the subjects of a binding", p.json("RoleBinding", "robot", `[{"op":"remove","path":"/subjects"}]`),
			[]drivers.Deviation{{Object: "RoleBinding/" + namespace + "/robot", Field: "subjects", Want: `[{"kind":"ServiceAccount","name":"robot","namespace":"` + namespace + `"}]`}}},
		{"a budget", p.json("PodDisruptionBudget", "budget", `[{"op":"replace","path":"/spec/minAvailable","value":0}]`),
			[]drivers.Deviation{{Object: "PodDisruptionBudget/" + namespace + "/budget", Field: "spec.minAvailable", Want: "1", Have: "0", By: byHand}}},
		{"an image", p.patch("Deployment", "front", `{"spec":{"template":{"spec":{"containers":[{"name":"front","image":"registry.k8s.io/pause:3.9"}]}}}}`),
			[]drivers.Deviation{{Object: front, Field: container + ".image", Want: `"registry.k8s.io/pause:3.10"`, Have: `"registry.k8s.io/pause:3.9"`, By: byHand}}},
		{"an environment variable", p.patch("Deployment", "front", `{"spec":{"template":{"spec":{"containers":[{"name":"front","env":[{"name":"MODE","value":"slow"}]}]}}}}`),
			[]drivers.Deviation{{Object: front, Field: container + ".env[name=MODE].value", Want: `"fast"`, Have: `"slow"`, By: byHand}}},
		{"an environment variable removed", p.json("Deployment", "front", `[{"op":"remove","path":"/spec/template/spec/containers/0/env/1"}]`),
			[]drivers.Deviation{{Object: front, Field: container + ".env[name=LEVEL]", Want: `{"name":"LEVEL","value":"3"}`}}},
		{"resources", p.patch("Deployment", "front", `{"spec":{"template":{"spec":{"containers":[{"name":"front","resources":{"requests":{"cpu":"2m"}}}]}}}}`),
			[]drivers.Deviation{{Object: front, Field: container + ".resources.requests.cpu", Want: `"1m"`, Have: `"2m"`, By: byHand}}},
		{"two fields of one object", p.patch("Deployment", "front", `{"metadata":{"labels":{"team":"core"}},"spec":{"template":{"metadata":{"annotations":{"example.com/rev":"2"}}}}}`),
			[]drivers.Deviation{
				{Object: front, Field: "metadata.labels.team", Want: `"radio"`, Have: `"core"`, By: byHand},
				{Object: front, Field: "spec.template.metadata.annotations[example.com/rev]", Want: `"1"`, Have: `"2"`, By: byHand},
			}},
		{"the number of replicas", p.patch("Deployment", "front", `{"spec":{"replicas":2}}`),
			[]drivers.Deviation{{Object: front, Field: "spec.replicas", Want: "1", Have: "2", By: byHand}}},
		{"the scale", p.patch("Deployment", "front", `{"spec":{"replicas":2}}`, "scale"),
			[]drivers.Deviation{{Object: front, Field: "spec.replicas", Want: "1", Have: "2", By: byHand}}},
		{"the scale of a StatefulSet", p.patch("StatefulSet", "front-back", `{"spec":{"replicas":2}}`, "scale"),
			[]drivers.Deviation{{Object: "StatefulSet/" + namespace + "/front-back", Field: "spec.replicas", Want: "1", Have: "2", By: byHand}}},
		{"the scale of a workload without a VDU", p.patch("Deployment", "helper", `{"spec":{"replicas":3}}`, "scale"),
			[]drivers.Deviation{{Object: "Deployment/" + namespace + "/helper", Field: "spec.replicas", Want: "1", Have: "3", By: byHand}}},
		{"scale and image", func(ctx context.Context) error {
			return errors.Join(p.patch("Deployment", "front", `{"spec":{"replicas":2}}`, "scale")(ctx),
				p.patch("Deployment", "front", `{"spec":{"template":{"spec":{"containers":[{"name":"front","image":"registry.k8s.io/pause:3.8"}]}}}}`)(ctx))
		}, []drivers.Deviation{
			{Object: front, Field: "spec.replicas", Want: "1", Have: "2", By: byHand},
			{Object: front, Field: container + ".image", Want: `"registry.k8s.io/pause:3.10"`, Have: `"registry.k8s.io/pause:3.8"`, By: byHand},
		}},
		{"a ConfigMap deleted", p.delete("ConfigMap", "settings"), []drivers.Deviation{{Object: settings, Want: "present"}}},
		{"a Service deleted", p.delete("Service", "front"), []drivers.Deviation{{Object: service, Want: "present"}}},
		{"a workload deleted", p.delete("Deployment", "helper"), []drivers.Deviation{{Object: "Deployment/" + namespace + "/helper", Want: "present"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			begin := time.Now().Add(-2 * time.Second)
			if err := test.change(t.Context()); err != nil {
				t.Fatal(err)
			}
			sameFields := func(found []drivers.Deviation) bool {
				return slices.EqualFunc(found, test.want, func(a, b drivers.Deviation) bool { return a.Object == b.Object && a.Field == b.Field })
			}
			for i, x := range examined(t, d, src, sameFields) {
				want := test.want[i]
				// Of the scale, the API server tells who but not when.
				if x.By != "" && x.At.Before(begin) && !(x.Field == "spec.replicas" && x.At.IsZero()) {
					t.Errorf("%s is said to be changed at %v", x.Field, x.At)
				}
				x.At = time.Time{}
				if strings.Contains(x.Field, "digest") {
					x.Want = "" // no test's business
				}
				if x != want {
					t.Errorf("told is %+v\nwant     %+v", x, want)
				}
			}
			converge(t, d, src, true)
			settled(t, d, src)
			for _, x := range test.want {
				kind, name := x.Object[:strings.Index(x.Object, "/")], x.Object[strings.LastIndex(x.Object, "/")+1:]
				if got := p.get(t, kind, name).GetLabels()["vnf.jibe.dev/instance"]; got != src.Instance.ID {
					t.Errorf("%s isn't the instance's: %q", x.Object, got)
				}
			}
		})
	}
	m := p.get(t, "ConfigMap", "settings")
	if data, _, _ := unstructured.NestedStringMap(m.Object, "data"); data["mode"] != "fast" || data["app.conf"] != "a=1" || len(data) != 2 {
		t.Errorf("the ConfigMap wasn't repaired: %v", data)
	}
	if pin, _, _ := unstructured.NestedString(p.get(t, "Secret", "pin").Object, "data", "pin"); pin != "b3Blbi1zZXNhbWU=" {
		t.Errorf("the Secret wasn't repaired: %v", pin)
	}
	converge(t, d, src, false)
	if _, err := p.of("ConfigMap").Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was repaired isn't deleted with the instance: %v", err)
	}
}
