package kubernetes_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// confined is the bounds of a project whose account has the rules in the namespace alone.
func confined(t *testing.T, c *cluster, namespace string, rules ...rbacv1.PolicyRule) *drivers.Bounds {
	t.Helper()
	api := c.api(t)
	_, err := api.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "writer"}}, metav1.CreateOptions{})
	if err == nil {
		_, err = api.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "writer"}, Rules: rules}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = api.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "writer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "writer", Namespace: namespace}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		kit.Eventually(t, func() error { // the API server learns of rights after they are written
			review, err := api.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + namespace + ":writer",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
				},
			}}, metav1.CreateOptions{})
			if err == nil && !review.Status.Allowed {
				err = errors.New("the account has no rights yet")
			}
			return err
		})
	}
	return &drivers.Bounds{Project: "core", Account: namespace + "/writer"}
}

var everythingInNamespace = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}

// refusedFor says what the account was refused, once rights are known to the API server.
func refusedFor(t *testing.T, err error, b *drivers.Bounds, words ...string) {
	t.Helper()
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	for _, word := range append(words, b.Account, b.Project) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q isn't named in: %v", word, err)
		}
	}
}

func TestWhatIsWrittenIsWrittenAsTheAccountOfTheProject(t *testing.T) {
	c := newCluster(t)
	namespace, other := c.namespace(t), c.namespace(t)
	bounds := confined(t, c, namespace, everythingInNamespace)
	d := c.connect(t)

	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
	src.Bounds = bounds
	up := converge(t, d, src, true)
	var journal plan.Journal
	var first plan.Unit
	for _, u := range up.Units {
		if u.VDU == "VDU1" {
			first = u
		}
	}
	condemned := *src.Instance
	condemned.Condemned = map[string]string{first.Key: first.ID}
	healed := src
	healed.Instance = &condemned
	kit.Eventually(t, func() error {
		_, steps := turn(t, d, healed, true, &journal)
		if len(steps) > 0 {
			return errors.New("the heal isn't done")
		}
		return nil
	})
	src.Instance.Levels = map[string]int{"front_aspect": 0}
	converge(t, d, src, true)

	t.Run("and nowhere else, which is told before anything moves", func(t *testing.T) {
		elsewhere := sample.Source(uuid.NewString(), other, sample.FrontAndBack, sample.TwoVDUs(), nil)
		elsewhere.Bounds = bounds
		want := rendering(t, d, elsewhere)
		steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
		refusedFor(t, d.Verify(t.Context(), want, steps...), bounds, `cannot patch resource`, `"`+other+`"`)
		refusedFor(t, d.Do(t.Context(), want, plan.Next(steps)[0]), bounds, `cannot patch resource`, `"`+other+`"`)
		if _, err := c.api(t).CoreV1().ConfigMaps(other).Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("something was written: %v", err)
		}
		// Jibe's own credentials could: what it learned for itself doesn't speak for the account.
		own := elsewhere
		own.Bounds = nil
		want = rendering(t, d, own)
		if err := d.Verify(t.Context(), want, steps...); err != nil {
			t.Errorf("without an account: %v", err)
		}
		refusedFor(t, d.Verify(t.Context(), want.Bounded(bounds), steps...), bounds, `cannot patch resource`)
	})

	t.Run("nor are another's objects deleted", func(t *testing.T) {
		theirs := sample.Source(uuid.NewString(), other, sample.ConfigMap("theirs", "x"), sample.Workloads(), nil)
		converge(t, d, theirs, true)
		gone := drivers.Absent(theirs.Instance).Bounded(bounds)
		steps := plan.Next(plan.Compute(gone.Desired, observe(t, d, gone), plan.Journal{}))
		refusedFor(t, d.Do(t.Context(), gone, steps...), bounds, `cannot delete resource "configmaps"`, `"`+other+`"`)
		converge(t, d, theirs, false)
	})
	src.Bounds = bounds
	converge(t, d, src, false)
}

func TestAnAccountThatMayNotOrCantBeActedAsIsNamed(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	bounds := confined(t, c, namespace) // without any right
	d := c.connect(t)
	src := sample.Source(uuid.NewString(), namespace, sample.ConfigMap("a", "b"), sample.Workloads(), nil)
	src.Bounds = bounds
	want := rendering(t, d, src)
	steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
	refusedFor(t, d.Verify(t.Context(), want, steps...), bounds, `cannot patch resource "configmaps"`)

	for _, account := range []string{"writer", "a/b/c", "a b/c", "/", "a\n/b"} {
		b := *bounds
		b.Account = account
		var refused *drivers.RefusedError
		if err := d.Verify(t.Context(), want.Bounded(&b), steps...); !errors.As(err, &refused) || refused.Field != "project" {
			t.Errorf("account %q: %v", account, err)
		}
	}
}

// Where a project's rules permit every kind, its account's rights at the cluster still bound what is
// written, of whatever kind and by whichever request: Jibe's own rights are never used for it.
func TestTheAccountBoundsWhatNoRuleDoes(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	bounds := confined(t, c, namespace, everythingInNamespace)
	bounds.ClusterKinds, bounds.PodSecurity = []string{"*"}, drivers.PodSecurityPrivileged
	d := c.connect(t)
	hook := "webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://a.example.com'}, failurePolicy: Ignore, " +
		"rules: [{apiGroups: [x.example.com], apiVersions: [v1], operations: [CREATE], resources: [radios]}]}]"
	for kind, rest := range map[string]string{
		"rbac.authorization.k8s.io/v1 ClusterRole":                         "rules: [{apiGroups: [''], resources: [secrets], verbs: ['*']}]",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding":                  "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:masters'}]",
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration":     hook,
		"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration":   hook,
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": "spec: {policyName: x, validationActions: [Deny]}",
		"apiregistration.k8s.io/v1 APIService":                             "spec: {group: x.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {name: x, namespace: " + namespace + "}}",
		"scheduling.k8s.io/v1 PriorityClass":                               "value: 1000000",
		"storage.k8s.io/v1 StorageClass":                                   "provisioner: x.example.com",
		"certificates.k8s.io/v1 CertificateSigningRequest":                 "spec: {request: TUlJ, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}",
		"v1 PersistentVolume":                                              "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /}, claimRef: {namespace: kube-system, name: x}}",
		"v1 Namespace":                                                     "spec: {}",
		"v1 Node":                                                          "spec: {}",
		"authorization.k8s.io/v1 SubjectAccessReview":                      "spec: {user: admin, nonResourceAttributes: {path: /, verb: get}}",
		"authentication.k8s.io/v1 TokenReview":                             "spec: {token: x}",
	} {
		t.Run(kind, func(t *testing.T) {
			version, kind, _ := strings.Cut(kind, " ")
			name := "jibe-" + namespace
			text := "{apiVersion: " + version + ", kind: " + kind + ", metadata: {name: " + name + "}, " + rest + "}"
			src := sample.Source(uuid.NewString(), namespace, text, sample.Workloads(), nil)
			src.Bounds = bounds
			want := rendering(t, d, src)
			if found := d.Confine(want); len(found) > 0 {
				t.Fatalf("a rule refuses it: %v", found)
			}
			at := slices.IndexFunc(want.Desired.Objects, func(x plan.Object) bool { return strings.HasPrefix(x.Key, kind) })
			step := plan.Step{Action: plan.Apply, Object: want.Desired.Objects[at].Key}
			if want.Desired.Objects[at].Posted {
				step.Action = plan.Post
			}

			refusedFor(t, d.Do(t.Context(), want, step), bounds, "is forbidden")
		})
	}
}

// A rendering takes every kind that it doesn't know for one in namespaces: that mustn't be a
// way to bring an object that is in none.
func TestAKindThatTurnsOutToBeInNoNamespaceIsHeldToTheBounds(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	d := c.connect(t)
	const request = "{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: NAME}, spec: {request: TUlJ, signerName: example.com/x, usages: [client auth]}}"
	src := sample.Source(uuid.NewString(), namespace, strings.ReplaceAll(request, "NAME", namespace), sample.Workloads(), nil)
	src.Bounds = &drivers.Bounds{Project: "core"}
	want := rendering(t, d, src)
	steps := slices.DeleteFunc(plan.Compute(want.Desired, observe(t, d, want), plan.Journal{}), func(s plan.Step) bool {
		return s.Action != plan.Apply || !strings.HasPrefix(s.Object, "CertificateSigningRequest")
	})
	if len(steps) != 1 {
		t.Fatalf("steps are %v", steps)
	}
	for what, err := range map[string]error{"verify": d.Verify(t.Context(), want, steps...), "do": d.Do(t.Context(), want, steps...)} {
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "project core") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.api(t).CertificatesV1().CertificateSigningRequests().Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was written: %v", err)
	}
}

func TestPreviewAndExamineAskAsTheAccount(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	d := c.connect(t)
	src := sample.Source(uuid.NewString(), namespace, sample.ConfigMap("a", "b"), sample.Workloads(), nil)
	want := rendering(t, d, src)
	steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
	converge(t, d, src, true)
	bounds := confined(t, c, namespace)
	if _, err := d.Preview(t.Context(), want.Bounded(bounds), steps...); err == nil {
		t.Error("the preview shows what the account may not see")
	} else {
		refusedFor(t, err, bounds, "cannot get resource", manifest.KindConfigMap.Kind)
	}
	converge(t, d, src, false)
}
