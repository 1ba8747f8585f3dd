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
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/rest"
	v1 "github.com/jibe-vnfm/jibe/sol/v1"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// View shows the API what runs, and whether a change would be refused. The reconciler
// implements it. It is safe for concurrent use.
type View interface {
	// Running returns all objects and units of the instance that exist now, including those
	// that are being deleted. fresh is false, and seen empty, while the VIM can't be
	// observed; the API then shows the units of the last record.
	Running(ctx context.Context, instance string) (seen plan.Observed, fresh bool)
	// Remains lists the objects that the VIM has of an instance, as its end would delete them.
	Remains(ctx context.Context, instance string) ([]string, error)
	// Workloads returns, by VDU id, the objects that the VNFCs of what was brought about last
	// belong to, as the VIM was sent them, without secrets; nil where the VIM has none.
	Workloads(ctx context.Context, instance string) (map[string]any, error)
	// Drifted returns the keys of objects that are known to differ from what git says.
	Drifted(instance string) []string
	// Prove returns a [*desired.UnprovenError] where a record of the instance names a revision that git doesn't prove.
	Prove(ctx context.Context, instance string, rev desired.Revision) error
	// MayBegin says whether an operation of a type may begin now on the instance in a directory,
	// by maintenance windows: why is "" where it may, and else tells people why not, and until is
	// when it may, zero for no time in sight.
	MayBegin(ctx context.Context, instance, dir string, t lcm.Type) (why string, until time.Time, err error)
	// Waiting says which operation isn't begun yet on the instance, and why; ok is false where none
	// waits.
	Waiting(instance string) (w StartWait, ok bool)
	// WaitingFor returns what the instance waits for, and since when, as its last look has found; ok is false where it
	// waits for nothing.
	WaitingFor(instance string) (what string, since time.Time, ok bool)
	// Problems returns why the instance's file at head isn't obeyed; none where it is.
	Problems(instance string) []desired.Problem
	// Check says whether the change would be refused: by the render, by the VNFD's
	// rules or by the driver. before is nil for a new instance. It MUST NOT change
	// anything. A refusal is an [*rest.InvalidError], a [*desired.Problem] or an error
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

// Secrets encrypt credentials before they are committed, each for where it stands, in an instance of the directory.
// Both return a reference to plaintext's ciphertext, and old if that is already one.
type Secrets interface {
	// KeepParam is for everything but connections.
	KeepParam(dir, old, plaintext string) (string, error)
	// KeepConnection is for vimConnectionInfo with that endpoint.
	KeepConnection(dir, endpoint, old, plaintext string) (string, error)
}

// Config holds what the API works with. Repo, Operations, View and Secrets are required.
type Config struct {
	rest.Config
	Repo       desired.Repo
	Operations *oplog.Log
	View       View
	Secrets    Secrets
	// Proposals propose the requests of projects that want them proposed; nil where no forge is told.
	Proposals Proposals
	// Subscriptions serves /subscriptions; nil answers 404 there.
	Subscriptions Subscriptions
	// SubscriptionsV1 is Subscriptions of /vnflcm/v1.
	SubscriptionsV1 Subscriptions
	NewID           func() string
	// Poke asks the reconciler to look at an instance. It returns at once.
	Poke func(instance string)
}

const (
	writeTimeout = 60 * time.Second
	// briefsSize is how many bytes are kept of what was read of files that aren't head's: those
	// of 50,000 instances of which all change at once.
	briefsSize = 24 << 20
	briefSize  = 80 // without its texts
	name       = "vnflcm"
	apiVersion = "2.0.0"
	root       = "/vnflcm/v2"
	rootV1     = "/vnflcm/v1"
)

// api holds the configuration while requests are served.
type api struct {
	Config
	*rest.API
	// briefs are by the hash of the tree.
	briefs  *lru.Cache[*brief]
	roster  *roster
	schemas schemas
}

// New makes the handler of everything below /vnflcm/. Any other path is 404.
func New(c Config) *Service {
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	if c.Poke == nil {
		c.Poke = func(string) {}
	}
	c.Config = c.Complete()
	a := &api{Config: c, briefs: lru.New[*brief](briefsSize, briefsSize), roster: newRoster(c.Repo, c.Operations), schemas: newSchemas(),
		API: rest.New(c.Config, rest.Interface{Name: name, Root: root, Versions: versionsV2(), Status: statusOf})}
	a.APIVersions("/vnflcm", append(versionsV1(), versionsV2()...)...)
	a.APIVersions(root, versionsV2()...)
	a.routes()
	a.routesSince3()
	mux := http.NewServeMux()
	mux.Handle("/", a.API)
	older := a.v1()
	mux.Handle(rootV1, older)
	mux.Handle(rootV1+"/", older)
	return &Service{Handler: mux, api: a}
}

// versionsV2 are those of SOL003 v3.3.1, which an answer has where none was asked for, and of
// v3.7.1.
func versionsV2() []string { return []string{apiVersion, version371} }

// versionsV1 are those of SOL003 v2.6.1 and its successors, and before.
func versionsV1() []string { return []string{"1.3.0", "1.2.0", "1.1.0"} }

// v1 returns the same handlers below /vnflcm/v1, for clients of SOL003 v2.6.1. Some of these
// send no Version with some requests.
func (a *api) v1() http.Handler {
	older := *a
	older.Subscriptions = a.SubscriptionsV1
	older.API = rest.New(a.Config.Config, rest.Interface{Name: name, Root: rootV1, Versions: versionsV1(), VersionOptional: true,
		Form: &rest.Form{Request: v1.Request, Answer: v1.Answer}, Status: statusOf})
	older.APIVersions(rootV1, versionsV1()...)
	older.routes()
	return older.API
}

// routes registers what all versions of the interface have.
func (a *api) routes() {
	a.Handle("/vnf_instances", rest.Methods{http.MethodGet: a.listInstances, http.MethodPost: a.createInstance})
	a.Handle("/vnf_instances/{id}", rest.Methods{http.MethodGet: a.showInstance, http.MethodPatch: a.modifyInstance, http.MethodDelete: a.deleteInstance})
	a.Handle("/vnf_instances/{id}/instantiate", rest.Methods{http.MethodPost: a.instantiate})
	a.Handle("/vnf_instances/{id}/scale", rest.Methods{http.MethodPost: a.scale})
	a.Handle("/vnf_instances/{id}/terminate", rest.Methods{http.MethodPost: a.terminate})
	a.Handle("/vnf_instances/{id}/heal", rest.Methods{http.MethodPost: a.heal})
	a.Handle("/vnf_instances/{id}/change_ext_conn", rest.Methods{http.MethodPost: a.changeExtConn})
	a.Handle("/vnf_instances/{id}/scale_to_level", rest.Methods{http.MethodPost: a.scaleToLevel})
	a.Handle("/vnf_instances/{id}/change_flavour", rest.Methods{http.MethodPost: a.changeFlavour})
	a.Handle("/vnf_instances/{id}/operate", rest.Methods{http.MethodPost: a.operate})

	a.Handle("/vnf_lcm_op_occs", rest.Methods{http.MethodGet: a.listOperations})
	a.Handle("/vnf_lcm_op_occs/{id}", rest.Methods{http.MethodGet: a.showOperation})
	a.Handle("/vnf_lcm_op_occs/{id}/retry", rest.Methods{http.MethodPost: a.retry})
	a.Handle("/vnf_lcm_op_occs/{id}/rollback", rest.Methods{http.MethodPost: a.rollback})
	a.Handle("/vnf_lcm_op_occs/{id}/fail", rest.Methods{http.MethodPost: a.fail})
	a.Handle("/vnf_lcm_op_occs/{id}/cancel", rest.Methods{http.MethodPost: a.cancel})

	if a.Subscriptions != nil {
		a.Handle("/subscriptions", rest.Methods{http.MethodGet: a.listSubscriptions, http.MethodPost: a.createSubscription})
		a.Handle("/subscriptions/{id}", rest.Methods{http.MethodGet: a.showSubscription, http.MethodDelete: a.deleteSubscription})
	}
}

// routesSince3 registers what SOL003 has since v3.3.1.
func (a *api) routesSince3() {
	a.Handle("/vnf_instances/{id}/change_vnfpkg", rest.Methods{http.MethodPost: a.changePackage})
	for _, task := range []string{"create_snapshot", "revert_to_snapshot"} {
		a.Handle("/vnf_instances/{id}/"+task, rest.Methods{http.MethodPost: unsupported(task)})
	}
}

// unsupported answers for an optional task of SOL003 that isn't offered (yet):
// such a resource doesn't exist (SOL013 clause 4.3.3.2).
func unsupported(task string) rest.Handler {
	return func(http.ResponseWriter, *http.Request) error {
		return rest.Problem(http.StatusNotFound, "the task %s is not supported yet", task)
	}
}
