// Package sol is the ETSI NFV-SOL002/SOL003 v3.3.1 VNF lifecycle management
// interface (API version 2.0.0): Jibe's REST API.
//
// It turns requests into commits and operation records, and shows what git, the
// operation log and the VIM say. It decides nothing about what runs, never
// touches a VIM and never waits for an operation: it writes intent and answers.
// It imports neither reconciler nor drivers; what it needs of them is the interface [View].
package sol

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/auth"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// View shows the API what runs, and whether a change would be refused. The reconciler
// implements it. It is safe for concurrent use.
type View interface {
	// Running returns all objects and units of the instance that exist now, including those
	// that are being deleted. fresh is false, and seen empty, while the VIM can't be
	// observed; the API then shows the units of the last record.
	Running(ctx context.Context, instance string) (seen plan.Observed, fresh bool)
	// Drifted returns the keys of objects that are known to differ from what git says.
	Drifted(instance string) []string
	// Problems returns why the instance's file at head isn't obeyed; none where it is.
	Problems(instance string) []desired.Problem
	// Check says whether the change would be refused: by the render, by the VNFD's
	// rules or by the driver. before is nil for a new instance. It MUST NOT change
	// anything. A refusal is an [*InvalidError], a [*desired.Problem] or an error
	// that wraps one.
	Check(ctx context.Context, before, after *desired.Instance) error
	// Complete returns after with everything filled in that a change of package may leave
	// to Jibe: the pin, the generation, base and overlays, levels. before is the present
	// intent. An overlay without a package is one of the package that after names. Complete
	// MUST NOT alter its arguments; its errors are those of Check, and ErrUnknownPackage.
	Complete(ctx context.Context, before, after *desired.Instance) (*desired.Instance, error)
	// Definitions returns the files of its package that after, complete or not, is to list
	// (lcm-kubernetes-def-files), given those that a request lists; nil where the VIM
	// knows no such list. Its errors are those of Complete.
	Definitions(ctx context.Context, before, after *desired.Instance, listed []string) ([]string, error)
	// Find returns the newest package with this vnfdId, or [ErrUnknownPackage].
	Find(ctx context.Context, vnfdID string) (*vnfd.Package, error)
	// Package returns the package that the instance pins, else the newest one.
	Package(ctx context.Context, in *desired.Instance) (*vnfd.Package, error)
}

// ErrUnknownPackage is returned by [View] for a vnfdId or a pin that no package
// repository has. The API answers 422.
var ErrUnknownPackage = errors.New("no package repository has a package with this vnfdId")

// InvalidError refuses a request with the HTTP status that it carries.
type InvalidError struct {
	Status int
	Detail string
}

func (e *InvalidError) Error() string { return e.Detail }

// Secrets encrypts credentials before they are committed; [secret.Keeper] is one.
type Secrets interface {
	// Keep returns a reference to plaintext's ciphertext. It returns old if that is already a
	// reference to plaintext.
	Keep(old, plaintext string) (string, error)
}

// Config holds what the API works with. Repo, Operations, View and Secrets are required.
type Config struct {
	Repo       desired.Repo
	Operations *oplog.Log
	View       View
	Secrets    Secrets
	// Subscriptions serves /subscriptions; nil answers 404 there.
	Subscriptions Subscriptions
	// Auth identifies callers; nil refuses everybody.
	Auth auth.Authenticator
	// BaseURL is the address of the server for clients, "https://vnfm.example:9890": links
	// and Location start with it.
	BaseURL string
	// PageSize is how many entries a list shows at once; 0 is 1,000, a negative
	// number is no paging.
	PageSize int
	Now      func() time.Time
	NewID    func() string
	// Poke asks the reconciler to look at an instance. It returns at once.
	Poke func(instance string)
	Log  *slog.Logger
	// Observe is called for each request that was answered, for metrics. route is the
	// pattern, not the path.
	Observe func(route, method string, status int, took time.Duration)
}

const (
	defaultPageSize = 1000
	writeTimeout    = 60 * time.Second
	// briefsSize is how many bytes are kept of what was read of files that aren't head's: those
	// of 50,000 instances of which all change at once.
	briefsSize = 24 << 20
	briefSize  = 80 // without its texts
	apiVersion = "2.0.0"
	root       = "/vnflcm/v2"
)

// api holds the configuration while requests are served.
type api struct {
	Config
	mux *http.ServeMux
	// briefs are by the hash of the tree.
	briefs *lru.Cache[*brief]
	roster *roster
}

// New makes the handler of everything below /vnflcm/. Any other path is 404.
func New(c Config) http.Handler {
	if c.PageSize == 0 {
		c.PageSize = defaultPageSize
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	if c.Poke == nil {
		c.Poke = func(string) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Auth == nil {
		c.Auth = nobody{}
	}
	if c.Observe == nil {
		c.Observe = func(string, string, int, time.Duration) {}
	}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	a := &api{Config: c, mux: http.NewServeMux(), briefs: lru.New[*brief](briefsSize, briefsSize), roster: newRoster(c.Repo, c.Operations)}
	a.routes()
	return a
}

// nobody is an Authenticator that refuses everybody.
type nobody struct{}

func (nobody) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{}, auth.ErrUnauthenticated
}

// methods are the handlers of one path.
type methods map[string]handler

// handler serves one request; an error becomes a ProblemDetails.
type handler func(w http.ResponseWriter, r *http.Request) error

func (a *api) routes() {
	a.free("/vnflcm/api_versions", methods{http.MethodGet: a.versions("/vnflcm")})
	a.free(root+"/api_versions", methods{http.MethodGet: a.versions(root)})

	a.handle("/vnf_instances", methods{http.MethodGet: a.listInstances, http.MethodPost: a.createInstance})
	a.handle("/vnf_instances/{id}", methods{http.MethodGet: a.showInstance, http.MethodPatch: a.modifyInstance, http.MethodDelete: a.deleteInstance})
	a.handle("/vnf_instances/{id}/instantiate", methods{http.MethodPost: a.instantiate})
	a.handle("/vnf_instances/{id}/scale", methods{http.MethodPost: a.scale})
	a.handle("/vnf_instances/{id}/terminate", methods{http.MethodPost: a.terminate})
	a.handle("/vnf_instances/{id}/heal", methods{http.MethodPost: a.heal})
	a.handle("/vnf_instances/{id}/change_vnfpkg", methods{http.MethodPost: a.changePackage})
	a.handle("/vnf_instances/{id}/change_ext_conn", methods{http.MethodPost: a.changeExtConn})
	for _, task := range []string{"scale_to_level", "change_flavour", "operate", "create_snapshot", "revert_to_snapshot"} {
		a.handle("/vnf_instances/{id}/"+task, methods{http.MethodPost: unsupported(task)})
	}

	a.handle("/vnf_lcm_op_occs", methods{http.MethodGet: a.listOperations})
	a.handle("/vnf_lcm_op_occs/{id}", methods{http.MethodGet: a.showOperation})
	a.handle("/vnf_lcm_op_occs/{id}/retry", methods{http.MethodPost: a.retry})
	a.handle("/vnf_lcm_op_occs/{id}/rollback", methods{http.MethodPost: a.rollback})
	a.handle("/vnf_lcm_op_occs/{id}/fail", methods{http.MethodPost: a.fail})
	a.handle("/vnf_lcm_op_occs/{id}/cancel", methods{http.MethodPost: a.cancel})

	if a.Subscriptions != nil {
		a.handle("/subscriptions", methods{http.MethodGet: a.listSubscriptions, http.MethodPost: a.createSubscription})
		a.handle("/subscriptions/{id}", methods{http.MethodGet: a.showSubscription, http.MethodDelete: a.deleteSubscription})
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, "other", func(w http.ResponseWriter, r *http.Request) error {
			if _, err := a.caller(r); err != nil {
				return err
			}
			return problem(http.StatusNotFound, "there is no resource %s in this API", r.URL.Path)
		})
	})
}

// unsupported answers for an optional task of SOL003 that isn't offered (yet):
// such a resource doesn't exist (SOL013 clause 4.3.3.2).
func unsupported(task string) handler {
	return func(http.ResponseWriter, *http.Request) error {
		return problem(http.StatusNotFound, "the task %s is not supported yet", task)
	}
}

// link makes an absolute URI of a resource out of the parts of its path.
func (a *api) link(parts ...string) string {
	var b strings.Builder
	b.WriteString(a.BaseURL + root)
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// versions answers GET api_versions (SOL013 clause 9.3.2).
func (a *api) versions(prefix string) handler {
	body := map[string]any{
		"uriPrefix":   prefix,
		"apiVersions": []map[string]any{{"version": apiVersion, "isDeprecated": false}},
	}
	return func(w http.ResponseWriter, r *http.Request) error { return reply(w, http.StatusOK, body) }
}
