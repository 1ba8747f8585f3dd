package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// clusterIssuer is the "iss" of the tokens that the control plane gives to service accounts.
const clusterIssuer = "https://kubernetes.default.svc"

// cluster is a real issuer: a kube-apiserver, whose tokens of service accounts are JWTs.
type cluster struct {
	*testing.T
	client    *kubernetes.Clientset
	namespace string
	host      string
	ca        []byte
	away      bool
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	kubeconfig := kubeenv.Kubeconfig(t)
	rest := kubeenv.RestConfig(t)
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(rest.Host)
	if err != nil {
		t.Fatal(err)
	}
	ca := rest.CAData
	if len(ca) == 0 {
		if ca, err = os.ReadFile(rest.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{T: t, client: client, namespace: kubeenv.Namespace(t, kubeconfig), host: at.Host, ca: ca}
	// Whoever verifies tokens has none to ask for the keys with: an operator lets everybody read
	// them, as here.
	public := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:service-account-issuer-discovery"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:unauthenticated"}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), public, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		if err := client.RbacV1().ClusterRoleBindings().Delete(ctx, c.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return c
}

// token is one for the default service account of the namespace.
func (c *cluster) token(audience string) string {
	c.Helper()
	seconds := int64(600)
	got, err := c.client.CoreV1().ServiceAccounts(c.namespace).CreateToken(c.Context(), "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return got.Status.Token
}

// account is the name that a token gives the service account.
func (c *cluster) account() string { return "system:serviceaccount:" + c.namespace + ":default" }

// believed is an authenticator for the cluster's tokens. The issuer's name is resolved in the
// cluster alone, so that here it leads to the cluster's address.
func (c *cluster) believed(change func(*OIDCConfig)) *OIDC {
	c.Helper()
	config := OIDCConfig{Issuer: clusterIssuer, Audience: "jibe", CACert: c.ca, RolesClaim: "sub",
		Roles: map[string][]Permission{c.account(): {{Operator, []string{"east"}}}}}
	if change != nil {
		change(&config)
	}
	o, err := NewOIDC(config)
	if err != nil {
		c.Fatal(err)
	}
	o.keys.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		if c.away {
			return nil, errors.New("the cluster is away")
		}
		return new(net.Dialer).DialContext(ctx, network, c.host)
	}
	return o
}

func TestTokensOfAKubernetesClusterAreTakenForThisServerAlone(t *testing.T) {
	c := newCluster(t)
	o := c.believed(nil)
	good := c.token("jibe")
	var who Identity
	var err error
	kit.Eventually(t, func() error { // the API server learns of a binding a moment after it is made
		o.keys.asked = time.Time{}
		if who, err = o.Authenticate(bearer(good)); errors.Is(err, ErrUnavailable) {
			return err
		}
		return nil
	})
	if err != nil || who.String() != c.account()+" ("+clusterIssuer+")" || !who.May(Operator, "east") || who.May(Viewer, "west") || who.May(Viewer, "") || who.MayAnywhere(Admin) {
		t.Fatalf("%+v, %v", who, err)
	}

	parts := strings.Split(good, ".")
	others := strings.Split(c.token("other"), ".")
	for what, token := range map[string]string{
		"for another service":           strings.Join(others, "."),
		"for the API server":            c.token(clusterIssuer),
		"with the claims of another":    parts[0] + "." + others[1] + "." + parts[2],
		"with the signature of another": parts[0] + "." + parts[1] + "." + others[2],
		"without its signature":         parts[0] + "." + parts[1] + ".",
		"signed by another issuer":      newIssuer(t).token(t, map[string]any{"iss": clusterIssuer, "sub": c.account()}),
	} {
		o.keys.asked = time.Time{} // a kid that isn't known has the cluster asked
		if who, err := o.Authenticate(bearer(token)); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
	}
	o.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if who, err := o.Authenticate(bearer(good)); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("expired: %+v, %v", who, err)
	}

	c.away = true
	late := c.believed(nil)
	if who, err := late.Authenticate(bearer(good)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("away at the start: %+v, %v", who, err)
	}
	c.away = false
	late.keys.asked = time.Time{}
	if _, err := late.Authenticate(bearer(good)); err != nil {
		t.Errorf("it is back: %v", err)
	}
	c.away = true
	late.keys.client.CloseIdleConnections()
	late.keys.asked, late.keys.got = time.Time{}, time.Now().Add(-keysFresh)
	if _, err := late.Authenticate(bearer(good)); err != nil {
		t.Errorf("away later, and its keys are remembered: %v", err)
	}
	late.keys.asked, late.keys.got = time.Time{}, time.Now().Add(-keysOld)
	if who, err := late.Authenticate(bearer(good)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("away for too long: %+v, %v", who, err)
	}
	c.away = false

	// The cluster's own claims lie in an object whose name has a dot.
	o = c.believed(func(config *OIDCConfig) {
		config.RolesClaim, config.ProjectsClaim = "kubernetes.io.serviceaccount.name", "kubernetes.io.namespace"
		config.Roles = map[string][]Permission{"default": {{Role: Planner}}}
	})
	who, err = o.Authenticate(bearer(good))
	if want := []Permission{{Planner, []string{c.namespace}}}; err != nil || !reflect.DeepEqual(who.Permissions, want) {
		t.Errorf("%+v, %v; want %+v", who.Permissions, err, want)
	}
}
