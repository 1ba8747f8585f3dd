package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/app/tracing"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/ui"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// host is what a process has of the machine that it runs on, and of the flags that it was started with.
type host struct {
	Options
	meters   *metrics.Meters
	tracing  *tracing.Tracing
	listener *listener.Listener
	trust    csar.Trust
	data     *datadir.Dir
	keeper   *secret.Keeper
	egress   *egress.Guard
	audit    *entrance.Recorder
	entrance *entrance.Entrance
	webhook  *forgesync.Webhook
	forge    forge.Client // nil where no forge is told
	auth     auth.Authenticator
	// identities and clientCAs are nil where everyone is let in, or no certificate is asked for.
	identities *auth.Identities
	clientCAs  *auth.ClientCAs
}

// openHost opens it. It returns what is to be closed also with an error.
func openHost(ctx context.Context, o Options) (*host, error) {
	h := &host{Options: o, meters: metrics.New(metrics.Config{
		Version: o.Version, Revision: o.Revision, Off: o.Unmeasured, Unconfined: o.Confinement.Unconfined && o.AllowHooks.String() != "",
	})}
	return h, h.open(ctx)
}

// open opens the parts of the host, in the order in which they need each other.
func (s *host) open(ctx context.Context) error {
	var err error
	if s.listener, err = listener.New(s.listening()); err != nil {
		return err
	}
	if err := errors.Join(s.listener.Check(), s.checkHooks(), s.checkGiven(), s.checkShared()); err != nil {
		return err
	}
	if s.trust, err = csar.LoadTrust(s.Packages.Trust, s.Packages.RequireSignatures); err != nil {
		return fmt.Errorf("signatures of packages (--package-trust, --require-signatures): %w", err)
	}
	if err := s.openData(ctx); err != nil {
		return err
	}
	if s.audit, err = entrance.Open(s.data.Path, s.keeper.Derive(datadir.AuditPurpose), s.Audit, s.Version, s.Started, s.Log); err != nil {
		return err
	}
	if s.entrance, err = entrance.New(s.Audit.TrustedProxies, s.audit, s.Log); err != nil {
		return err
	}
	if s.webhook, err = forgesync.NewWebhook(s.webhooks(s.entrance)); err != nil {
		return err
	}
	if s.auth, err = s.authenticator(); err != nil {
		return err
	}
	s.auth = entrance.Judged{Authenticator: s.auth}
	s.egress = s.newGuard()
	if s.forge, err = s.Forge.Client(s.Remote, s.egress.ForConfigured()); err != nil {
		return err
	}
	s.tracing, err = tracing.Open(s.Trace, s.egress, s.Version, s.Log)
	return err
}

// openData opens the data directory and its key.
func (s *host) openData(ctx context.Context) error {
	var err error
	if s.data, err = datadir.Open(s.Data, s.Log); err != nil {
		return err
	}
	if err := s.data.CheckComplete(s.Remote); err != nil {
		return err
	}
	if !s.shared() {
		if err := s.data.MakePackages(ctx); err != nil {
			return fmt.Errorf("package repository: %w", err)
		}
	}
	s.keeper, err = s.openKeeper()
	return err
}

// close closes what was opened, and records the end.
func (s *host) close() error {
	var errs []error
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.data != nil {
		_ = os.Remove(s.data.Hooks()) // empty, or not there: no hook runs any more
		errs = append(errs, s.data.Close())
	}
	return errors.Join(errs...)
}

// deferred tells those who ask meanwhile why the start waits for the store.
func (s *host) deferred(err error) (stop func(), lerr error) {
	why := "starting: the store isn't reached yet\n"
	if s.OpenMetrics || s.InsecureDev {
		why = "starting: " + err.Error() + "\n"
	}
	return s.listener.Defer(s.data, why)
}

// pageOf is the address of a page, "" where there is none.
func (s *host) pageOf(kind, id string) string {
	if s.Page.Off {
		return ""
	}
	return strings.TrimSuffix(s.BaseURL, "/") + ui.Root + kind + url.PathEscape(id)
}
