package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Examine runs the checks on a data directory on which no server runs. It uses of the options what
// says where things are and what may be reached.
func Examine(ctx context.Context, o Options) []doctor.Result {
	if data, err := filepath.Abs(o.Data); err == nil {
		o.Data = data
	}
	within := o.Egress
	within.Log = o.Log
	guard := egress.New(within).ForConfigured()
	p := o.place(guard)
	p.Show = func(t *doctor.Target) { o.Store.Show(t, o.Data) }
	if o.Forge.Token != "" {
		p.Token = func(ctx context.Context) error {
			client, err := o.Forge.Client(o.Remote, guard)
			if err != nil {
				return err
			}
			return client.Check(ctx)
		}
	}
	return maintenance.Examine(ctx, p)
}

// place is what is examined, whether or not a server runs.
func (o Options) place(guard *egress.Guard) maintenance.Place {
	return maintenance.Place{
		Data: o.Data, Branch: o.Branch, Remote: o.Remote, Certificates: certificates(o), Key: o.Key, Reach: o.Reach, Confinement: o.Confinement, HooksAllowed: o.AllowHooks.String() != "",
		Look: func(ctx context.Context, v *desired.VIM, keeper *secret.Keeper) (drivers.Sight, error) {
			return lookAt(ctx, v, keeper, o.Reach.KubeconfigExec, guard, o.Log)
		},
	}
}

// certificates are the files that flags name, whose expiry is also shown as a metric.
func certificates(o Options) []doctor.Certificate {
	return []doctor.Certificate{
		{Flag: "--tls-cert", File: o.TLSCert}, {Flag: "--client-ca", File: o.ClientCA, Authorities: true},
		{Flag: "--notify-client-cert", File: o.Notify.Cert}, {Flag: "--notify-ca", File: o.Notify.CA, Authorities: true},
	}
}

// lookAt looks at a VIM with its credentials.
func lookAt(ctx context.Context, v *desired.VIM, keeper *secret.Keeper, exec bool, guard *egress.Guard, log *slog.Logger) (drivers.Sight, error) {
	vim, err := secrets{keeper}.VIM(v)
	if err != nil {
		return drivers.Sight{}, err
	}
	switch v.Type {
	case desired.VIMKubernetes:
		return kubernetes.Look(ctx, vim, kubernetes.Options{Log: log, KubeconfigExec: exec, Egress: guard})
	case desired.VIMOpenStack:
		return openstack.Look(ctx, vim, openstack.Options{Log: log, Egress: guard})
	}
	return drivers.Sight{}, &drivers.RefusedError{Field: "vim", Reason: "VIMs of type " + v.Type + " aren't known"}
}
