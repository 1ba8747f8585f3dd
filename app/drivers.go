package app

import (
	"log/slog"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/sim"
)

// Drivers makes the driver of each type of VIM. key is mixed into the digests
// that drivers leave at the VIM; exec lets kubeconfigs name commands and files.
func Drivers(key []byte, exec bool, cloud *sim.Cloud, log *slog.Logger) func(drivers.VIM) (drivers.Driver, error) {
	return func(v drivers.VIM) (drivers.Driver, error) {
		switch v.Type {
		case desired.VIMKubernetes:
			return kubernetes.New(v, kubernetes.Options{Log: log.With("vim", v.Name), DigestKey: key, KubeconfigExec: exec})
		case desired.VIMOpenStack:
			return openstack.New(v, openstack.Options{Log: log.With("vim", v.Name)})
		case desired.VIMSim:
			return sim.New(cloud, v), nil
		}
		return nil, &drivers.RefusedError{Field: "vim", Reason: "VIMs of type " + v.Type + " aren't known; use " + desired.VIMKubernetes + " or " + desired.VIMOpenStack}
	}
}
