package entrance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/ui"
)

// changes says whether a request may change something, and so is recorded however it ends. What
// is pushed by git is recorded where it is known what it is.
func changes(r *http.Request) bool {
	if r.URL.Path == ui.Root+"/login" && r.URL.Query().Has("code") { // a link that logs in
		return true
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	path := r.URL.Path
	return path != "/webhook" && path != "/jibe/v1/check" && path != "/jibe/v1/plan" && path != "/ui/propose" && !strings.HasPrefix(path, "/git/")
}

// serve answers a request by next, and records it before its answer leaves.
func (a *Recorder) serve(w http.ResponseWriter, r *http.Request, entry *audit.Entry, next http.Handler) {
	rec := &recordedWriter{ResponseWriter: w, log: a, r: r, entry: entry, changes: changes(r)}
	if err := a.Health(); err != nil && (rec.changes || strings.HasSuffix(r.URL.Path, "/git-receive-pack")) {
		w.Header().Set("Retry-After", "5")
		answer.Problem(rec, http.StatusServiceUnavailable, "nothing was changed: "+err.Error())
	} else {
		defer rec.end() // a handler that panics has answered, too
		next.ServeHTTP(rec, r)
		return
	}
	rec.end()
}

// recordedWriter is an answer that is held back until its record is durable.
type recordedWriter struct {
	http.ResponseWriter
	log     *Recorder
	r       *http.Request
	entry   *audit.Entry
	changes bool
	status  int
	stopped bool // something else was answered
	problem []byte
}

// mostProblem is how much of a refusal is looked at for its reason, bytes.
const mostProblem = 2 << 10

// WriteHeader implements [http.ResponseWriter].
func (w *recordedWriter) WriteHeader(status int) {
	if status >= 200 && w.status == 0 {
		w.status = status
		if err := w.accepted(); err != nil {
			w.stopped = true
			h := w.Header()
			for _, name := range []string{"Location", "Content-Length", "Content-Encoding", "ETag"} {
				h.Del(name)
			}
			answer.Problem(w.ResponseWriter, http.StatusServiceUnavailable, "it was done, and that couldn't be recorded: "+err.Error())
		}
	}
	if !w.stopped {
		w.ResponseWriter.WriteHeader(status)
	}
}

// accepted records a change that was made.
func (w *recordedWriter) accepted() error {
	if !w.changes || w.status >= http.StatusBadRequest {
		return nil
	}
	r := w.entry.Record()
	r.Outcome, r.Status = audit.Done, w.status
	if u, err := url.Parse(w.Header().Get("Location")); err == nil {
		r.Result = u.Path
	}
	if err := w.log.Record(w.r.Context(), r); err != nil && !w.log.anyway {
		return err
	}
	return nil
}

// Write implements [http.ResponseWriter].
func (w *recordedWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.stopped {
		return len(p), nil
	}
	if room := mostProblem - len(w.problem); w.status >= http.StatusBadRequest && room > 0 {
		w.problem = append(w.problem, p[:min(room, len(p))]...)
	}
	return w.ResponseWriter.Write(p)
}

// FlushError sends what was written so far.
func (w *recordedWriter) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is FlushError for those who know no errors.
func (w *recordedWriter) Flush() { _ = w.FlushError() }

// Unwrap lets http.ResponseController reach the writer below.
func (w *recordedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end records what wasn't accepted.
func (w *recordedWriter) end() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	r := w.entry.Record()
	r.Status = w.status
	switch {
	case w.status < http.StatusBadRequest:
		return
	case w.status == http.StatusUnauthorized:
		if !w.changes && !Presented(w.r) {
			return // clients of git ask so before they send credentials
		}
		r.Outcome = audit.Refused
	case w.status == http.StatusForbidden, w.status == http.StatusTooManyRequests:
		r.Outcome = audit.Refused
	case !w.changes:
		return
	case w.status >= http.StatusInternalServerError:
		r.Outcome = audit.Failed
	default:
		r.Outcome = audit.Refused
	}
	if r.Reason == "" {
		r.Reason = reasonOf(w.problem)
	}
	w.log.Refused(w.r.Context(), r)
}

// reasonOf is why an answer's body says that something was refused.
func reasonOf(body []byte) string {
	var problem struct{ Detail string }
	if json.Unmarshal(body, &problem) == nil {
		return problem.Detail
	}
	return strings.TrimSpace(string(body))
}
