package kubernetes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const previewed = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast, api-token: abc-in-clear}
---
apiVersion: v1
kind: Secret
metadata: {name: pin}
stringData: {pin: open-sesame}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: front}, ports: [{name: http, port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front}
spec:
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: front
        image: "registry.k8s.io/pause:3.9"
        args: [--verbose, --password=hunter2, --token, hunter3]
        env: [{name: MODE, value: fast}, {name: DB_PASSWORD, value: hunter4}]
`

// previewOf are the steps that are due for the instance, and what they would change.
func previewOf(t *testing.T, d *kubernetes.Driver, src drivers.Source) ([]plan.Step, []drivers.Deviation) {
	t.Helper()
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
	found, err := d.Preview(t.Context(), want, steps...)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range found {
		for _, secret := range []string{"hunter", "sesame", "in-clear", "b3Blbi1zZXNhbWU"} {
			if strings.Contains(x.Want+x.Have, secret) {
				t.Errorf("a secret is told: %+v", x)
			}
		}
	}
	return steps, found
}

// told is the deviation as a line: object, field, what it becomes and what it is.
func told(namespace string, found []drivers.Deviation) []string {
	lines := make([]string, len(found))
	for i, x := range found {
		lines[i] = strings.ReplaceAll(x.Object, "/"+namespace+"/", "/") + " " + x.Field + ": " + x.Have + " -> " + x.Want
	}
	return lines
}

func TestOfWhatIsMadeEveryFieldIsPreviewed(t *testing.T) {
	c := newCluster(t)
	d := c.connect(t)
	id, namespace := "previewed", "not-made-"+uuid.NewString()[:8]
	src := sample.Source(id, namespace, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}\n---\n"+previewed, sample.Workloads("front"), nil)
	_, found := previewOf(t, d, src)
	lines := told(namespace, found)
	for _, want := range []string{
		`ConfigMap/settings data.mode:  -> "fast"`,
		`ConfigMap/settings data.api-token:  -> "(hidden)"`,
		`Secret/pin data.pin:  -> (hidden)`,
		`Service/front spec.ports[name=http].port:  -> 80`,
		`Deployment/front spec.replicas:  -> 1`,
		`Deployment/front spec.template.spec.containers[name=front].args:  -> ["--verbose","--password=(hidden)","--token","(hidden)"]`,
		`Deployment/front spec.template.spec.containers[name=front].env[name=DB_PASSWORD].value:  -> "(hidden)"`,
		`Deployment/front spec.template.spec.containers[name=front].env[name=MODE].value:  -> "fast"`,
		`Deployment/front spec.template.spec.containers[name=front].image:  -> "registry.k8s.io/pause:3.9"`,
		`Deployment/front metadata.labels[vnf.jibe.dev/instance]:  -> "previewed"`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("not told: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("told:\n%s", strings.Join(lines, "\n"))
	}
	if _, again := previewOf(t, d, src); !slices.Equal(told(namespace, again), lines) {
		t.Error("the second preview tells something else, or in another order")
	}
}

func TestWhatWouldChangeIsPreviewedAndNothingChanges(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	converge(t, d, sample.Source(id, namespace, previewed, sample.Workloads("front"), nil), true)
	changed := strings.NewReplacer(
		"mode: fast", "mode: slow", "abc-in-clear", "def-in-clear", "open-sesame", "close-sesame", "3.9", "3.10", "hunter4", "hunter5",
		"[{name: http, port: 80}]", "[{name: http, port: 81}, {name: tls, port: 443}]",
	).Replace(previewed)
	changed = changed[:strings.Index(changed, "apiVersion: v1\nkind: Secret")] + changed[strings.Index(changed, "apiVersion: v1\nkind: Service"):]
	versions := func() string {
		t.Helper()
		m, err := api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "front", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(m.ResourceVersion, x.Generation)
	}
	before := versions()
	after := sample.Source(id, namespace, changed, sample.Workloads("front"), map[string]int{"front_aspect": 1})
	want := []string{
		`ConfigMap/settings data.api-token: "(hidden)" -> "(hidden)"`,
		`ConfigMap/settings data.mode: "fast" -> "slow"`,
		`Service/front spec.ports[port=443,protocol=TCP]:  -> {"name":"tls","port":443}`,
		`Service/front spec.ports[port=80,protocol=TCP]: {"name":"http","port":80,"protocol":"TCP","targetPort":80} -> `,
		`Service/front spec.ports[port=81,protocol=TCP]:  -> {"name":"http","port":81}`,
		`Deployment/front spec.replicas: 1 -> 3`,
		`Deployment/front spec.template.spec.containers[name=front].env[name=DB_PASSWORD].value: "(hidden)" -> "(hidden)"`,
		`Deployment/front spec.template.spec.containers[name=front].image: "registry.k8s.io/pause:3.9" -> "registry.k8s.io/pause:3.10"`,
		`Secret/pin : present -> `,
	}
	for range 2 {
		if _, found := previewOf(t, d, after); !slices.Equal(told(namespace, found), want) {
			t.Errorf("told:\n%s\nwant:\n%s", strings.Join(told(namespace, found), "\n"), strings.Join(want, "\n"))
		}
	}
	if now := versions(); now != before {
		t.Errorf("the preview changed something: %s, was %s", now, before)
	}
	scaled := sample.Source(id, namespace, previewed, sample.Workloads("front"), map[string]int{"front_aspect": 1})
	if _, found := previewOf(t, d, scaled); !slices.Equal(told(namespace, found), []string{"Deployment/front spec.replicas: 1 -> 3"}) {
		t.Errorf("of a change of the number is told %q", told(namespace, found))
	}
	converge(t, d, after, true)
	if steps, found := previewOf(t, d, after); len(found) > 0 {
		t.Errorf("of %+v is told %+v", steps, found)
	}
	converge(t, d, after, false)
}

func TestLongPreviewsAreCut(t *testing.T) {
	c := newCluster(t)
	d := c.connect(t)
	manifests := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\ndata:\n"
	for i := range 1000 {
		manifests += fmt.Sprintf("  k%04d: %q\n", i, strings.Repeat("x", 500))
	}
	_, found := previewOf(t, d, sample.Source(uuid.NewString(), c.namespace(t), manifests, sample.Workloads(), nil))
	if n := len(found); n > 210 {
		t.Errorf("%d fields are told of", n)
	}
	last := found[len(found)-1]
	if last.Field != "…" || !strings.HasSuffix(last.Want, " more fields") {
		t.Errorf("the last is %+v", last)
	}
	for _, x := range found {
		if len([]rune(x.Want)) > 121 {
			t.Fatalf("a value has %d characters", len([]rune(x.Want)))
		}
	}
}

func TestAPreviewReportsARefusal(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	id := uuid.NewString()
	before := sample.Source(id, namespace, deployment("one", pause), sample.Workloads("one"), nil)
	converge(t, d, before, true)
	after := sample.Source(id, namespace, strings.ReplaceAll(deployment("one", pause), "app: x", "app: z"), sample.Workloads("one"), nil)
	want, err := d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Preview(t.Context(), want, plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})...)
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "field is immutable") {
		t.Errorf("told is %v", err)
	}
	converge(t, d, before, false)
}

func TestThePreviewOfAScaleReportsWhatTheAPIServerWouldRefuse(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	door := newDoormanFor(t, api, namespace, "apps", "deployments")
	door.open.Store(true)
	id := uuid.NewString()
	converge(t, d, sample.Source(id, namespace, previewed, sample.Workloads("front"), nil), true)
	after := sample.Source(id, namespace, previewed, sample.Workloads("front"), map[string]int{"front_aspect": 1})
	want, err := d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	steps := slices.DeleteFunc(plan.Compute(want.Desired, observe(t, d, want), plan.Journal{}), func(s plan.Step) bool { return s.Action == plan.Wait })
	if len(steps) != 1 || steps[0].Action != plan.Scale {
		t.Fatalf("the steps are %v, want one that scales", steps)
	}
	generation := func() int64 {
		t.Helper()
		x, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "front", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return x.Generation
	}
	before := generation()
	door.open.Store(false)
	kit.Eventually(t, func() error { // once the webhook is in force
		_, err := d.Preview(t.Context(), want, steps...)
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || refused.Object != steps[0].Object || !strings.Contains(refused.Reason, "come back tomorrow") {
			return fmt.Errorf("a scaling that a webhook denies: %w", errors.Join(errors.New("it isn't refused"), err))
		}
		return nil
	})
	door.open.Store(true)
	found, err := d.Preview(t.Context(), want, steps...)
	if got := told(namespace, found); err != nil || !slices.Equal(got, []string{"Deployment/front spec.replicas: 1 -> 3"}) {
		t.Errorf("one that it lets pass: %q (%v)", got, err)
	}
	if now := generation(); now != before {
		t.Errorf("the preview has changed the Deployment: generation %d became %d", before, now)
	}
}

func TestAPreviewReportsAMissingNamespace(t *testing.T) {
	c := newCluster(t)
	d, id := c.connect(t), uuid.NewString()
	missing := "missing-" + id[:8]
	manifests := deployment("one", pause)
	src := sample.Source(id, missing, manifests, sample.Workloads("one"), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}

	_, err = d.Preview(t.Context(), want, plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})...)

	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, missing) || !strings.Contains(refused.Reason, "create it") {
		t.Errorf("told is %v", err)
	}
}
