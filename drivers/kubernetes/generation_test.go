package kubernetes_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// updated is the source with a container update on top, whose package has the same
// descriptor.
func updated(src drivers.Source, files fs.FS, paths ...string) drivers.Source {
	in := *src.Instance
	next := &vnfd.Package{Tree: treeOf(files), Files: files, VNFD: src.Package.VNFD}
	if in.Base == "" {
		in.Base, src.Base = src.Package.Tree, src.Package
	}
	in.Package = next.Tree
	in.Overlays = append(slices.Clone(in.Overlays), desired.Overlay{Package: next.Tree, Paths: paths})
	return drivers.Source{Instance: &in, Package: next, Base: src.Base, Overlays: append(slices.Clone(src.Overlays), next)}
}

// everyKind is a package of what generations have of their own and of what they
// share.
const everyKind = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast, "true": "010", text: "a\n  b: \"c\"\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {pin: "1234"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-hand}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: i, image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: key, key: pin}}}]}]
      containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}], volumeMounts: [{name: v, mountPath: /v}]}]
      volumes: [{name: v, projected: {sources: [{secret: {name: key}}, {configMap: {name: settings}}]}}, {name: s, persistentVolumeClaim: {claimName: shared}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {no: where}, containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}]}]}}}
`

// ofGeneration is the same source in another generation.
func ofGeneration(src drivers.Source, generation string) drivers.Source {
	in := *src.Instance
	in.Generation = generation
	src.Instance = &in
	return src
}

func TestGenerationsShareWhatTheyMustAndNothingElse(t *testing.T) {
	d := nowhere(t)
	src := source("i1", "ns", everyKind, workloads("web", "db"), nil)
	digests := func(generation string) map[string]string {
		return annotations(t, d, ofGeneration(src, generation), kubernetes.AnnotationDigest)
	}
	first, next := digests(""), digests("1")
	var same, other, alone []string
	for _, key := range slices.Sorted(maps.Keys(next)) {
		switch was, shared := first[key]; {
		case !shared:
			alone = append(alone, key)
		case was == next[key]:
			same = append(same, key)
		default:
			other = append(other, key)
		}
	}
	for what, diff := range map[string]string{
		"as they were": cmp.Diff([]string{"Job/ns/migrate", "PersistentVolumeClaim/ns/shared", "PodDisruptionBudget/ns/web", "Service/ns/by-hand"}, same),
		"changed":      cmp.Diff([]string{"Service/ns/web"}, other),
		"of its own":   cmp.Diff([]string{"ConfigMap/ns/settings-1", "Deployment/ns/web-1", "HorizontalPodAutoscaler/ns/web-1", "Secret/ns/key-1", "StatefulSet/ns/db-1"}, alone),
	} {
		if diff != "" {
			t.Errorf("%s, -want +got:\n%s", what, diff)
		}
	}
}

func TestJobRunsAgainForItsTemplateAlone(t *testing.T) {
	d := nowhere(t)
	src := source("i1", "ns", everyKind, workloads("web", "db"), nil)
	mould := func(src drivers.Source) string {
		return annotations(t, d, src, kubernetes.AnnotationMould)["Job/ns/migrate"]
	}
	was := mould(src)
	if was == "" {
		t.Fatal("a Job has no mould")
	}
	if mould(ofGeneration(src, "1")) != was {
		t.Error("a Job would run again because the map that it reads has another name")
	}
	with := func(old, new string) string {
		return mould(source("i1", "ns", strings.Replace(everyKind, old, new, 1), workloads("web", "db"), nil))
	}
	if with("restartPolicy: Never, nodeSelector: {no: where}", "restartPolicy: OnFailure") == was {
		t.Error("a Job with another template wouldn't run again")
	}
	if with("spec: {template: {spec: {restartPolicy", "spec: {suspend: true, template: {spec: {restartPolicy") != was {
		t.Error("a Job would run again for what can be changed in it")
	}
}

func TestOnlyServicesThatSelectLeadTraffic(t *testing.T) {
	d := nowhere(t)
	src := source("i1", "ns", everyKind, workloads("web", "db"), nil)
	for generation, called := range map[string]string{"": "0", "1": "1"} {
		want, err := d.Render(ofGeneration(src, generation))
		if err != nil {
			t.Fatal(err)
		}
		var directs []string
		for _, x := range want.Objects {
			if x.Directs {
				directs = append(directs, x.Key)
			}
		}
		if !slices.Equal(directs, []string{"Service/ns/web"}) || want.Generation != called {
			t.Errorf("generation %q is called %q and led by %v", generation, want.Generation, directs)
		}
	}
}

func TestTheSameSourceRendersToTheSameObjectsWhoeverRendersIt(t *testing.T) {
	base := source("i1", "ns", everyKind, workloads("web", "db"), nil)
	update := filesOf(map[string]string{"one.yaml": mapOf("settings", "b"), "pods.yaml": podOn("p", "i:2", "settings")})
	pods := packaged("i1", "ns", filesOf(map[string]string{"one.yaml": mapOf("settings", "a"), "pods.yaml": podOn("p", "i:1", "settings")}), workloads("p"), nil)
	for name, src := range map[string]drivers.Source{
		"first": base, "later": ofGeneration(base, "1"), "later, with a container update": ofGeneration(updated(pods, update, paths("one.yaml")...), "2"),
	} {
		one, err := nowhere(t).RenderYAML(src)
		if err != nil {
			t.Fatal(err)
		}
		two, err := nowhere(t).RenderYAML(src)
		if diff := cmp.Diff(one, two); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestTheAPIServerTakesALaterGeneration(t *testing.T) {
	c := newCluster(t)
	d := c.connect(t)
	src := ofGeneration(source("generation-dry-run", c.namespace(t), everyKind, workloads("web", "db"), nil), "1")
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	var steps []plan.Step
	for _, x := range want.Objects {
		steps = append(steps, plan.Step{Action: plan.Apply, Object: x.Key})
	}
	if err := d.Verify(t.Context(), rendering(t, d, src), steps...); err != nil {
		t.Error(err)
	}
}
