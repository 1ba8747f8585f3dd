package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAHookOfAProjectWithAnAccountGetsATokenOfItAndNothingOfJibes(t *testing.T) {
	c := newCluster(t)
	namespace, other := c.namespace(t), c.namespace(t)
	bounds := confined(t, c, namespace, everythingInNamespace)
	d := c.connect(t)
	files, err := drivers.AccessFor(t.Context(), d, bounds, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Users []struct{ User map[string]any }
	}
	if err := json.Unmarshal(files["KUBECONFIG"], &file); err != nil {
		t.Fatal(err)
	}
	for _, u := range file.Users {
		if len(u.User) != 1 || u.User["token"] == nil {
			t.Errorf("a hook is given more than a token: %d fields", len(u.User))
		}
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(files["KUBECONFIG"])
	if err != nil {
		t.Fatal(err)
	}
	api, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { // the API server learns of rights after they are written
		_, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	})
	if _, err := api.CoreV1().Pods(other).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v", err)
	}
	if _, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("outside of namespaces: %v", err)
	}

	// A client with a token learns whose it is, whatever else it may not see.
	sight, _ := kubernetes.Look(t.Context(), drivers.VIM{Name: "a", Kubeconfig: files["KUBECONFIG"]}, kubernetes.Options{Egress: egress.Anywhere()})
	if sight.Account != bounds.Account {
		t.Errorf("the credentials are known as those of %q: %+v", sight.Account, sight)
	}

	for account, says := range map[string]string{namespace + "/nobody": "make the service account", "nobody": "namespace/name"} {
		missing := *bounds
		missing.Account = account
		if files, err := drivers.AccessFor(t.Context(), d, &missing, time.Minute); err == nil || !strings.Contains(err.Error(), says) || files != nil {
			t.Errorf("account %s: %v", account, err)
		}
	}
}
