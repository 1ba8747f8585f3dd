package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// DoctorPath is where a server is asked to examine itself, at the API and on the socket in the
// data directory.
const DoctorPath = "/jibe/v1/doctor"

// examine answers with what the checks found: [doctor.Result].
func (s *Server) examine(w http.ResponseWriter, r *http.Request) {
	t := &doctor.Target{
		Data: s.data.Path, Branch: s.Branch, Remote: s.Remote, Certificates: certificates(s.Options),
		Settings: func(context.Context) (*desired.Settings, error) { return s.repo.Settings() },
		Keeper:   func() (*secret.Keeper, error) { return reopened(s.Options) },
		VIM: func(ctx context.Context, v *desired.VIM) (drivers.Sight, error) {
			return lookAt(ctx, v, s.keeper, s.Reach.KubeconfigExec, s.egress.ForConfigured(), s.Log)
		},
		Audit: func(context.Context) (string, error) {
			if err := s.audit.File().Ready(); err != nil {
				return "", err
			}
			return "it is written, and stands at record " + fmt.Sprint(s.audit.File().End().Seq), nil
		},
		Hooks: confinedHere(s.Confinement), HooksAllowed: s.AllowHooks.String() != "",
		Health: s.health,
	}
	if s.forge != nil {
		t.Token = s.forge.Check
	}
	s.replica.Show(t)
	answer.JSON(w, http.StatusOK, doctor.Run(r.Context(), t.Checks(r.Context())))
}

// Examine runs the checks on a data directory on which no server runs. It uses of the options what
// says where things are and what may be reached.
func Examine(ctx context.Context, o Options) []doctor.Result {
	if data, err := filepath.Abs(o.Data); err == nil {
		o.Data = data
	}
	keeper := func() (*secret.Keeper, error) { return reopened(o) }
	guardOptions := o.Egress
	guardOptions.Log = o.Log
	guard := egress.New(guardOptions).ForConfigured()
	t := &doctor.Target{
		Data: o.Data, Branch: o.Branch, Remote: o.Remote, Certificates: certificates(o), Keeper: keeper,
		Settings: func(ctx context.Context) (*desired.Settings, error) { return settingsOf(ctx, o) },
		VIM: func(ctx context.Context, v *desired.VIM) (drivers.Sight, error) {
			k, err := keeper()
			if err != nil {
				return drivers.Sight{}, err
			}
			return lookAt(ctx, v, k, o.Reach.KubeconfigExec, guard, o.Log)
		},
		Hooks: confinedHere(o.Confinement), HooksAllowed: o.AllowHooks.String() != "",
	}
	if o.Forge.Token != "" {
		t.Token = func(ctx context.Context) error {
			client, err := o.Forge.Client(o.Remote, guard)
			if err != nil {
				return err
			}
			return client.Check(ctx)
		}
	}
	o.Store.Show(t, o.Data)
	if datadir.Exists(AuditFile(o.Data)) {
		t.Audit = func(context.Context) (string, error) { return auditEnd(o) }
	}
	return doctor.Run(ctx, t.Checks(ctx))
}

// certificates are the files that flags name, whose expiry is also shown as a metric.
func certificates(o Options) []doctor.Certificate {
	return []doctor.Certificate{
		{Flag: "--tls-cert", File: o.TLSCert}, {Flag: "--client-ca", File: o.ClientCA, Authorities: true},
		{Flag: "--notify-client-cert", File: o.Notify.Cert}, {Flag: "--notify-ca", File: o.Notify.CA, Authorities: true},
	}
}

// settingsOf reads the settings at head.
func settingsOf(ctx context.Context, o Options) (*desired.Settings, error) {
	dir := datadir.Desired(o.Data)
	head, err := git.ReadRef(dir, "refs/heads/"+cmp.Or(o.Branch, "main"))
	if err != nil {
		return nil, err
	}
	if head == "" {
		return nil, errors.New("there is no commit yet")
	}
	r := gitrepo.ReadOnly(dir, o.Branch)
	defer r.Close()
	return r.SettingsAt(ctx, head)
}

// reopened opens the key as a start does. It never makes one.
func reopened(o Options) (*secret.Keeper, error) {
	if _, err := os.Stat(filepath.Join(o.Data, secret.IdentityFile)); err != nil {
		return nil, err
	}
	by, err := o.Key.Lock()
	if err != nil {
		return nil, err
	}
	k, err := secret.Open(o.Data, by)
	if err != nil {
		return nil, err
	}
	return k.With(o.Reach)
}

// largestChecked is the size of an audit log up to which all of it is checked, bytes.
const largestChecked = 64 << 20

// auditEnd checks the audit log's present file against where it was noted to end.
func auditEnd(o Options) (string, error) {
	key, err := AuditKey(o.Data, o.Key)
	if err != nil {
		return "", err
	}
	end, err := audit.ReadHead(AuditHead(o.Data), key)
	if err != nil {
		return "", err
	}
	file := AuditFile(o.Data)
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Size() > largestChecked {
		return fmt.Sprintf("it was noted to end with record %d; it is too long to be checked here (jibe audit verify does)", end.Seq), nil
	}
	got, err := audit.Verify(audit.Check{Key: key, Ends: []audit.Head{end}, Partial: true}, file)
	if errors.Is(err, audit.ErrEmpty) {
		return "", fmt.Errorf("%s is empty, and the log was noted to end with record %d", file, end.Seq)
	} else if err != nil {
		return "", err
	}
	return fmt.Sprintf("records %d to %d are whole", got.First, got.End.Seq), nil
}

// confinedHere says how hooks are confined on this machine.
func confinedHere(c hooks.Confinement) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		c.Secret = slices.Clone(c.Secret)
		c.Launcher = []string{self, confine.Command}
		return (&hooks.Runner{Confinement: c}).Confined(ctx)
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
