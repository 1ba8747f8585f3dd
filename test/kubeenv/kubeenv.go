// Package kubeenv hands a test the real Kubernetes control plane that "make test-all"
// started. It never starts or stops one: that is test/controlplane's work, once for all
// packages. A test that needs a cluster calls [Kubeconfig] or [RestConfig] first, and so
// is skipped by a plain "go test" and can't be skipped by "make test-all".
package kubeenv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

const (
	// EnvKubeconfig names the environment variable that holds the path of the
	// kubeconfig to test with.
	EnvKubeconfig = "JIBE_TEST_KUBECONFIG"
)

// Kubeconfig returns the path of the kubeconfig of the control plane to test with. It
// skips the test where there is none, or fails it if [testenv.EnvRequire] is "1".
func Kubeconfig(t testing.TB) string {
	t.Helper()
	path := os.Getenv(EnvKubeconfig)
	switch {
	case path != "":
		return path
	case testenv.Required():
		t.Fatalf("no control plane to test with: %s=1, but %s is not set", testenv.EnvRequire, EnvKubeconfig)
	default:
		t.Skipf("no control plane to test with: run make test-all, or set %s to the kubeconfig of one "+
			"(test/controlplane/controlplane start prints it)", EnvKubeconfig)
	}
	return ""
}

// RestConfig returns a client configuration for the control plane to test with; it skips
// and fails as [Kubeconfig] does. Its client-side rate limit is off, so that a test
// measures and waits for the server alone.
func RestConfig(t testing.TB) *rest.Config {
	t.Helper()
	return restConfig(t, Kubeconfig(t))
}

func restConfig(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("kubeconfig %s: %v", kubeconfig, err)
	}
	config.QPS = -1
	return config
}

var (
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// Namespace makes a namespace with a fresh name at the cluster of kubeconfig and returns
// the name; the namespace is deleted when the test ends. It has its default service
// account when Namespace returns, without which the API server refuses every pod.
func Namespace(t testing.TB, kubeconfig string) string {
	t.Helper()
	// The dynamic client makes a test binary smaller by a third than the one with a type for each kind.
	client, err := dynamic.NewForConfig(restConfig(t, kubeconfig))
	if err != nil {
		t.Fatalf("client for %s: %v", kubeconfig, err)
	}

	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	name := namespaceName(t.Name())
	namespace.SetName(name)
	if _, err := client.Resource(namespaces).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		// t.Context() has ended by now, and the namespace is to go all the same.
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		err := client.Resource(namespaces).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})

	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, kit.Patience, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(serviceAccounts).Namespace(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("namespace %s: default service account: %v", name, err)
	}
	return name
}

// namespaceName makes a unique DNS label that still tells which test it belongs to.
func namespaceName(test string) string {
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, strings.TrimPrefix(test, "Test"))
	label = strings.Trim(label[:min(len(label), 48)], "-")
	return fmt.Sprintf("t-%s-%s", label, uuid.NewString()[:8])
}
