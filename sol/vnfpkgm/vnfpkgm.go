// Package vnfpkgm is the VNF package management interface: SOL003 v3.3.1 clause 10
// (/vnfpkgm/v2) and v2.6.1 (/vnfpkgm/v1), with what SOL005 adds for whoever brings packages
// in: create, upload, modify and delete.
//
// It receives archives, holds them against every rule, and has what passes written into a
// package repository as one commit ([packages.Catalogue]). It shows what the catalogue says.
// It keeps nothing of its own but archives that aren't in git yet, in a directory; and it
// never decides which package an instance runs.
package vnfpkgm

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"syscall"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// Secrets encrypts what must not be stored in clear, and gives it back; [secret.Keeper] is one.
type Secrets interface {
	Encrypt(clear string) (reference string, err error)
	Resolve(reference string) (clear string, err error)
}

// Config holds what the interface works with. Catalogue, Validate, Settings, Dir, Secrets and
// Used are required.
type Config struct {
	rest.Config
	// Settings are those by which package repositories belong to projects.
	Settings  func() (*desired.Settings, error)
	Catalogue *packages.Catalogue
	// Validate returns what is wrong with a package; one with an error is refused.
	Validate func(fs.FS) []vnfd.Problem
	// Dir is where archives are kept until they are in git, on the file system of the package
	// repositories. It is made.
	Dir     string
	Secrets Secrets
	// Used returns a function that says whether an instance is of a vnfdId, as of now.
	Used func() func(vnfdID string) bool
	// Subscriptions are those of the version with the root ([notify.Service.Subscriptions]), and
	// Outbox and Store are for what subscribers are told. Without them there are none.
	Subscriptions func(root string) *notify.Subscriptions
	Outbox        Outbox
	Store         store.Store
	// Announces says whether this process is the one of several that tells subscribers of packages;
	// nil: it is the only one.
	Announces func() bool
	// Claims say which of several processes works on which package; nil: none but this one does.
	Claims Claims
	// Limits bound archives; zero fields are [csar.DefaultLimits].
	Limits csar.Limits
	// Trust says which signatures are believed.
	Trust csar.Trust
	// Egress says which addresses archives may be fetched from; nil is the strictest guard.
	Egress *egress.Guard
	// Audit is told what came of each archive; nil is nobody.
	Audit audit.Log
}

// Service is the interface and what goes on behind it. It is safe for concurrent use.
type Service struct {
	Config
	newID func() string

	uploads chan struct{} // of archives that are received at once

	mu     sync.Mutex
	busy   map[string]string            // id -> UPLOADING or PROCESSING
	failed map[string]*packages.Failure // which couldn't be recorded
	queue  []string                     // ids with work to do
	sums   sync.Map                     // tree -> SHA-256 of its archive
	wake   chan struct{}

	telling sync.Mutex
	told    map[string]known // by id; nil where it isn't known
	handler http.Handler
}

// maxUploads is how many archives are received at once; maxWork how many are unpacked.
const (
	maxUploads = 16
	maxWork    = 2
)

// New makes the interface. Nothing that was uploaded gets into git before [Service.Run].
func New(c Config) *Service {
	c.Config = c.Config.Complete()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = audit.Discard{}
	}
	s := &Service{Config: c, newID: uuid.NewString, uploads: make(chan struct{}, maxUploads),
		busy: map[string]string{}, failed: map[string]*packages.Failure{}, wake: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	v2 := s.version(rest.Interface{Name: "vnfpkgm", Root: "/vnfpkgm/v2", Versions: []string{"2.1.0"}})
	v1 := s.version(rest.Interface{Name: "vnfpkgm", Root: "/vnfpkgm/v1", Versions: []string{"1.3.0", "1.2.0", "1.1.0", "1.0.0"}, VersionOptional: true})
	v2.APIVersions("/vnfpkgm", "1.3.0", "2.1.0")
	v2.APIVersions("/vnfpkgm/v2", "2.1.0")
	v1.APIVersions("/vnfpkgm/v1", "1.3.0")
	mux.Handle("/", v2)
	mux.Handle("/vnfpkgm/v1/", v1)
	s.handler = mux
	return s
}

// ServeHTTP serves everything below /vnfpkgm/.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// edition is one major version of the interface.
type edition struct {
	*Service
	*rest.API
	old bool // v2.6.1, which knows fewer attributes
}

// version registers the paths of a major version.
func (s *Service) version(about rest.Interface) *rest.API {
	about.Status = status
	api := rest.New(s.Config.Config, about)
	e := edition{s, api, about.VersionOptional}
	anything := rest.Media{Gives: []string{"*/*"}}
	api.Handle("/vnf_packages", rest.Methods{http.MethodGet: e.list(false), http.MethodPost: e.create})
	api.Handle("/vnf_packages/{id}", rest.Methods{http.MethodGet: e.show, http.MethodPatch: e.modify, http.MethodDelete: e.remove})
	api.HandleMedia("/vnf_packages/{id}/package_content", rest.Media{Takes: archiveTypes(), Gives: anything.Gives},
		rest.Methods{http.MethodGet: e.content, http.MethodPut: e.upload})
	api.Handle("/vnf_packages/{id}/package_content/upload_from_uri", rest.Methods{http.MethodPost: e.uploadFromURI})
	api.Handle("/onboarded_vnf_packages", rest.Methods{http.MethodGet: e.list(true)})
	api.Handle("/onboarded_vnf_packages/{vnfdId}", rest.Methods{http.MethodGet: e.show})
	api.HandleMedia("/onboarded_vnf_packages/{vnfdId}/package_content", anything, rest.Methods{http.MethodGet: e.content})
	if s.Subscriptions != nil {
		subs := subscriptions{api, s.Subscriptions(about.Root)}
		api.Handle("/subscriptions", rest.Methods{http.MethodGet: subs.list, http.MethodPost: subs.create})
		api.Handle("/subscriptions/{id}", rest.Methods{http.MethodGet: subs.show, http.MethodDelete: subs.remove})
	}
	for _, one := range []string{"/vnf_packages/{id}", "/onboarded_vnf_packages/{vnfdId}"} {
		api.HandleMedia(one+"/vnfd", anything, rest.Methods{http.MethodGet: e.vnfd})
		api.HandleMedia(one+"/manifest", anything, rest.Methods{http.MethodGet: e.manifest})
		api.HandleMedia(one+"/artifacts", anything, rest.Methods{http.MethodGet: e.artifacts})
		api.HandleMedia(one+"/artifacts/{path...}", anything, rest.Methods{http.MethodGet: e.artifact})
	}
	return api
}

// archiveTypes are the media types of an upload.
func archiveTypes() []string {
	return []string{"application/zip", "application/octet-stream", "multipart/form-data", "application/x-zip-compressed"}
}

// find returns the package that the request's path names.
func (s *Service) find(r *http.Request) (packages.Onboarded, error) {
	if id := r.PathValue("id"); id != "" {
		o, err := s.Catalogue.Onboard(id)
		if err == nil {
			err = s.permit(r, &o)
		}
		if errors.Is(err, packages.ErrUnknown) || errors.Is(err, access.ErrHidden) {
			return o, rest.Problem(http.StatusNotFound, "VNF package %.100s does not exist", id)
		}
		return o, err
	}
	vnfdID := r.PathValue("vnfdId")
	for _, o := range s.Catalogue.Onboarded() {
		if o.Entry != nil && o.Entry.VnfdID == vnfdID && s.state(&o) == onboarded {
			if err := s.permit(r, &o); !errors.Is(err, access.ErrHidden) {
				return o, err
			}
		}
	}
	return packages.Onboarded{}, rest.Problem(http.StatusNotFound, "no VNF package with the VNFD id %.100s is on-boarded", vnfdID)
}

// status turns errors into HTTP statuses.
func status(err error) int {
	var invalid *vnfd.InvalidError
	var path *fs.PathError
	switch {
	case errors.Is(err, notify.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, notify.ErrCallback):
		return http.StatusUnprocessableEntity
	case errors.Is(err, packages.ErrUnknown), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, packages.ErrReadOnly):
		return http.StatusConflict
	case errors.As(err, &invalid), errors.Is(err, csar.ErrUnsafe), errors.Is(err, packages.ErrUnsound), errors.Is(err, csar.ErrSignature):
		return http.StatusUnprocessableEntity
	case errors.Is(err, csar.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, packages.ErrMoved), errors.Is(err, packages.ErrAway), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.As(err, &path):
		return http.StatusServiceUnavailable
	}
	return 0
}

// author is the caller as git writes people.
func author(r *http.Request) string {
	who := rest.Caller(r.Context())
	return cmp.Or(who.String(), "somebody") + " <" + url.PathEscape(cmp.Or(who.Name, "somebody")) + "@jibe.invalid>"
}
