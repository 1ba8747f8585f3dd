package secret

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Connection{}, fmt.Errorf("resolve VIM %s: %s: %w: $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT, which each pod has, are not set", v.Name, field, ErrMissing)
	}
	out := Connection{Name: v.Name, Type: v.Type, Endpoint: "https://" + net.JoinHostPort(host, port), InCluster: true}
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
