package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/ui"
)

// AuditOptions say where records of writes, refusals and failed logins go.
type AuditOptions struct {
	// File takes them; "" is one in the data directory, and "-" the standard output.
	File string
	// AllowUnaudited lets changes be made while no record of them can be written; they are
	// refused otherwise.
	AllowUnaudited bool
	// TrustedProxies are networks, as 10.0.0.0/8, whose X-Forwarded-For is believed.
	TrustedProxies []string
}

// AuditKey is the key by which the audit log of a data directory is checked. It is derived from the
// installation's secret key, which lock opens.
func AuditKey(data string, lock secret.LockOptions) ([]byte, error) {
	return derivedKey(data, lock, auditPurpose)
}

// derivedKey is the key for a purpose that is derived from the key in a data directory. It never
// makes one.
func derivedKey(data string, lock secret.LockOptions, purpose string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(data, secret.IdentityFile)); err != nil {
		return nil, fmt.Errorf("%s is no data directory of Jibe: %w", data, err)
	}
	by, err := lock.Lock()
	if err != nil {
		return nil, err
	}
	keeper, err := secret.Open(data, by)
	if err != nil {
		return nil, err
	}
	return keeper.Derive(purpose), nil
}

// AuditFile is the file of the audit log in a data directory.
func AuditFile(data string) string { return filepath.Join(data, "audit.jsonl") }

// AuditHead is the file that notes how far the audit log goes.
func AuditHead(data string) string { return filepath.Join(data, "audit.head") }

const (
	auditPurpose = "audit log"
	// anchorEvery is how often the process's log is told how far the audit log goes.
	anchorEvery = time.Hour
	// omittedEvery is how often it is recorded that records were left out.
	omittedEvery = 10 * time.Second
)

// How many records of refusals are kept: of strangers' in all, and of each known caller's, a
// second and at once. A disk is not to be filled by who may do nothing.
const (
	strangersRecords, strangersAtOnce = 5, 500
	callersRecords, callersAtOnce     = 20, 500
)

// recorder records what is asked of the server.
type recorder struct {
	audit.Log
	anyway    bool // changes are made though they can't be recorded
	strangers *rate.Limiter
	callers   *lru.Cache[*rate.Limiter]
	omitted   atomic.Int64
	left      prometheus.Counter
}

func newRecorder(log audit.Log, anyway bool) *recorder {
	return &recorder{Log: log, anyway: anyway, strangers: rate.NewLimiter(strangersRecords, strangersAtOnce),
		callers: lru.New[*rate.Limiter](1<<20, 4<<10),
		left: prometheus.NewCounter(prometheus.CounterOpts{Name: "jibe_audit_omitted_total",
			Help: "Records of refused requests that were left out of the audit log because there were too many of them."})}
}

// openAudit opens the log and records the start.
func (s *Server) openAudit() error {
	o := audit.Options{Path: s.Audit.File, Head: AuditHead(s.data.Path), Key: s.keeper.Derive(auditPurpose), Patience: datadir.EndPatience, Log: s.Log}
	switch o.Path {
	case "":
		o.Path = AuditFile(s.data.Path)
	case "-":
		o.Path, o.Out = "", os.Stdout
	}
	var err error
	if s.auditFile, err = audit.Open(o); err != nil {
		return err
	}
	s.audit = newRecorder(s.auditFile, s.Audit.AllowUnaudited)
	if err := s.audit.restores(s.data.Path); err != nil {
		return err
	}
	return s.audit.host("start", "jibe "+s.Version, s.Started)
}

// host records what somebody did on the host.
func (a *recorder) host(action, object, reason string) error {
	err := a.Record(context.Background(), audit.Record{Identity: hostUser(), Issuer: auth.IssuerHost, Action: action, Object: object, Outcome: audit.Done, Reason: reason})
	if err != nil && !a.anyway {
		return fmt.Errorf("%w (--allow-unaudited would go on without it)", err)
	}
	return nil
}

// health returns why changes are refused for want of their records, nil where they aren't.
func (a *recorder) health() error {
	if a.anyway {
		return nil
	}
	return a.Ready()
}

func hostUser() string {
	if u, err := user.Current(); err == nil {
		return "local:" + u.Username
	}
	return fmt.Sprintf("local:%d", os.Getuid())
}

// closeAudit records the end and closes the log.
func (s *Server) closeAudit() error {
	if s.auditFile == nil {
		return nil
	}
	err := s.audit.host("stop", "jibe "+s.Version, "")
	s.Log.Info("audit log ends", "end", s.auditFile.End().String())
	return errors.Join(err, s.auditFile.Close())
}

// runAudit tells, until ctx ends, where the audit log stands and what was left out of it.
func (s *Server) runAudit(ctx context.Context) error {
	anchor, omitted := time.NewTicker(anchorEvery), time.NewTicker(omittedEvery)
	defer anchor.Stop()
	defer omitted.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-anchor.C:
			s.Log.InfoContext(ctx, "audit log goes on", "end", s.auditFile.End().String())
		case <-omitted.C:
			if s.audit.omitted.Load() > 0 {
				s.audit.put(ctx, audit.Record{Issuer: auth.IssuerHost, Action: "audit", Outcome: audit.Done, Reason: "records of refused requests were left out"})
			}
		}
	}
}

// put records with the number of records that were left out before.
func (a *recorder) put(ctx context.Context, r audit.Record) {
	n := a.omitted.Swap(0)
	r.Omitted = int(n)
	if a.Record(ctx, r) != nil { // the log has said so
		a.omitted.Add(n)
	}
}

// refused records a refusal, unless there are too many.
func (a *recorder) refused(ctx context.Context, r audit.Record) {
	l := a.strangers
	if r.Identity != "" {
		key := r.Issuer + "\x00" + r.Identity
		if known, ok := a.callers.Get(key); ok {
			l = known
		} else {
			l = rate.NewLimiter(callersRecords, callersAtOnce)
			a.callers.Add(key, l, 100)
		}
	}
	if !l.Allow() {
		a.left.Inc()
		a.omitted.Add(1)
		return
	}
	a.put(ctx, r)
}

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
func (a *recorder) serve(w http.ResponseWriter, r *http.Request, entry *audit.Entry, next http.Handler) {
	rec := &recordedWriter{ResponseWriter: w, log: a, r: r, entry: entry, changes: changes(r)}
	if err := a.health(); err != nil && (rec.changes || strings.HasSuffix(r.URL.Path, "/git-receive-pack")) {
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
	log     *recorder
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
		if !w.changes && !presented(w.r) {
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
	w.log.refused(w.r.Context(), r)
}

// reasonOf is why an answer's body says that something was refused.
func reasonOf(body []byte) string {
	var problem struct{ Detail string }
	if json.Unmarshal(body, &problem) == nil {
		return problem.Detail
	}
	return strings.TrimSpace(string(body))
}

// audited is the desired repository for those who answer requests: it notes the commits that are
// made for them.
type audited struct{ desired.Repo }

// Write implements [desired.Repo].
func (a audited) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	rev, err := a.Repo.Write(ctx, w)
	if err == nil {
		audit.Note(ctx, func(r *audit.Record) { r.Commit = rev.Commit })
	}
	return rev, err
}

// WriteVIM implements [desired.Repo].
func (a audited) WriteVIM(ctx context.Context, name, subject string, trailers []desired.Trailer, change func(now []byte) ([]byte, error)) (commit string, err error) {
	commit, err = a.Repo.WriteVIM(ctx, name, subject, trailers, change)
	if commit != "" {
		audit.Note(ctx, func(r *audit.Record) { r.Commit = commit })
	}
	return commit, err
}
