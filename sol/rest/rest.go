// Package rest is what every HTTP interface of Jibe has from ETSI NFV-SOL013: who may ask,
// versions and media types, ProblemDetails, bodies with limits, lists with filters, selectors
// and pages, and what is logged and counted of each request.
//
// It owns the form of requests and answers. It knows no resource: what a path means, which
// errors an interface has of its own and what is written anywhere is the interface's.
package rest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// Config is what all interfaces of a server have in common.
type Config struct {
	// Auth identifies callers; nil refuses everybody.
	Auth auth.Authenticator
	// BaseURL is the address of the server for clients, "https://vnfm.example:9890": links
	// and Location start with it.
	BaseURL string
	// PageSize is how many entries a list shows at once; 0 is 1,000, a negative
	// number is no paging.
	PageSize int
	Now      func() time.Time
	Log      *slog.Logger
	// Observe is called for each request that was answered, for metrics. route is the
	// pattern, not the path.
	Observe func(ctx context.Context, route, method string, status int, took time.Duration)
}

const defaultPageSize = 1000

// Complete returns the configuration with defaults in place of what is missing.
func (c Config) Complete() Config {
	if c.PageSize == 0 {
		c.PageSize = defaultPageSize
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Auth == nil {
		c.Auth = nobody{}
	}
	if c.Observe == nil {
		c.Observe = func(context.Context, string, string, int, time.Duration) {}
	}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	return c
}

// nobody is an Authenticator that refuses everybody.
type nobody struct{}

func (nobody) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{}, auth.ErrUnauthenticated
}

// Interface is one major version of an interface: everything below one root.
type Interface struct {
	// Name is the interface's name, "vnflcm".
	Name string
	// Root is the path of the interface without a slash at its end, "/vnflcm/v2".
	Root string
	// Versions are the API versions that a client may ask for. Without any there is no
	// Version header: the interface is none of SOL013's.
	Versions []string
	// VersionOptional says that a request without Version is one for the first of Versions.
	VersionOptional bool
	// Form is how its clients write and read bodies, where that isn't how its handlers do; nil
	// is the same.
	Form *Form
	// Needs says what a method of a path needs; nil is [access.Needs]. What it doesn't know is
	// refused to everybody.
	Needs func(method, path string) (access.Need, bool)
	// Status returns the HTTP status for the interface's own errors, 0 for others. nil
	// knows none.
	Status func(error) int
}

// Form translates between the bodies of an interface's clients and those of its handlers: by
// it, the handlers of one version serve an older one. Both get JSON objects as encoding/json
// decodes them, with numbers as json.Number, and alter them.
type Form struct {
	// Request turns a request's body into what handlers read. Its errors say what is wrong
	// with the body, for the client.
	Request func(body map[string]any) error
	// Answer turns a resource as handlers show it into what clients read. Filters and
	// selectors are applied to the outcome.
	Answer func(body map[string]any)
}

// API serves one [Interface]. It is safe for concurrent use once all paths are registered.
type API struct {
	config Config
	about  Interface
	mux    *http.ServeMux
	zips   sync.Pool // of *gzip.Writer
}

// New returns an API without any path.
func New(c Config, i Interface) *API {
	if i.Needs == nil {
		i.Needs = access.Needs
	}
	a := &API{config: c.Complete(), about: i, mux: http.NewServeMux()}
	a.zips.New = func() any {
		// The level is a valid one.
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		return z
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, "other", func(w http.ResponseWriter, r *http.Request) error {
			if _, err := a.config.Auth.Authenticate(r); err != nil {
				return err
			}
			return Problem(http.StatusNotFound, "there is no resource %s in this API", r.URL.Path)
		})
	})
	return a
}

// Handler serves one request. An error becomes a ProblemDetails: one of [Problem], of
// [Interface].Status, or of those that this package knows (see [API.status]); any other is
// 500 and gets logged.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Methods are the handlers of one path by method. HEAD is answered by GET's.
type Methods map[string]Handler

// Media are the media types of one path. The zero value is JSON alone, as nearly all have it.
type Media struct {
	// Takes are the types of a request's body, in place of JSON's. A type that ends with
	// "/*" stands for all of its kind.
	Takes []string
	// Gives are the types of the answer's body, in place of JSON's. "*/*" leaves it to the
	// handler to look at Accept.
	Gives []string
}

// Handle registers a path below the root. The order of the checks is who asks, for
// what, and how: 401, 405, 403, 400/406 for Version, 406, 415. The handler finds the caller
// with [Caller] and the API version that was asked for with [Version].
func (a *API) Handle(path string, m Methods) { a.HandleMedia(path, Media{}, m) }

// HandleMedia is Handle for a path whose bodies aren't JSON alone.
func (a *API) HandleMedia(path string, media Media, m Methods) {
	path = a.about.Root + path
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, path, func(w http.ResponseWriter, r *http.Request) error {
			id, err := a.config.Auth.Authenticate(r)
			if err != nil {
				return err
			}
			h, err := m.of(w, r)
			if err != nil {
				return err
			}
			need, known := a.about.Needs(r.Method, path)
			if !known {
				return Problem(http.StatusForbidden, "nobody may use %s on %s: what it needs isn't said", r.Method, path)
			}
			if err := need.Denied(id); err != nil {
				return Problem(http.StatusForbidden, "%v", err)
			}
			version, err := a.negotiate(w, r)
			if err != nil {
				return err
			}
			if err := checkAccept(r.Header.Values("Accept"), media.Gives); err != nil {
				return err
			}
			if err := checkContentType(r, media.Takes); err != nil {
				return err
			}
			return h(w, r.WithContext(context.WithValue(r.Context(), askedKey{}, asked{id, need.Role, version, formFor(id, a.about.Form)})))
		})
	})
}

// Free registers a path, from the server's root, that needs neither token nor Version header.
func (a *API) Free(path string, m Methods) {
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, path, func(w http.ResponseWriter, r *http.Request) error {
			h, err := m.of(w, r)
			if err != nil {
				return err
			}
			return h(w, r)
		})
	})
}

// APIVersions registers GET api_versions (SOL013 clause 9.3.2) below the prefix, which is a
// path from the server's root without a slash at its end.
func (a *API) APIVersions(prefix string, versions ...string) {
	list := []map[string]any{}
	for _, v := range versions {
		list = append(list, map[string]any{"version": v, "isDeprecated": false})
	}
	body := map[string]any{"uriPrefix": prefix, "apiVersions": list}
	a.Free(prefix+"/api_versions", Methods{http.MethodGet: func(w http.ResponseWriter, r *http.Request) error {
		return Reply(w, r, http.StatusOK, body)
	}})
}

// of finds the handler of the request's method, or refuses it with 405.
func (m Methods) of(w http.ResponseWriter, r *http.Request) (Handler, error) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := m[method]; ok {
		return h, nil
	}
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	w.Header().Set("Allow", allow)
	return nil, Problem(http.StatusMethodNotAllowed, "%s is not possible on %s; possible is %s", r.Method, r.URL.Path, allow)
}

// ServeHTTP adds the headers to every answer that SOL013 clauses 4.2 and 9.1 require.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(a.about.Versions) > 0 {
		w.Header().Set("Version", a.about.Versions[0])
	}
	w.Header().Set("Accept-Ranges", "none")
	a.mux.ServeHTTP(w, r)
}

// serve runs the handler, answers with its error, and logs and counts the answer. An answer
// that can't be completed ends with the connection, so that nobody takes it for whole.
func (a *API) serve(w http.ResponseWriter, r *http.Request, route string, h Handler) {
	start := a.config.Now()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK, zips: &a.zips, zip: takesGzip(r)}
	err := a.run(rec, r, route, h)
	broken := err != nil && rec.wrote
	switch {
	case broken:
		a.config.Log.ErrorContext(r.Context(), "answer broke off", "route", route, "error", err)
	case err != nil && a.status(err) == http.StatusNotFound:
		status, detail := Missing(r.Context(), err.Error())
		a.refuse(rec, Problem(status, "%s", detail))
	case err != nil:
		if status := a.refuse(rec, err); status >= http.StatusInternalServerError {
			a.config.Log.ErrorContext(r.Context(), "request failed", "route", route, "method", r.Method, "status", status, "error", err)
		}
	}
	rec.end(broken)
	a.config.Observe(r.Context(), route, r.Method, rec.status, a.config.Now().Sub(start))
	if broken {
		panic(http.ErrAbortHandler)
	}
}

// errPanicked is what a client is told of a handler's panic.
var errPanicked = errors.New("an internal error, which was logged")

// run calls the handler. A panic is logged and returned as an error.
func (a *API) run(rec *recorder, r *http.Request, route string, h Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.config.Log.ErrorContext(r.Context(), "request panicked", "route", route, "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return h(rec, r)
}

// Link makes an absolute URI of a resource out of the parts of its path.
func (a *API) Link(parts ...string) string {
	var b strings.Builder
	b.WriteString(a.config.BaseURL + a.about.Root)
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

type askedKey struct{}

// asked is what is known of a request once it was let in.
type asked struct {
	caller  auth.Identity
	role    auth.Role
	version string
	form    *Form
}

func formOf(ctx context.Context) *Form {
	a, _ := ctx.Value(askedKey{}).(asked)
	return a.form
}

// Caller returns who sent the request of the context.
func Caller(ctx context.Context) auth.Identity {
	a, _ := ctx.Value(askedKey{}).(asked)
	return a.caller
}

// Role returns the role that the request of the context needs in the project of what it
// concerns.
func Role(ctx context.Context) auth.Role {
	a, _ := ctx.Value(askedKey{}).(asked)
	return a.role
}

// Version returns the API version that the request of the context asks for, which is one of
// [Interface].Versions; "" where there are none.
func Version(ctx context.Context) string {
	a, _ := ctx.Value(askedKey{}).(asked)
	return a.version
}

// Stamp formats a time as all interfaces show all times: RFC 3339 in UTC.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// SingleSlashes hands requests on with one slash in place of several in a row, which
// [http.ServeMux] would answer with a redirect that most clients don't follow for a POST.
// A path with a "." or ".." in it is 404, as it names no resource.
func SingleSlashes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if strings.Contains(path, "//") {
			for strings.Contains(path, "//") {
				path = strings.ReplaceAll(path, "//", "/")
			}
			plain, err := url.PathUnescape(path)
			if err != nil {
				// The server has read it once already.
				refuse(w, "", Problem(http.StatusBadRequest, "the path can't be read"), http.StatusBadRequest)
				return
			}
			u := *r.URL
			u.Path, u.RawPath = plain, path
			r = r.WithContext(r.Context())
			r.URL = &u
		}
		for part := range strings.SplitSeq(path, "/") {
			if part == "." || part == ".." {
				refuse(w, "", Problem(http.StatusNotFound, "there is no resource %s", r.URL.Path), http.StatusNotFound)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// NotFound answers with a ProblemDetails for every path that no interface has: 401 or 404.
func NotFound(c Config) http.Handler {
	return New(c, Interface{Name: "jibe"})
}
