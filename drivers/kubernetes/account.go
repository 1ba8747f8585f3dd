package kubernetes

import (
	"fmt"
	"net/http"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// maxAccounts bounds how many accounts have a client ready; the one that was used longest ago
// is forgotten, which costs nothing but to make it again.
const maxAccounts = 256

// accounts has a client for each service account as which objects are written. All go the
// driver's one way to the API server, and end with it. It may be used concurrently.
type accounts struct {
	config  *rest.Config
	through http.RoundTripper
	clients *lru.Cache[string, dynamic.Interface]
}

func newAccounts(config *rest.Config, through http.RoundTripper) (*accounts, error) {
	clients, err := lru.New[string, dynamic.Interface](maxAccounts)
	if err != nil {
		return nil, err
	}
	return &accounts{config, through, clients}, nil
}

// userOf is the name that the API server has for the account "namespace/name".
func userOf(account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", &drivers.RefusedError{Field: "project", Reason: fmt.Sprintf("%q is no service account: give it as namespace/name", account)}
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}

// as is the client that acts as the account of the bounds; Jibe's own where they name none.
// Only the name is sent: the API server knows a service account's groups, so that Jibe needs
// no right to impersonate these.
func (d *Driver) as(b *drivers.Bounds) (dynamic.Interface, error) {
	if b == nil || b.Account == "" {
		return d.client, nil
	}
	if client, ok := d.accounts.clients.Get(b.Account); ok {
		return client, nil
	}
	user, err := userOf(b.Account)
	if err != nil {
		return nil, err
	}
	impersonating := clienttransport.NewImpersonatingRoundTripper(clienttransport.ImpersonationConfig{UserName: user}, d.accounts.through)
	client, err := dynamic.NewForConfigAndClient(d.accounts.config, &http.Client{
		Transport: impersonating, CheckRedirect: egress.SameServer, Timeout: d.accounts.config.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("client of service account %s: %w", b.Account, err)
	}
	d.accounts.clients.Add(b.Account, client)
	return client, nil
}

// classifyAs is [classify] for a request of the account of the bounds. That the account lacks
// a right is a refusal, which names it: somebody confined it on purpose. It may pass, as
// rights that were given a moment ago aren't known to every API server yet. What Jibe's own
// credentials lack is an absence of the VIM, as ever.
func classifyAs(b *drivers.Bounds, key string, err error) error {
	if b == nil || b.Account == "" || err == nil || !apierrors.IsForbidden(err) || !lacksRight(err) {
		return classify(key, err)
	}
	if strings.Contains(err.Error(), "cannot impersonate") {
		return &drivers.RefusedError{Object: key, MayPass: true, Reason: fmt.Sprintf(
			"project %s writes as service account %s, and Jibe's credentials may not: let them impersonate it (%v)", b.Project, b.Account, err)}
	}
	return &drivers.RefusedError{Object: key, MayPass: true, Reason: fmt.Sprintf(
		"project %s writes as service account %s, which lacks the right: give it a Role, or keep the object out of the package (%v)", b.Project, b.Account, err)}
}

// accountOf is who asks, for what is remembered of answers.
func accountOf(b *drivers.Bounds) string {
	if b == nil {
		return ""
	}
	return b.Account
}
