package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// doorman is an admission webhook for the ConfigMaps of one namespace.
type doorman struct {
	server *httptest.Server
	open   atomic.Bool
	code   atomic.Int32
}

func newDoorman(t *testing.T, api clientset.Interface, namespace string) *doorman {
	t.Helper()
	return newDoormanFor(t, api, namespace, "", "configmaps")
}

// newDoormanFor is one for another resource.
func newDoormanFor(t *testing.T, api clientset.Interface, namespace, group, resource string) *doorman {
	t.Helper()
	d := &doorman{}
	d.code.Store(http.StatusForbidden)
	d.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: d.open.Load()}
		if !review.Response.Allowed {
			review.Response.Result = &metav1.Status{Message: "come back tomorrow", Code: d.code.Load()}
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(d.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	fail, none := admission.Fail, admission.SideEffectClassNone
	_, err := api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admission.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admission.ValidatingWebhook{{
			Name: "doorman.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admission.WebhookClientConfig{URL: &d.server.URL, CABundle: ca},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			Rules: []admission.RuleWithOperations{{
				Operations: []admission.OperationType{admission.Create, admission.Update, admission.Delete},
				Rule:       admission.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		if err := api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return d
}

const oneConfigMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: fast}}"

// guarded is an instance of one ConfigMap that a webhook keeps out; it is in
// force when guarded returns.
func guarded(t *testing.T, c *cluster, id string) (*doorman, drivers.Source) {
	t.Helper()
	namespace := c.namespace(t)
	door := newDoorman(t, c.api(t), namespace)
	src := sample.Source(id, namespace, oneConfigMap, sample.Workloads(), nil)
	d := c.connect(t)
	kit.Eventually(t, func() error {
		err := d.Verify(t.Context(), rendering(t, d, src), plan.Step{Action: plan.Apply, Object: "ConfigMap/" + namespace + "/settings", From: -1})
		if err == nil {
			return errors.New("the webhook isn't in force yet")
		}
		return nil
	})
	return door, src
}

func TestWhatAWebhookDeniesMayPassAndAPolicyStandsFirm(t *testing.T) {
	c := newCluster(t)
	door, src := guarded(t, c, uuid.NewString())
	namespace := src.Instance.Params["namespace"].(string)
	d, api := c.connect(t), c.api(t)
	apply := plan.Step{Action: plan.Apply, Object: "ConfigMap/" + namespace + "/settings", From: -1}
	var refused *drivers.RefusedError
	for _, code := range []int32{http.StatusForbidden, http.StatusInternalServerError, http.StatusUnprocessableEntity, http.StatusTooManyRequests} {
		door.code.Store(code)
		for name, err := range map[string]error{"Verify": d.Verify(t.Context(), rendering(t, d, src), apply), "Do": d.Do(t.Context(), rendering(t, d, src), apply)} {
			if !errors.As(err, &refused) || !refused.MayPass || errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(refused.Reason, "come back tomorrow") {
				t.Errorf("%s, denied with %d = %v, want a refusal that may pass", name, code, err)
			}
		}
	}
	door.code.Store(http.StatusForbidden)
	door.open.Store(true)
	o := converge(t, d, src, true)
	door.open.Store(false)
	gone := plan.Step{Action: plan.Delete, Object: apply.Object, Incarnation: o.Objects[0].Incarnation}
	if err := d.Do(t.Context(), rendering(t, d, src), gone); !errors.As(err, &refused) || !refused.MayPass {
		t.Errorf("a denied delete = %v, want a refusal that may pass", err)
	}
	door.open.Store(true)
	door.server.CloseClientConnections()
	door.server.Close()
	if err := d.Do(t.Context(), rendering(t, d, src), gone); !errors.Is(err, drivers.ErrUnavailable) || errors.As(err, &refused) && refused == nil {
		t.Errorf("a webhook that can't be called = %v, want ErrUnavailable", err)
	}
	if err := d.Verify(t.Context(), rendering(t, d, src), apply); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("a webhook that can't be called = %v, want ErrUnavailable", err)
	}

	// A policy is the API server's own word.
	other := c.namespace(t)
	deny, fail := admission.Deny, admission.Fail
	policies := api.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admission.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: other},
		Spec: admission.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admission.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": other}},
				ResourceRules: []admission.NamedRuleWithOperations{{RuleWithOperations: admission.RuleWithOperations{
					Operations: []admission.OperationType{admission.Create},
					Rule:       admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admission.Validation{{Expression: "object.metadata.name != 'settings'", Message: "no settings here"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: other},
		Spec:       admission.ValidatingAdmissionPolicyBindingSpec{PolicyName: other, ValidationActions: []admission.ValidationAction{deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		_ = policies.ValidatingAdmissionPolicyBindings().Delete(ctx, other, metav1.DeleteOptions{})
		_ = policies.ValidatingAdmissionPolicies().Delete(ctx, other, metav1.DeleteOptions{})
	})
	barred := sample.Source(uuid.NewString(), other, oneConfigMap, sample.Workloads(), nil)
	apply.Object = "ConfigMap/" + other + "/settings"
	kit.Eventually(t, func() error {
		err := d.Verify(t.Context(), rendering(t, d, barred), apply)
		if err == nil {
			return errors.New("the policy isn't in force yet")
		}
		if !errors.As(err, &refused) || refused.MayPass || !strings.Contains(refused.Reason, "no settings here") {
			return fmt.Errorf("Verify = %w, want a firm refusal", err)
		}
		return nil
	})
}
