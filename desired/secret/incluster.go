package secret

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// ServiceAccountDir is where Kubernetes gives a pod the token of its service account and the
// CA of the cluster.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// resolveInCluster is the cluster in which this process runs, with the pod's service account.
// The token goes to that cluster's API server alone: a VIM's file can't name another address
// for it, as it could if the token were a file that references may name. Kubernetes renews the
// token, so it is read each time.
func (k *Keeper) resolveInCluster(v *desired.VIM) (Connection, error) {
	const field = "inCluster"
	if k.reach.ServiceAccount == "" {
		return Connection{}, fmt.Errorf("resolve VIM %s: %w", v.Name, &ForbiddenError{
			Field:  field,
			Reason: "the service account of Jibe's own pod isn't given to VIMs here",
			Remedy: "start jibe serve with --in-cluster, if all who may push VIMs may have its rights at the cluster; or give a kubeconfig",
		})
	}
	namespaces, err := k.reach.inCluster(v.Namespaces)
	if err != nil {
		return Connection{}, fmt.Errorf("resolve VIM %s: %w", v.Name, err)
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Connection{}, fmt.Errorf("resolve VIM %s: %s: %w: $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT, which each pod has, are not set", v.Name, field, ErrMissing)
	}
	out := Connection{Name: v.Name, Type: v.Type, Endpoint: "https://" + net.JoinHostPort(host, port), InCluster: true, Namespaces: namespaces}
	for name, to := range map[string]*[]byte{"token": &out.Token, "ca.crt": &out.CACert} {
		text, err := os.ReadFile(filepath.Join(k.reach.ServiceAccount, name))
		if err == nil && len(text) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return Connection{}, fmt.Errorf("resolve VIM %s: %s: %w: %s of the pod's service account: %w", v.Name, field, ErrMissing, name, err)
		}
		*to = []byte(strings.TrimSpace(string(text)))
	}
	return out, nil
}

// inCluster returns the namespaces in which a VIM that says inCluster is used: those of its file, which must be among
// those of the service account, else these.
func (r Reach) inCluster(named []string) ([]string, error) {
	if len(named) == 0 {
		return r.Namespaces, nil
	}
	for _, name := range named {
		if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, name) {
			return nil, &ForbiddenError{
				Field:  "namespaces",
				Reason: fmt.Sprintf("the service account of Jibe's own pod has rights in %s, and not in %s", strings.Join(r.Namespaces, ", "), name),
				Remedy: "remove it, or start jibe serve with it in --in-cluster-namespaces (namespaces.names of the chart)",
			}
		}
	}
	return named, nil
}
