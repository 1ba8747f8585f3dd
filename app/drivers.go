package app

import (
	"log/slog"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Drivers makes the driver of each type of VIM. key is mixed into the digests
// that drivers leave at the VIM, where installation says whose all is; exec lets kubeconfigs name commands and files; guard says which
// addresses VIMs may have.
func Drivers(key []byte, installation string, exec bool, guard *egress.Guard, cloud *sim.Cloud, log *slog.Logger) func(drivers.VIM) (drivers.Driver, error) {
	return func(v drivers.VIM) (drivers.Driver, error) {
		switch v.Type {
		case desired.VIMKubernetes:
			return kubernetes.New(v, kubernetes.Options{Log: log.With("vim", v.Name), DigestKey: key, Installation: installation, KubeconfigExec: exec, Egress: guard})
		case desired.VIMOpenStack:
			return openstack.New(v, openstack.Options{Log: log.With("vim", v.Name), Installation: installation, Egress: guard})
		case desired.VIMSim:
			return sim.New(cloud, v), nil
		}
		return nil, &drivers.RefusedError{Field: "vim", Reason: "VIMs of type " + v.Type + " aren't known; use " + desired.VIMKubernetes + " or " + desired.VIMOpenStack}
	}
}
