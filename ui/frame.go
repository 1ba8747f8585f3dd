package ui

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/store"
)

//go:embed templates
var templates embed.FS

// pages are the parsed templates, by the name of their file without ".html".
type pages map[string]*template.Template

// Frame is what every page's template gets: what the layout shows, and Data, which is the page's own.
type Frame struct {
	// Page is the name of the page's template.
	Page string
	// Who is the caller, nobody on pages that need no session; May says what they may do.
	Who auth.Identity
	May string
	// CSRF is the token that each form sends in the field "csrf".
	CSRF string
	// Theme is "light", "dark" or "", which is what the system prefers.
	Theme   string
	Version string
	// Path and URL are those of the request; URL has the query.
	Path, URL string
	// LoggedIn says that there is a session that can be ended.
	LoggedIn bool
	// Since is the last event before the page was drawn: what changes from then on isn't on it.
	Since string
	Now   time.Time
	Data  any
}

// Operator says whether the caller is an operator of some project: whether buttons that change
// something are worth showing at all.
func (f *Frame) Operator() bool { return f.Who.MayAnywhere(auth.Operator) }

// Everywhere says whether the caller may look at what belongs to no project, such as rollouts.
func (f *Frame) Everywhere() bool { return f.Who.May(auth.Viewer, "") && f.Who.EM == "" }

// parse reads all templates: each page is the layout with the page's own blocks ("title",
// "where", "content") in it. Templates whose names begin with "part-" are known to all pages.
func (s *Service) parse() (pages, error) {
	shared, err := template.New("layout.html").Funcs(s.functions()).ParseFS(templates, "templates/layout.html")
	if err != nil {
		return nil, err
	}
	if parts, _ := fs.Glob(templates, "templates/part-*.html"); len(parts) > 0 {
		if shared, err = shared.ParseFS(templates, parts...); err != nil {
			return nil, err
		}
	}
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := pages{}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || strings.HasPrefix(name, "part-") {
			continue
		}
		page, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if all[name], err = page.ParseFS(templates, file); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// functions are those that templates may call.
func (s *Service) functions() template.FuncMap {
	return template.FuncMap{
		"static": s.static.path,
		"short":  short,
		"ago":    ago,
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"join":   strings.Join,
		"inc":    func(n int) int { return n + 1 },
		"args":   func(all ...any) []any { return all },
		// A line of a diff: its sign, and the class of its colour.
		"diffsign":   func(op byte) string { return strings.TrimSpace(string(op)) },
		"diffclass":  diffClass,
		"branchlink": branchLink,
	}
}

// short is the beginning of a hash or id that a person tells others by.
func short(hash string) string { return hash[:min(len(hash), 8)] }

// ago is how long before now a time was, in the largest unit that fits: "3 min ago".
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return t.UTC().Format("2006-01-02 15:04 UTC")
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// render answers with a page and status 200.
func (s *Service) render(w http.ResponseWriter, r *http.Request, page string, data any) error {
	return s.renderStatus(w, r, http.StatusOK, page, data)
}

// renderStatus answers with a page. Nothing is sent before the whole page is drawn.
func (s *Service) renderStatus(w http.ResponseWriter, r *http.Request, status int, page string, data any) error {
	f := &Frame{Page: page, Theme: themeOf(r), Version: s.Version, Path: r.URL.Path, URL: r.URL.RequestURI(), Now: time.Now(), Data: data}
	if v := visitorOf(r.Context()); v != nil {
		f.Who, f.May, f.CSRF, f.LoggedIn, f.Since = v.who, v.who.Describe(), v.formToken(), v.session != nil, v.since
	}
	t, ok := s.pages[page]
	if !ok {
		return fmt.Errorf("there is no template %s.html", page)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, f); err != nil {
		return fmt.Errorf("draw page %s: %w", page, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that went away needs no page
	return nil
}

// Failure is an error as a page shows it: what happened, where, and what to do.
type Failure struct {
	Status                int
	Title, Detail, Remedy string
}

func (f *Failure) Error() string { return f.Title + ": " + f.Detail }

// Missing is the [Failure] for what doesn't exist, or is hidden from the caller, which is the
// same to them. what is a noun: "VNF instance".
func Missing(what, id string) *Failure {
	return &Failure{Status: http.StatusNotFound, Title: "No such " + what, Detail: fmt.Sprintf("No %s has the id %s, or it isn't yours to see.", what, id),
		Remedy: "Look for it in the fleet."}
}

// failureOf says what an error is for a person.
func failureOf(err error) *Failure {
	var f *Failure
	var denied *access.DeniedError
	var throttled *ThrottledError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &denied):
		return &Failure{Status: http.StatusForbidden, Title: "You may not do this", Detail: denied.Error(), Remedy: "Log in as somebody who may, or ask an administrator for the role."}
	case errors.As(err, &throttled):
		return &Failure{Status: http.StatusTooManyRequests, Title: "Too many wrong tokens", Detail: throttled.Error(), Remedy: "Wait that long, and check the token before you send it."}
	case errors.Is(err, access.ErrHidden), errors.Is(err, desired.ErrNotFound), errors.Is(err, store.ErrNotFound):
		return &Failure{Status: http.StatusNotFound, Title: "Not found", Detail: "It doesn't exist, or it isn't yours to see.", Remedy: "Look for it in the fleet."}
	case errors.Is(err, auth.ErrUnavailable):
		return &Failure{Status: http.StatusServiceUnavailable, Title: "Nobody can say who you are", Detail: err.Error(), Remedy: "The issuer of your token doesn't answer. Try again in a moment."}
	case errors.Is(err, store.ErrUnavailable):
		return &Failure{Status: http.StatusServiceUnavailable, Title: "The store can't be reached", Detail: err.Error(), Remedy: "Try again in a moment; /readyz says what is wrong."}
	case errors.Is(err, desired.ErrUnavailable):
		return &Failure{Status: http.StatusServiceUnavailable, Title: "The desired repository can't be read", Detail: err.Error(), Remedy: "Try again in a moment; /readyz says what is wrong."}
	}
	return nil
}

// fail answers with a page that says what went wrong and what to do. What isn't the caller's
// doing is logged.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	if f == nil {
		s.Log.ErrorContext(r.Context(), "page can't be drawn", "path", r.URL.Path, "error", err)
		f = &Failure{Status: http.StatusInternalServerError, Title: "Jibe couldn't do this", Detail: err.Error(), Remedy: "The log of the server has more. Nothing was changed."}
	}
	refuse(r, f.Error())
	var throttled *ThrottledError
	if errors.As(err, &throttled) {
		w.Header().Set("Retry-After", fmt.Sprint(max(1, int(throttled.Wait.Seconds()+1))))
	}
	if err := s.renderStatus(w, r, f.Status, "error", f); err != nil {
		s.Log.ErrorContext(r.Context(), "page of an error can't be drawn", "path", r.URL.Path, "error", err)
		http.Error(w, f.Error(), f.Status)
	}
}

func (s *Service) notFound(_ http.ResponseWriter, r *http.Request) error {
	return &Failure{Status: http.StatusNotFound, Title: "No such page", Detail: "There is nothing at " + r.URL.Path + ".", Remedy: "Begin with the fleet."}
}

// secure sets what every answer below [Root] tells a browser of itself.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// Not no-referrer, with which browsers send forms with the origin "null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// themeCookie keeps the reader's choice between light and dark.
const themeCookie = "jibe-theme"

func themeOf(r *http.Request) string {
	c, err := r.Cookie(themeCookie)
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}

// setTheme keeps a choice of colours. It is a GET: it changes nothing but how pages look here.
func (s *Service) setTheme(w http.ResponseWriter, r *http.Request) error {
	c := &http.Cookie{Name: themeCookie, Value: r.FormValue("set"), Path: Root + "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secureCookies()}
	if c.Value != "light" && c.Value != "dark" {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, localPath(r.FormValue("back")), http.StatusSeeOther)
	return nil
}

// localPath is a path of the page that a request asks to be led to, the fleet where it is
// anything else.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || !strings.HasPrefix(to, Root+"/") || strings.Contains(to, "\\") ||
		path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") { // browsers follow "..", also where it is encoded
		return Root + "/"
	}
	return to
}

// answer compresses an answer where that is worth it, and remembers its status.
type answer struct {
	http.ResponseWriter
	accepts bool
	status  int
	zip     *gzip.Writer
}

var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one that there is
	return z
}}

func newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	return &answer{ResponseWriter: w, accepts: acceptsGzip(r)}
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.TrimSpace(q) != "q=0" {
			return true
		}
	}
	return false
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		h := a.Header()
		if strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			h.Add("Vary", "Accept-Encoding")
			if a.accepts && h.Get("Content-Encoding") == "" {
				h.Set("Content-Encoding", "gzip")
				a.zip = zippers.Get().(*gzip.Writer)
				a.zip.Reset(a.ResponseWriter)
			}
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.zip != nil {
		return a.zip.Write(p)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the writer below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) end() {
	if a.zip != nil {
		_ = a.zip.Close() // a browser that went away needs no rest
		zippers.Put(a.zip)
		a.zip = nil
	}
}
