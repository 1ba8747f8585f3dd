package app

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// driverOptions are what the drivers of all types of VIM are made with.
type driverOptions struct {
	// key is mixed into the digests that drivers leave at the VIM, where installation says whose
	// all is.
	key          []byte
	installation string
	// exec lets kubeconfigs name commands and files; guard says which addresses VIMs may have.
	exec  bool
	guard *egress.Guard
	cloud *sim.Cloud
	log   *slog.Logger
	// wrap observes what goes to the VIM of a name.
	wrap func(vim string, next http.RoundTripper) http.RoundTripper
	// made is told of each driver whose VIM needs no requests.
	made func(vim string)
}

// guardFor returns what judges the addresses of a VIM.
func (o driverOptions) guardFor(v drivers.VIM) *egress.Guard {
	if v.Requested {
		return o.guard
	}
	return o.guard.ForConfigured()
}

// drivers makes the driver of each type of VIM.
func (o driverOptions) drivers() func(drivers.VIM) (drivers.Driver, error) {
	return func(v drivers.VIM) (drivers.Driver, error) {
		wrap := func(next http.RoundTripper) http.RoundTripper { return o.wrap(v.Name, next) }
		guard := o.guardFor(v)

		switch v.Type {
		case desired.VIMKubernetes:
			return kubernetes.New(v, kubernetes.Options{Log: o.log.With("vim", v.Name), DigestKey: o.key, Installation: o.installation, KubeconfigExec: o.exec, Egress: guard, Wrap: wrap})
		case desired.VIMOpenStack:
			return openstack.New(v, openstack.Options{Log: o.log.With("vim", v.Name), Installation: o.installation, Egress: guard, Wrap: wrap})
		case desired.VIMSim:
			if !strings.HasSuffix(v.Endpoint, ".invalid") { // else it only renders, and is no VIM to be shown
				o.made(v.Name)
			}
			return sim.New(o.cloud, v), nil
		}
		return nil, &drivers.RefusedError{Field: "vim", Reason: "VIMs of type " + v.Type + " aren't known; use " + desired.VIMKubernetes + " or " + desired.VIMOpenStack}
	}
}

// drivers makes the drivers of this installation.
func (s *host) drivers(installation string) func(drivers.VIM) (drivers.Driver, error) {
	return driverOptions{
		key: s.keeper.Derive("render digest"), installation: installation, exec: s.Reach.KubeconfigExec, guard: s.egress, cloud: s.Cloud, log: s.Log,
		wrap: s.observeVIM, made: func(vim string) { s.meters.VIMUp(vim) },
	}.drivers()
}

// observeVIM measures what goes to a VIM.
func (s *host) observeVIM(vim string, next http.RoundTripper) http.RoundTripper {
	return s.meters.VIM(vim, next, s.tracing.Tracer)
}
