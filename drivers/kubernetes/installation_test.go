package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

const (
	keyA = "0123456789abcdef" // of c.connect
	keyB = "fedcba9876543210"
)

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func resourceOf(u *unstructured.Unstructured) schema.GroupVersionResource {
	gv := u.GroupVersionKind().GroupVersion()
	return schema.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: strings.ToLower(u.GetKind()) + "s"}
}

// appliedByFormer applies what an earlier version of Jibe, which knew no installations, would
// have applied of the source, with the key.
func appliedByFormer(t *testing.T, src drivers.Source, key string) {
	t.Helper()
	form, err := manifest.NewRenderer([]byte(key)).Render(src)
	if err != nil {
		t.Fatal(err)
	}
	client := dynamicClient(t)
	for _, x := range form.Desired.Objects {
		u := form.Objects[x.Key].DeepCopy()
		if form.Counted[x.Key] {
			if err := unstructured.SetNestedField(u.Object, int64(1), "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
		}
		data, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		force := true
		if _, err := client.Resource(resourceOf(u)).Namespace(u.GetNamespace()).Patch(t.Context(), u.GetName(), types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "jibe", Force: &force}); err != nil {
			t.Fatalf("%s: %v", x.Key, err)
		}
	}
}

// live reads the rendered objects as they stand.
func live(t *testing.T, want drivers.Rendering) map[string]*unstructured.Unstructured {
	t.Helper()
	client, all := dynamicClient(t), map[string]*unstructured.Unstructured{}
	for key, u := range want.Form.(*manifest.Form).Objects {
		found, err := client.Resource(resourceOf(u)).Namespace(u.GetNamespace()).Get(t.Context(), u.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		all[key] = found
	}
	return all
}

// logged is what a driver logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// marked waits until all objects are the installation's, by label and by field manager alone.
func marked(t *testing.T, d *kubernetes.Driver, want drivers.Rendering, installation string) {
	t.Helper()
	kit.Eventually(t, func() error {
		observe(t, d, want)
		for key, u := range live(t, want) {
			if label := u.GetLabels()[manifest.LabelInstallation]; label != installation {
				return fmt.Errorf("%s has installation %q", key, label)
			}
			var appliedBy []string
			for _, m := range u.GetManagedFields() {
				if m.Operation == metav1.ManagedFieldsOperationApply {
					appliedBy = append(appliedBy, m.Manager)
				}
			}
			if !slices.Equal(appliedBy, []string{"jibe-" + installation}) {
				return fmt.Errorf("%s is applied by %v", key, appliedBy)
			}
		}
		return nil
	})
}

func TestObjectsOfAnEarlierVersionAreTakenOverOnceWithoutTouchingWhatRuns(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	appliedByFormer(t, src, keyA)
	var log logged
	d := c.connectAs(t, "installation-a", keyA, slog.New(slog.NewTextHandler(&log, nil)))
	want := rendering(t, d, src)
	before := converge(t, d, src, true)
	was := live(t, want)
	marked(t, d, want, "installation-a")
	for key, u := range live(t, want) {
		if u.GetUID() != was[key].GetUID() || u.GetGeneration() != was[key].GetGeneration() {
			t.Errorf("%s isn't what it was", key)
		}
		if template := manifest.Template(u, u.GroupVersionKind().GroupKind()); template != nil && strings.Contains(fmt.Sprint(template), manifest.LabelInstallation) {
			t.Errorf("%s makes pods with the label of the installation", key)
		}
	}
	after, steps := turn(t, d, src, true, &plan.Journal{})
	if len(steps) > 0 {
		t.Errorf("something is due: %v", steps)
	}
	units := func(o plan.Observed) (ids []string) {
		for _, u := range o.Units {
			ids = append(ids, u.ID)
		}
		return ids
	}
	if !slices.Equal(units(before), units(after)) || len(units(after)) != 2 {
		t.Errorf("units were %v, are %v", units(before), units(after))
	}
	kit.Eventually(t, func() error {
		if n := strings.Count(log.String(), "objects that an earlier version of Jibe made are marked"); n != 1 {
			return fmt.Errorf("told %d times: %s", n, log.String())
		}
		return nil
	})
	t.Run("and what isn't rendered any more goes from them", func(t *testing.T) {
		// Else the former field manager would keep it.
		leaner := sample.Source(src.Instance.ID, namespace, strings.Replace(sample.FrontAndBack, "data: {mode: fast}", "data: {pace: slow}", 1), sample.TwoVDUs(), nil)
		converge(t, d, leaner, true)
		data, _, err := unstructured.NestedStringMap(live(t, want)["ConfigMap/"+namespace+"/settings"].Object, "data")
		if err != nil || !maps.Equal(data, map[string]string{"pace": "slow"}) {
			t.Errorf("data are %v (%v)", data, err)
		}
	})
	converge(t, d, src, false)
}

func TestAChangeOfWhatAnEarlierVersionMadeLeavesNothingOfIt(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	manifests := sample.ConfigMap("one", "x") + "---\n" + sample.ConfigMap("two", "x")
	src := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads(), nil)
	appliedByFormer(t, src, keyA)
	d := c.connect(t)
	// The first look already is that of a change: of what stood, one object proves the other.
	next := sample.Source(src.Instance.ID, namespace, strings.Replace(manifests, "{k: 'x'}", "{other: 'y'}", 1), sample.Workloads(), nil)
	converge(t, d, next, true)
	want := rendering(t, d, next)
	marked(t, d, want, "installation-a")
	data, _, err := unstructured.NestedStringMap(live(t, want)["ConfigMap/"+namespace+"/one"].Object, "data")
	if err != nil || !maps.Equal(data, map[string]string{"other": "y"}) {
		t.Errorf("data are %v (%v)", data, err)
	}
	converge(t, d, next, false)
}

func TestWhatAnEarlierVersionMadeIsTerminatedOnlyWhereItIsProvenToBeOurs(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.ConfigMap("one", "x"), sample.Workloads(), nil)
	appliedByFormer(t, src, keyA)
	key := "ConfigMap/" + namespace + "/one"
	absent := func(d *kubernetes.Driver, former bool) (plan.Observed, error) {
		gone := drivers.Absent(src.Instance)
		if former {
			stood := rendering(t, d, src)
			gone.Former = &stood
		}
		return d.Observe(t.Context(), gone)
	}
	t.Run("refused where nothing is known of what stood", func(t *testing.T) {
		_, err := absent(c.connect(t), false)
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || refused.Object != key || !strings.Contains(err.Error(), manifest.LabelInstallation+": installation-a") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not seen by who has another key", func(t *testing.T) {
		o, err := absent(c.connectAs(t, "installation-b", keyB, nil), true)
		if err != nil || len(o.Objects) != 0 {
			t.Errorf("observed %v, %v", o.Objects, err)
		}
	})
	t.Run("seen by who made it", func(t *testing.T) {
		o, err := absent(c.connect(t), true)
		if err != nil || len(o.Objects) != 1 {
			t.Errorf("observed %v, %v", o.Objects, err)
		}
	})
	converge(t, c.connect(t), src, true)
	converge(t, c.connect(t), src, false)
}

func TestTwoInstallationsWithTheSameInstanceNeverTouchEachOthersObjects(t *testing.T) {
	for _, key := range []string{keyB, keyA} {
		t.Run(map[string]string{keyB: "with keys of their own", keyA: "with one key that was copied"}[key], func(t *testing.T) {
			c := newCluster(t)
			namespace := c.namespace(t)
			a, b := c.connect(t), c.connectAs(t, "installation-b", key, nil)
			id := uuid.NewString()
			// Both have the same instance in one namespace, with some objects of one name.
			ofA := sample.Source(id, namespace, sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
			other := strings.NewReplacer("name: front", "name: other", "app: front", "app: other", "app: back", "app: rear", "name: settings", "name: others").Replace(sample.FrontAndBack)
			vdus := sample.TwoVDUs()
			for i := range vdus.Flavours[0].VDUs {
				vdus.Flavours[0].VDUs[i].Name = strings.Replace(vdus.Flavours[0].VDUs[i].Name, "front", "other", 1)
			}
			ofB := sample.Source(id, namespace, other, vdus, nil)
			upA := converge(t, a, ofA, true)

			t.Run("the same objects are refused", func(t *testing.T) {
				want := rendering(t, b, ofA)
				steps := plan.Compute(want.Desired, observe(t, b, want), plan.Journal{})
				for what, err := range map[string]error{"verify": b.Verify(t.Context(), want, steps...), "do": b.Do(t.Context(), want, plan.Next(steps)[0])} {
					var refused *drivers.RefusedError
					if !errors.As(err, &refused) || !strings.Contains(err.Error(), "another installation") || !strings.Contains(err.Error(), "installation-a") {
						t.Errorf("%s: %v", what, err)
					}
				}
				if _, err := b.Preview(t.Context(), want, plan.Next(steps)...); err == nil {
					t.Error("the preview shows another installation's objects")
				}
			})

			upB := converge(t, b, ofB, true)
			if len(upA.Units) != 3 || len(upB.Units) != 2 {
				t.Errorf("units are %v and %v", upA.Units, upB.Units)
			}
			for _, u := range upB.Units {
				if slices.ContainsFunc(upA.Units, func(x plan.Unit) bool { return x.ID == u.ID }) {
					t.Errorf("%s is a unit of both", u.Key)
				}
			}
			for what, seen := range map[string]plan.Observed{"a": observe(t, a, rendering(t, a, ofA)), "b": observe(t, b, rendering(t, b, ofB))} {
				for _, x := range seen.Objects {
					mine := strings.Contains(x.Key, "other")
					if mine != (what == "b") {
						t.Errorf("%s sees %s", what, x.Key)
					}
				}
			}
			// What one ends leaves the other's as it is.
			converge(t, b, ofB, false)
			now, steps := turn(t, a, ofA, true, &plan.Journal{})
			if len(steps) > 0 || !maps.Equal(incarnations(upA, everything), incarnations(now, everything)) {
				t.Errorf("a has %v to do; it had %v, has %v", steps, incarnations(upA, everything), incarnations(now, everything))
			}
			converge(t, a, ofA, false)
		})
	}
}

func TestClaimsOfAStatefulSetAreTheInstallationsThatHasTheSet(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	a, b := c.connect(t), c.connectAs(t, "installation-b", keyB, nil)
	id := uuid.NewString()
	ofA := sample.Source(id, namespace, withClaims, sample.Workloads("one"), nil)
	ofB := sample.Source(id, namespace, sample.ConfigMap("b", "b"), sample.Workloads(), nil)
	stuck(t, a, ofA, func(s plan.Step) bool { return strings.Contains(s.Reason, "claim data-one-") })
	bindClaims(t, c.api(t), namespace, 1)
	converge(t, a, ofA, true)
	converge(t, b, ofB, true)
	for _, x := range observe(t, b, rendering(t, b, ofB)).Objects {
		if strings.HasPrefix(x.Key, "PersistentVolumeClaim/") {
			t.Errorf("b sees %s", x.Key)
		}
	}
	kit.Eventually(t, func() error { // it outlives the set: so it must say itself whose it is
		observe(t, a, rendering(t, a, ofA))
		claim, err := c.api(t).CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "data-one-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if label := claim.Labels[manifest.LabelInstallation]; label != "installation-a" {
			return fmt.Errorf("the claim has installation %q", label)
		}
		return nil
	})
	converge(t, b, ofB, false)
	if _, err := c.api(t).CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "data-one-0", metav1.GetOptions{}); err != nil {
		t.Errorf("the end of b's instance took a's claim: %v", err)
	}
	converge(t, a, ofA, false)
	claims, err := c.api(t).CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 0 {
		t.Errorf("%d claims are left (%v)", len(claims.Items), err)
	}
}
