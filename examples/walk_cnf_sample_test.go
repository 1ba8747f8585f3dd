package examples_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestTheCNFSampleIsUpgradedByARequestInTheFormOfOtherManagers(t *testing.T) {
	w := begin(t, "cnf-sample", "cnf-sample-1.0", "cnf-sample-1.1")
	w.imagesAre(2, "nginx:alpine")
	service, err := w.api.CoreV1().Services(w.namespace).Get(t.Context(), "app-svc-name", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := w.pods()
	w.ask(http.MethodPost, "/change_vnfpkg", w.file("cnf-sample", "change_vnfpkg.json"))

	w.imagesAre(2, "nginx:stable-alpine")
	if _, err := w.api.AppsV1().Deployments(w.namespace).Get(t.Context(), "app-name-1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	_, err = w.api.AppsV1().Deployments(w.namespace).Get(t.Context(), "app-name", metav1.GetOptions{})
	w.gone("Deployment app-name", err)
	_, err = w.api.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "nginx-app-original", metav1.GetOptions{})
	w.gone("ConfigMap nginx-app-original", err)
	now, err := w.api.CoreV1().Services(w.namespace).Get(t.Context(), "app-svc-name", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.UID != service.UID || now.Spec.ClusterIP != service.Spec.ClusterIP {
		t.Errorf("the Service is %v, and was %v", now.Spec, service.Spec)
	}
	for _, said := range []string{"Service app-svc-name sends traffic to new-version", "no traffic for 2 old pods"} {
		if w.server.Logged(said) == 0 {
			t.Errorf("no script said %q", said)
		}
	}
	after := slices.Sorted(maps.Keys(w.pods()))
	if slices.ContainsFunc(after, func(name string) bool { _, was := before[name]; return was }) {
		t.Errorf("of the pods %v one is of before", after)
	}
	kit.Eventually(t, func() error { // a controller notes it in its own time
		if to := w.endpoints("app-svc-name"); !slices.Equal(to, after) {
			return fmt.Errorf("the Service sends traffic to %v, want %v", to, after)
		}
		return nil
	})
}
