package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The example packages of the guide's CNF, in two versions.
const (
	rolling1 = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b10"
	rolling2 = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b11"
	waiting  = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b99"
)

func example(name string) string { return filepath.Join(process.Root(), "examples", "packages", name) }

// subscriber is an endpoint that takes notifications.
func subscriber(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTheLifeOfACNFIsAsTheGuideShowsIt(t *testing.T) {
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"))
	s.PushFiles(t, map[string]string{"vims/kube-a.yaml": s.Keep(t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeconfig+"\n")})
	// The pods of the third wait for a node that there isn't.
	third := process.NextVersion(t, example("rolling-1.0"), "waits", rolling1, waiting, "    spec:\n      containers:", "    spec:\n      nodeSelector: {nowhere: to-be-found}\n      containers:")
	s.PushPackages(t, []string{rolling1, rolling2, waiting}, example("rolling-1.0"), example("rolling-1.1"), third)
	api, err := kubernetes.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	namespace, full := kubeenv.Namespace(t, kubeconfig), kubeenv.Namespace(t, kubeconfig)
	quota := func(pods string) {
		t.Helper()
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}}}
		_, err := api.CoreV1().ResourceQuotas(full).Update(t.Context(), q, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.CoreV1().ResourceQuotas(full).Create(t.Context(), q, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, func() error { // what counts for pods is the status, which a controller writes
			is, err := api.CoreV1().ResourceQuotas(full).Get(t.Context(), "pods", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if now, known := is.Status.Hard[corev1.ResourcePods]; !known || !now.Equal(resource.MustParse(pods)) {
				return fmt.Errorf("the quota in force is %v, want %s pods", is.Status.Hard, pods)
			}
			return nil
		})
	}
	quota("0")
	r := newReader(t, map[string]string{
		"http://127.0.0.1:9890": s.URL, "$TOKEN": s.Token,
		"vnf-web": namespace, "vnf-full": full, "http://nfvo.example": subscriber(t),
	})
	r.follow("Install it and say where Jibe is")
	r.follow("The life of a container network function")
	pods, err := api.CoreV1().Pods(namespace).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are left (%v)", len(pods.Items), err)
	}
	r.follow("When an operation fails")
	quota("10")
	r.follow("Put it right and try again")
	quota("0")
	r.follow("Give up")
	r.follow("Subscriptions")
	r.follow("Cancel")
}
