package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jibe-vnfm/jibe/drivers"
)

// shortestToken is the shortest life that the API server gives a token.
const shortestToken = 10 * time.Minute

// AccessAs implements [drivers.BoundAccess]: where the project has an account, a token of it
// takes the place of Jibe's credentials. A hook with these would go around all that bounds the
// project. The token of Jibe's own pod is given to no hook: it reads and writes what is of all
// projects, and outlives the hook.
func (d *Driver) AccessAs(ctx context.Context, b *drivers.Bounds, lifetime time.Duration) (map[string][]byte, error) {
	switch {
	case b != nil && b.Account != "":
	case d.vim.InCluster:
		return nil, &drivers.RefusedError{Field: "hooks", Reason: fmt.Sprintf(
			"VIM %s is the cluster in which Jibe runs, and no hook gets the token of Jibe's own pod: give the project a service account (impersonate), of which its hooks get tokens", d.vim.Name)}
	default:
		return d.Access()
	}
	token, err := d.token(ctx, b.Account, lifetime)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: token of service account %s for a hook: %w", d.vim.Name, b.Account, err)
	}
	config, err := selfContained(d.vim)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: kubeconfig for a hook: %w", d.vim.Name, err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return d.accessFile(config)
}

// token asks the API server for a token of the account "namespace/name".
func (d *Driver) token(ctx context.Context, account string, lifetime time.Duration) (string, error) {
	if _, err := userOf(account); err != nil {
		return "", err
	}
	namespace, name, _ := strings.Cut(account, "/")
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"expirationSeconds": int64(max(lifetime, shortestToken) / time.Second)},
	}}
	accounts := d.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(namespace)
	answer, err := accounts.Create(ctx, request, metav1.CreateOptions{}, "token")
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("%w; allow Jibe's account to create serviceaccounts/token in namespace %s", err, namespace)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("%w; make the service account, or name another in the project's impersonate", err)
	case err != nil:
		return "", err
	}
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err == nil && token == "" {
		err = fmt.Errorf("the API server answered without one")
	}
	return token, err
}
