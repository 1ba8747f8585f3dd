package sol

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"context"

	"github.com/jibe-vnfm/jibe/sol/auth"
)

// ServeHTTP adds the headers to every answer that SOL013 clauses 4.2 and 9.1 require.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Version", apiVersion)
	w.Header().Set("Accept-Ranges", "none")
	a.mux.ServeHTTP(w, r)
}

// free registers a path that needs neither token nor Version header.
func (a *api) free(path string, m methods) {
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

// handle registers a path below the API's root. The order of the checks is who asks, for
// what, and how: 401, 405, 403, 400/406 for Version, 406, 415.
func (a *api) handle(path string, m methods) {
	path = root + path
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, path, func(w http.ResponseWriter, r *http.Request) error {
			id, err := a.caller(r)
			if err != nil {
				return err
			}
			h, err := m.of(w, r)
			if err != nil {
				return err
			}
			if err := allowed(id, r.Method); err != nil {
				return err
			}
			if err := checkVersion(r.Header.Get("Version")); err != nil {
				return err
			}
			if err := checkAccept(r.Header.Values("Accept")); err != nil {
				return err
			}
			if err := checkContentType(r); err != nil {
				return err
			}
			return h(w, r.WithContext(withCaller(r.Context(), id)))
		})
	})
}

// of finds the handler of the request's method, or refuses it with 405.
func (m methods) of(w http.ResponseWriter, r *http.Request) (handler, error) {
	if h, ok := m[r.Method]; ok {
		return h, nil
	}
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	w.Header().Set("Allow", allow)
	return nil, problem(http.StatusMethodNotAllowed, "%s is not possible on %s; possible is %s", r.Method, r.URL.Path, allow)
}

// serve runs the handler, answers with its error, and logs and counts the answer.
func (a *api) serve(w http.ResponseWriter, r *http.Request, route string, h handler) {
	start := a.Now()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		if p := recover(); p != nil {
			a.Log.ErrorContext(r.Context(), "request panicked", "route", route, "panic", p, "stack", string(debug.Stack()))
			if !rec.wrote {
				refuse(rec, fmt.Errorf("an internal error, which was logged"))
			}
		}
		a.Observe(route, r.Method, rec.status, a.Now().Sub(start))
	}()
	err := h(rec, r)
	switch {
	case err == nil:
	case rec.wrote:
		a.Log.ErrorContext(r.Context(), "answer broke off", "route", route, "error", err)
	default:
		if status := refuse(rec, err); status >= http.StatusInternalServerError {
			a.Log.ErrorContext(r.Context(), "request failed", "route", route, "method", r.Method, "status", status, "error", err)
		}
	}
}

// recorder remembers the status of the answer.
type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (r *recorder) WriteHeader(status int) {
	r.status, r.wrote = status, true
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.wrote = true
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the writer below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (a *api) caller(r *http.Request) (auth.Identity, error) { return a.Auth.Authenticate(r) }

func allowed(id auth.Identity, method string) error {
	need := auth.Operate
	if method == http.MethodGet {
		need = auth.Read
	}
	if !id.Role.Allows(need) {
		return problem(http.StatusForbidden, "%s has the role %q; this needs %q", id.Name, id.Role, need)
	}
	return nil
}

// version is SOL013 clause 9.1.2: three numbers, and a suffix of the implementation after a
// dash.
var version = regexp.MustCompile(`^([1-9][0-9]*\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*))(?:-impl:[^\s]+)?$`)

func checkVersion(h string) error {
	if h == "" {
		return problem(http.StatusBadRequest, "'Version' HTTP header missing; this API has version %s", apiVersion)
	}
	m := version.FindStringSubmatch(h)
	if m == nil {
		return problem(http.StatusBadRequest, "'Version' HTTP header %q is not of the form MAJOR.MINOR.PATCH; this API has version %s", h, apiVersion)
	}
	if m[1] != apiVersion {
		return problem(http.StatusNotAcceptable, "API version %s is not supported; this API has version %s", m[1], apiVersion)
	}
	return nil
}

// checkAccept refuses a client that takes no application/json (SOL013 clause 4.3).
func checkAccept(accept []string) error {
	if len(accept) == 0 {
		return nil
	}
	best, quality := -1, 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		rank := slices.Index([]string{"*/*", "application/*", "application/json"}, media)
		if rank <= best {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				continue
			}
		}
		best, quality = rank, q
	}
	if best >= 0 && quality > 0 {
		return nil
	}
	return problem(http.StatusNotAcceptable, "Accept is %q, but answers are application/json", strings.Join(accept, ", "))
}

// checkContentType refuses bodies that aren't JSON. Merge patches are accepted
// under their own name too: published descriptions of SOL003 disagree.
func checkContentType(r *http.Request) error {
	if r.ContentLength == 0 || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return nil
	}
	h := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(h)
	if err == nil && (media == "application/json" || media == "text/plain" ||
		media == "application/merge-patch+json" && r.Method == http.MethodPatch) {
		return nil
	}
	if r.Method == http.MethodPatch {
		return problem(http.StatusUnsupportedMediaType, "Content-Type is %q; use application/merge-patch+json", h)
	}
	return problem(http.StatusUnsupportedMediaType, "Content-Type is %q; use application/json", h)
}

// stamp formats a time as the API shows all times: RFC 3339 in UTC.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

type callerKey struct{}

func withCaller(ctx context.Context, id auth.Identity) context.Context {
	return context.WithValue(ctx, callerKey{}, id)
}

// callerOf returns the authenticated caller's name.
func callerOf(ctx context.Context) string {
	id, _ := ctx.Value(callerKey{}).(auth.Identity)
	return id.Name
}
