// Package api is what the address of the API serves: the interfaces of ETSI, Jibe's own, and the web page, and who may
// use which of it. It adapts what the reconciler shows; it decides nothing.
package api

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/app/tracing"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/ui"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// Config are the parts that requests are answered by.
type Config struct {
	Repo       *gitrepo.Repo
	View       *reconciler.View
	Reconciler Reconciler
	Oplog      *oplog.Log
	Packages   *packages.Catalogue
	Problems   *Problems
	Reviewer   Reviewer
	Plans      *admission.Memory // what plans of callers hold
	Notify     *notify.Service
	Rollouts   *automation.Rollouts
	Keeper     *secret.Keeper
	Auth       auth.Authenticator
	Entrance   *entrance.Entrance
	Audit      audit.Log
	Tracing    *tracing.Tracing
	Meters     Meters
	Store      store.Store
	Proposals  sol.Proposals // nil where no forge is told
	// Claims are the packages that replicas work on, nil where this process is alone; Announces says whether it tells
	// subscribers of packages, and Members are the replicas.
	Claims    vnfpkgm.Claims
	Announces func() bool
	Members   func(ctx context.Context, instances iter.Seq[string]) ([]replicas.Member, error)
	// Freshness has requests see what other replicas have answered, and Whole those wait that would change something
	// while records may be lacking.
	Freshness *replicas.Freshness
	Whole     func(http.Handler) http.Handler
	Git       http.Handler
	Webhook   http.Handler
	Backups   *maintenance.Backups
	Doctor    http.Handler
	// Egress judges the addresses of VIMs, and Sources those of packages.
	Egress, Sources *egress.Guard
	Trust           csar.Trust
	UploadsDir      string
	Health          func() error
	// Remote is what the desired repository is a mirror of, "" where it is the only one, and Branch the desired one.
	Remote, Branch string
	BaseURL        string
	Version        string
	Page           PageOptions
	Keystone       bool // callers may have tokens of Keystone
	// InsecureDev lets everyone in, and OpenMetrics lets anyone read metrics and why the process isn't ready.
	InsecureDev, OpenMetrics bool
	Log                      *slog.Logger
}

// Reconciler is what requests have the reconciler do.
type Reconciler interface {
	Enqueue(instance string)
	DeleteOrphans(ctx context.Context, d reconciler.OrphanDeletion) (*reconciler.OrphansDeleted, error)
}

// Reviewer judges and plans proposals.
type Reviewer interface {
	Review(ctx context.Context, p *admission.Proposal, steps bool) (*admission.Verdict, error)
}

// Meters measure requests, and show all that is measured.
type Meters interface {
	Request(route, method string, status int, took time.Duration, of trace.Context)
	RejectedRequest(err error)
	Handler() http.Handler
}

// API answers requests.
type API struct {
	Config
	pkgm *vnfpkgm.Service
	page *ui.Service // nil where it is left out
}

// New makes it.
func New(c Config) *API {
	s := &API{Config: c}
	s.pkgm = s.newPackageAPI()
	return s
}

// PackageService is the interface of package management.
func (s *API) PackageService() *vnfpkgm.Service { return s.pkgm }

// WebPage is the web page, nil where it is left out. It is there once Handler was called.
func (s *API) WebPage() *ui.Service { return s.page }
