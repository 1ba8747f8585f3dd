package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// injecting installs a webhook of the namespace's Deployments, as a service mesh
// has one: it adds a sidecar, a label and an annotation, and takes images from a
// mirror.
func injecting(t *testing.T, c *cluster, namespace string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		patch, err := injection(review.Request.Object.Raw)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: &kind}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	fail, none, scope := registration.Fail, registration.SideEffectClassNone, registration.NamespacedScope
	hooks := c.api(t).AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &registration.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []registration.MutatingWebhook{{
			Name: "mesh.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(30)),
			ClientConfig:      registration.WebhookClientConfig{URL: &server.URL, CABundle: authority},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []registration.RuleWithOperations{{
				Operations: []registration.OperationType{registration.Create, registration.Update},
				Rule:       registration.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}, Scope: &scope},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hooks.Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}); err != nil {
			t.Errorf("the webhook is left: %v", err)
		}
	})
	// It is in force when the API server has seen it.
	kit.Eventually(t, func() error {
		labels := map[string]string{"app": "probe"}
		probe := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		}}
		made, err := c.api(t).AppsV1().Deployments(namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(made.Spec.Template.Spec.Containers) != 2 {
			return errors.New("the webhook isn't called yet")
		}
		return err
	})
}

// injection is what the webhook makes of a Deployment, as a JSON patch.
func injection(raw []byte) ([]byte, error) {
	var d appsv1.Deployment
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, "mesh.example.com/status", "injected")
	metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, "mesh.example.com/member", "yes")
	pod, injected := &d.Spec.Template.Spec, false
	for i, container := range pod.Containers {
		injected = injected || container.Name == "mesh-proxy"
		pod.Containers[i].Image = strings.Replace(container.Image, "registry.k8s.io/", "mirror.example.com/", 1)
	}
	if !injected {
		pod.Containers = append(pod.Containers, corev1.Container{Name: "mesh-proxy", Image: "mirror.example.com/proxy:1"})
	}
	return json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata", "value": d.ObjectMeta},
		{"op": "replace", "path": "/spec/template", "value": d.Spec.Template},
	})
}
