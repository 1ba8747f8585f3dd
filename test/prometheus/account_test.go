package prometheus

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// account is one of a cluster that may do all but list ConfigMaps, at first.
type account struct {
	api             kubernetes.Interface
	namespace, role string
}

// configMaps is the resource that the account may write, and not list.
const configMaps = "configmaps"

func newAccount(t *testing.T, api kubernetes.Interface, namespace string) *account {
	t.Helper()
	a := &account{api, namespace, "half-" + namespace}
	if _, err := api.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "half"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	verbs := []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	unlisted := slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == "list" || v == "watch" })
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: a.role}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps", "batch", "autoscaling", "policy", "networking.k8s.io", "discovery.k8s.io", "storage.k8s.io", "apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "services", "serviceaccounts", "persistentvolumeclaims", "secrets", "events"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{configMaps}, Verbs: unlisted},
	}}
	if _, err := api.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: a.role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "half"}}}
	if _, err := api.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = api.RbacV1().ClusterRoleBindings().Delete(ctx, a.role, metav1.DeleteOptions{}) // the cluster is thrown away, too
		_ = api.RbacV1().ClusterRoles().Delete(ctx, a.role, metav1.DeleteOptions{})
	})
	return a
}

// kubeconfig is the path of one with the account's token.
func (a *account) kubeconfig(t *testing.T) string {
	t.Helper()
	seconds := int64(3600)
	token, err := a.api.CoreV1().ServiceAccounts(a.namespace).CreateToken(t.Context(), "half", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	config, err := clientcmd.LoadFromFile(kubeenv.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	to := filepath.Join(t.TempDir(), "half-kubeconfig")
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// mayAll lets the account list ConfigMaps.
func (a *account) mayAll(t *testing.T) {
	t.Helper()
	role, err := a.api.RbacV1().ClusterRoles().Get(t.Context(), a.role, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{configMaps}, Verbs: []string{"list", "watch"}})
	if _, err := a.api.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
