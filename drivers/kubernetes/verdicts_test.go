package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// dryRuns counts the dry runs that reach the proxy.
func dryRuns(p *proxy) *atomic.Int64 {
	n := &atomic.Int64{}
	count := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("dryRun") != "" {
			n.Add(1)
		}
		return false
	}
	p.fault.Store(&count)
	return n
}

// next are the steps that bring the instance up, or change it.
func next(t *testing.T, d drivers.Driver, want drivers.Rendering) []plan.Step {
	t.Helper()
	steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
	return slices.DeleteFunc(steps, func(s plan.Step) bool { return s.Action != plan.Apply })
}

// verified is what Verify says of all that is due, and how many dry runs it sent.
func verified(t *testing.T, d drivers.Driver, sent *atomic.Int64, want drivers.Rendering) (int64, error) {
	t.Helper()
	before := sent.Load()
	err := d.Verify(t.Context(), want, next(t, d, want)...)
	return sent.Load() - before, err
}

// plain is an instance of a ConfigMap, a Service and a Deployment.
func plain(namespace string, more ...string) drivers.Source {
	manifests := strings.Join(append([]string{deployment("one", pause), oneConfigMap,
		"{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: x}, ports: [{port: 80}]}}"}, more...), "\n---\n")
	return sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads("one"), nil)
}

// namespaces are so many. They are made before the driver looks at the cluster for the first time, so that it knows
// them: a dry run in one that its watch hasn't brought yet speaks for no other.
func (c *cluster) namespaces(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		all = append(all, c.namespace(t))
	}
	return all
}

// asked wants so many dry runs, all of which succeed.
func asked(t *testing.T, d drivers.Driver, sent *atomic.Int64, src drivers.Source, want int64, why string) {
	t.Helper()
	if n, err := verified(t, d, sent, rendering(t, d, src)); n != want || err != nil {
		t.Errorf("%s: %d dry runs, %v; want %d", why, n, err, want)
	}
}

func TestASecondInstanceOfAShapeIsMadeWithoutADryRun(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	sent := dryRuns(p)
	d := p.connect(t)
	first, second := plain(c.namespace(t)), plain(c.namespace(t))
	asked(t, d, sent, first, 3, "the first of its shape")
	want := rendering(t, d, second)
	steps := next(t, d, want)
	calls := p.calls.Load()
	if err := errors.Join(d.Verify(t.Context(), want, steps...), d.Do(t.Context(), want, steps...)); err != nil {
		t.Fatal(err)
	}
	if n := p.calls.Load() - calls; n != 2*3 {
		t.Errorf("the second was made by %d calls, want two an object: whether its name is free, and the apply", n)
	}
	converge(t, d, second, true)
	converge(t, d, second, false)
}

func TestManyOfOneShapeAtOnceAskOnce(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	sent := dryRuns(p)
	d := p.connect(t)
	const n = 8
	var all [n]drivers.Rendering
	var steps [n][]plan.Step
	for i, namespace := range c.namespaces(t, n) {
		all[i] = rendering(t, d, plain(namespace))
		steps[i] = next(t, d, all[i])
	}
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			if err := d.Verify(t.Context(), all[i], steps[i]...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := sent.Load(); n != 3 {
		t.Errorf("%d dry runs, want one a shape", n)
	}
}

func TestWhatDiffersFromWhatWasAskedIsAsked(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	sent := dryRuns(p)
	d := p.connect(t)
	namespace, other := c.namespace(t), c.namespace(t)
	asked(t, d, sent, plain(namespace), 3, "the first of its shape")

	another := plain(other)
	another.Package.Tree = "another"
	asked(t, d, sent, another, 3, "another package")

	coloured := plain(other)
	coloured.Instance.Generation = "1"
	asked(t, d, sent, coloured, 3, "another generation")

	port := plain(namespace, "{apiVersion: v1, kind: Service, metadata: {name: door}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30991}]}}")
	asked(t, d, sent, port, 4, "a package with a port of the nodes")
	port = plain(other, "{apiVersion: v1, kind: Service, metadata: {name: door}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30991}]}}")
	asked(t, d, sent, port, 1, "a port of the nodes, of which there is one")

	pod := sample.Source(uuid.NewString(), namespace, barePod, sample.Workloads("probe"), nil)
	asked(t, d, sent, pod, 1, "a pod")
	pod = sample.Source(uuid.NewString(), other, barePod, sample.Workloads("probe"), nil)
	asked(t, d, sent, pod, 1, "a pod in another namespace")

	n, err := verified(t, d, sent, rendering(t, d, plain("not-there-"+uuid.NewString())))
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || !refused.Awaited || n == 0 {
		t.Errorf("without its namespace: %d dry runs, %v; want a refusal", n, err)
	}
}

func TestARefusalMakesTheDriverAskAgain(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	sent := dryRuns(p)
	d, api := p.connect(t), c.api(t)
	tight, others := c.namespace(t), c.namespaces(t, 3)
	_, err := api.CoreV1().ResourceQuotas(tight).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "tight"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		q, err := api.CoreV1().ResourceQuotas(tight).Get(t.Context(), "tight", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			return errors.New("the quota isn't in force yet")
		}
		return err
	})
	asked(t, d, sent, plain(others[0]), 3, "the first of its shape")
	poor := rendering(t, d, plain(tight))
	if n, err := verified(t, d, sent, poor); n != 0 || err != nil {
		t.Errorf("%d dry runs, %v; want none: the quota shows at the apply", n, err)
	}
	var refused *drivers.RefusedError
	if err := d.Do(t.Context(), poor, next(t, d, poor)...); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "exceeded quota") {
		t.Fatalf("Do = %v, want a refusal by the quota", err)
	}
	asked(t, d, sent, plain(others[1]), 3, "the first after a refusal")
	kit.Eventually(t, func() error { // the watch brings what was applied before
		if n, err := verified(t, d, sent, poor); n != 1 || !errors.As(err, &refused) {
			return fmt.Errorf("the one that was refused: %d dry runs, %w; want one, and a refusal", n, err)
		}
		return nil
	})
	asked(t, d, sent, plain(others[2]), 3, "the first after a refused dry run")
	kit.Eventually(t, func() error { // other tests change what the cluster admits, which has all asked anew
		n, err := verified(t, d, sent, rendering(t, d, plain(c.namespace(t))))
		if n != 0 || err != nil {
			err = fmt.Errorf("the next: %d dry runs, %w; want none", n, err)
		}
		return err
	})
	if err := api.CoreV1().ResourceQuotas(tight).Delete(t.Context(), "tight", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		_, err := verified(t, d, sent, poor)
		return err
	})
	converge(t, d, poor.Source, true)
	converge(t, d, poor.Source, false)
}

func TestASharedVerdictSaysNothingOfANameThatIsTaken(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	sent := dryRuns(p)
	d, api := p.connect(t), c.api(t)
	all := c.namespaces(t, 3)
	asked(t, d, sent, plain(all[0]), 3, "the first of its shape")
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"mode": "slow"}}
	if _, err := api.CoreV1().ConfigMaps(all[1]).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	want := rendering(t, d, plain(all[1]))
	var refused *drivers.RefusedError
	kit.Eventually(t, func() error { // until the API server has it in its memory
		n, err := verified(t, d, sent, want)
		if n == 0 || !errors.As(err, &refused) || !strings.Contains(refused.Reason, "not Jibe's") {
			return fmt.Errorf("%d dry runs, %w; want one, and a refusal before anything is applied", n, err)
		}
		return nil
	})
	asked(t, d, sent, plain(all[2]), 3, "the first after a refusal")

	// A name that is taken between look and apply is left alone all the same.
	if err := d.Do(t.Context(), want, next(t, d, want)...); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "not Jibe's") {
		t.Errorf("Do = %v, want a refusal", err)
	}
	now, err := api.CoreV1().ConfigMaps(all[1]).Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil || now.Data["mode"] != "slow" || len(now.Labels)+len(now.Annotations) > 0 {
		t.Errorf("the foreign object was touched: %+v, %v", now, err)
	}
	converge(t, d, want.Source, false)
}

func TestAChangeIsAskedOnceForAllThatStandAsRendered(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	sent := dryRuns(p)
	d := p.connect(t)
	change := func(was drivers.Source, from, to string) drivers.Rendering {
		is := plain(was.Instance.Params["namespace"].(string))
		is.Instance.ID = was.Instance.ID
		is = sample.Source(was.Instance.ID, was.Instance.Params["namespace"].(string), strings.Replace(deployment("one", pause), from, to, 1)+"---\n"+oneConfigMap+
			"\n---\n{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: x}, ports: [{port: 80}]}}", sample.Workloads("one"), nil)
		want := rendering(t, d, is)
		former := rendering(t, d, was)
		want.Former = &former
		return want
	}
	var standing [4]drivers.Source
	for i, namespace := range c.namespaces(t, len(standing)) {
		standing[i] = plain(namespace)
		converge(t, d, standing[i], true)
	}
	for i, x := range []struct {
		want drivers.Rendering
		n    int64
		why  string
	}{
		{change(standing[0], "pause:3.10", "pause:3.9"), 1, "the first change"},
		{change(standing[1], "pause:3.10", "pause:3.9"), 0, "the second"},
	} {
		if n, err := verified(t, d, sent, x.want); n != x.n || err != nil {
			t.Errorf("%s: %d dry runs, %v; want %d", x.why, n, err, x.n)
		}
		converge(t, d, x.want.Source, true)
		standing[i] = x.want.Source
	}
	unknown := change(standing[2], "pause:3.10", "pause:3.9")
	unknown.Former = nil
	if n, err := verified(t, d, sent, unknown); n != 1 || err != nil {
		t.Errorf("a change from nobody knows what: %d dry runs, %v; want 1", n, err)
	}
	// What stands isn't what the former rendering says: it may be what can't be changed so.
	another := change(standing[2], "pause:3.10", "pause:3.9")
	former := change(standing[2], "pause:3.10", "pause:3.8")
	another.Former = &former
	if n, err := verified(t, d, sent, another); n != 1 || err != nil {
		t.Errorf("a change of what isn't as it was rendered: %d dry runs, %v; want 1", n, err)
	}
	// Another way to the same end is another question, and here another answer.
	var refused *drivers.RefusedError
	selector := change(standing[3], "{matchLabels: {app: x}}", "{matchLabels: {app: x, more: y}}")
	if n, err := verified(t, d, sent, selector); n != 1 || !errors.As(err, &refused) {
		t.Errorf("a selector that can't be changed: %d dry runs, %v; want a refusal", n, err)
	}
	for _, src := range standing {
		converge(t, d, src, false)
	}
}

func TestRightsInOneNamespaceSayNothingOfOthers(t *testing.T) {
	c := newCluster(t)
	api := c.api(t)
	granted, denied := c.namespace(t), c.namespace(t)
	user := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "limited-" + uuid.NewString()}}
	looker := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: granted + "-looker"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}},
	}
	if _, err := api.RbacV1().ClusterRoles().Create(t.Context(), looker, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = api.RbacV1().ClusterRoleBindings().Delete(ctx, looker.Name, metav1.DeleteOptions{})
		_ = api.RbacV1().ClusterRoles().Delete(ctx, looker.Name, metav1.DeleteOptions{})
	})
	_, err := api.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: looker.Name}, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: looker.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.RbacV1().RoleBindings(granted).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "writer"}, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := kubeenv.RestConfig(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user[0].Name}
	p := proxyOf(t, config)
	sent := dryRuns(p)
	d, err := kubernetes.New(drivers.VIM{Name: "limited", Endpoint: p.server.URL}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	kit.Eventually(t, func() error { // until the roles are in force
		_, err := d.Observe(t.Context(), rendering(t, d, plain(granted)))
		if err != nil {
			return err
		}
		_, err = verified(t, d, sent, rendering(t, d, plain(granted)))
		return err
	})
	asked(t, d, sent, plain(granted), 0, "another instance in the same namespace")
	if n, err := verified(t, d, sent, rendering(t, d, plain(denied))); n != 3 || !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("where the rights are missing: %d dry runs, %v; want 3, and that it can't be done", n, err)
	}
}
