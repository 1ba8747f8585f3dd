package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// postedKinds has a manifest of each kind that the API server takes and doesn't keep.
const postedKinds = `
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: robot, resourceAttributes: {verb: list, resource: pods}}
---
apiVersion: authorization.k8s.io/v1
kind: LocalSubjectAccessReview
metadata: {namespace: default}
spec: {user: robot, resourceAttributes: {verb: list, resource: pods, namespace: default}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectAccessReview
spec: {resourceAttributes: {verb: list, resource: pods}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectRulesReview
metadata: {}
spec: {namespace: default}
---
apiVersion: authentication.k8s.io/v1
kind: SelfSubjectReview
---
apiVersion: authentication.k8s.io/v1
kind: TokenReview
metadata: {name: key}
spec: {token: a-token-of-nobody}
---
apiVersion: v1
kind: Binding
metadata: {name: probe}
target: {apiVersion: v1, kind: Node, name: node-0}
---
apiVersion: v1
kind: Pod
metadata: {name: probe, labels: {app: probe}}
spec: {schedulerName: nobody, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
---
`

// posts are the objects that clients post behind a proxy, and that the API server doesn't
// keep; asked says that they were dry runs.
type posts struct {
	mu         sync.Mutex
	did, asked []string
}

func (p *posts) watch(t *testing.T, through *proxy) {
	t.Helper()
	fault := func(_ http.ResponseWriter, r *http.Request) bool {
		parts := strings.Split(r.URL.Path, "/")
		what := parts[len(parts)-1]
		if r.Method != http.MethodPost || !strings.HasSuffix(what, "reviews") && what != "binding" && what != "eviction" {
			return false
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.URL.Query().Get("dryRun") != "" {
			p.asked = append(p.asked, what)
		} else {
			p.did = append(p.did, what)
		}
		return false
	}
	through.fault.Store(&fault)
}

// taken are the posts since the last call, in the order of the alphabet.
func (p *posts) taken() (did, asked []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	did, asked = slices.Sorted(slices.Values(p.did)), slices.Sorted(slices.Values(p.asked))
	p.did, p.asked = nil, nil
	return did, asked
}

func TestWhatTheAPIServerDoesNotKeepIsPostedOnce(t *testing.T) {
	c := newCluster(t)
	through := newProxy(t)
	var seen posts
	seen.watch(t, through)
	d, namespace := through.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, postedKinds+sample.FrontAndBack, sample.TwoVDUs(), nil)
	want := rendering(t, d, src)
	journal := plan.Journal{Operation: "INSTANTIATE", Granted: true, Hooks: []string{"instantiate_start", "instantiate_end"}}
	steps := plan.Compute(want.Desired, observe(t, d, want), journal)
	if err := d.Verify(t.Context(), want, steps...); err != nil {
		t.Fatalf("Verify: %v", err)
	}
	reviews := []string{"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews", "subjectaccessreviews", "tokenreviews"}
	// The driver asks for rights of its own by selfsubjectaccessreviews.
	if did, asked := seen.taken(); !slices.Equal(asked, reviews) || slices.ContainsFunc(did, func(what string) bool { return what != "selfsubjectaccessreviews" }) {
		t.Errorf("a dry run asked for %q and posted %q", asked, did)
	}
	shown, err := d.Preview(t.Context(), want, steps...)
	if err != nil || !slices.ContainsFunc(shown, func(x drivers.Deviation) bool {
		return x.Object == "SubjectAccessReview//Files/kubernetes/all.yaml#1" && x.Field == "spec.user" && strings.Contains(x.Want, "robot")
	}) {
		t.Errorf("preview: %v, %+v", err, shown)
	}
	if text := fmt.Sprint(shown); strings.Contains(text, "a-token-of-nobody") {
		t.Error("the preview shows a token")
	}
	kit.Eventually(t, func() error {
		o := observe(t, d, want)
		steps := plan.Compute(want.Desired, o, journal)
		next := plan.Next(steps)
		next = slices.DeleteFunc(slices.Clone(next), func(s plan.Step) bool { return s.Action == plan.Wait })
		if err := d.Do(t.Context(), want, next...); err != nil {
			return err
		}
		journal, _ = journal.Issue(next)
		journal, _ = journal.Done(next)
		if len(steps) > 0 {
			return fmt.Errorf("left to do: %v", steps)
		}
		return nil
	})
	did, _ := seen.taken()
	if all := slices.Concat([]string{"binding"}, reviews); !slices.Equal(did, all) {
		t.Errorf("posted %q, want each once: %q", did, all)
	}
	if len(journal.Posted) != 7 {
		t.Errorf("the journal has %q", journal.Posted)
	}
	// A repetition after a crash: the Pod is bound, and isn't bound again.
	again := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{Operation: "INSTANTIATE", Granted: true, Hooks: journal.Hooks})
	if err := d.Do(t.Context(), want, again...); err != nil || len(again) != 7 {
		t.Errorf("once more, %v: %v", again, err)
	}
	if did, _ := seen.taken(); !slices.Equal(did, reviews) {
		t.Errorf("posted again: %q", did)
	}
	for _, driver := range []drivers.Driver{d, through.connect(t)} {
		if _, steps := turn(t, driver, src, true, &plan.Journal{}); len(steps) > 0 {
			t.Errorf("something is to do at rest: %v", steps)
		}
	}
	src = sample.Source(src.Instance.ID, namespace, postedKinds+sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
	converge(t, d, src, true)
	src.Package = nil
	converge(t, d, src, false)
	if did, asked := seen.taken(); len(did)+len(asked) > 0 {
		t.Errorf("posted at rest, by a scaling or a termination: %q, %q", did, asked)
	}
}

func TestAnEvictionIsOfTheInstancesOwnPodAndEndsWithIt(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: probe, labels: {app: probe}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}}\n"
	mine := sample.Source(uuid.NewString(), namespace, pod, sample.Workloads("probe"), nil)
	converge(t, d, mine, true)
	evict := plan.Step{Action: plan.Post, Object: "Eviction/" + namespace + "/probe"}
	const eviction = "---\n{apiVersion: policy/v1, kind: Eviction, metadata: {name: probe}}\n"
	other := rendering(t, d, sample.Source(uuid.NewString(), namespace, eviction, sample.Workloads(), nil))
	for name, attempt := range map[string]func() error{
		"a dry run": func() error { return d.Verify(t.Context(), other, evict) },
		"a post":    func() error { return d.Do(t.Context(), other, evict) },
	} {
		var refused *drivers.RefusedError
		if err := attempt(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "isn't this VNF instance's") {
			t.Errorf("%s for another's Pod: %v", name, err)
		}
	}
	own := rendering(t, d, sample.Source(mine.Instance.ID, namespace, pod+eviction, sample.Workloads("probe"), nil))
	before := observe(t, d, own).Objects[0].Incarnation
	if err := d.Verify(t.Context(), own, evict); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	for range 2 { // the second finds it gone, or going
		if err := d.Do(t.Context(), own, evict); err != nil {
			t.Fatal(err)
		}
	}
	kit.Eventually(t, func() error {
		if o := observe(t, d, own); o.Has("Pod/"+namespace+"/probe", before) {
			return errors.New("the Pod wasn't evicted")
		}
		return nil
	})
}

func TestAReviewThatTheAPIServerRefusesIsRefusedBeforeAnythingMoves(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, "{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, metadata: {name: who}, spec: {user: robot}}", sample.Workloads(), nil)
	want := rendering(t, d, src)
	step := plan.Step{Action: plan.Post, Object: "SubjectAccessReview//who"}
	for name, attempt := range map[string]func() error{
		"a dry run": func() error { return d.Verify(t.Context(), want, step) },
		"a post":    func() error { return d.Do(t.Context(), want, step) },
	} {
		var refused *drivers.RefusedError
		if err := attempt(); !errors.As(err, &refused) || refused.Object != step.Object || !strings.Contains(err.Error(), "must be empty") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
