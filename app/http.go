package app

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/sol/vims"
)

// sources are what is asked at each scrape.
func (s *Server) sources() metrics.Sources {
	out := metrics.Sources{
		Repo: s.repo, Operations: s.oplog, View: s.recon.View(), Packages: s.packages, Subscriptions: s.notify, Rollouts: s.rollouts, Audit: s.audit.File(), Member: s.replica.Member(),
		Problems: s.problems.list, Writable: s.disk.Health, Owned: s.recon.Owned, Reporter: s.reporter, Exporter: s.exporter,
		Store: s.data.Store(), Backup: filepath.Join(s.data.Path, backup.LastFile),
	}
	if r := s.replica.Redis(); r != nil {
		out.Redis = r
	}
	for _, c := range certificates(s.Options) {
		if c.File != "" {
			out.Certificates = append(out.Certificates, c.File)
		}
	}
	return out
}

// handler is everything that the API's address serves.
func (s *Server) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	common := rest.Config{Auth: s.auth, BaseURL: s.BaseURL, Log: s.Log,
		Observe: func(ctx context.Context, route, method string, status int, took time.Duration) {
			s.meters.Request(route, method, status, took, requestTrace(ctx))
		}}
	repo := apiRepo{s.recon.View().Counted(audited{s.traced(s.repo)})}
	lifecycle := sol.New(sol.Config{Config: common,
		Repo: repo, Operations: s.oplog, View: apiView{s.recon.View(), s.problems, s.meters.RejectedRequest}, Secrets: instanceSeals{s.keeper, s.repo.Settings},
		Subscriptions: s.notify.Lifecycle("/vnflcm/v2"), SubscriptionsV1: s.notify.Lifecycle("/vnflcm/v1"), Poke: s.recon.Enqueue, Proposals: s.proposed(),
	})
	whole := s.freshness.Wrap(s.rebuilder.Guard(lifecycle))
	mux.Handle("/vnflcm", whole)
	mux.Handle("/vnflcm/", whole)
	s.pkgm = s.newPackageAPI(common)
	mux.Handle("/vnfpkgm", s.freshness.Wrap(s.pkgm))
	mux.Handle("/vnfpkgm/", s.freshness.Wrap(s.pkgm))
	mux.Handle("/v1.0/", vims.New(vims.Config{Config: common, Repo: audited{s.repo}, Keep: s.keeper.For(secret.ForVIMs()).Keep, Check: s.checkSettings, Reach: s.reachVIM}))
	mux.Handle("/", s.toPage(rest.NotFound(common)))
	mux.Handle("/jibe/v1/", s.freshness.Wrap(s.guardJibeAPI(s.jibeAPI())))
	mux.Handle("/git/", s.git.Handler())
	mux.Handle("POST /webhook", s.webhook.Handler(s.delivery))
	mux.Handle("GET /metrics", s.guardMetrics(s.meters.Handler()))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer.Text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	if err := s.servePage(mux, lifecycle, repo, common.Observe); err != nil {
		return nil, err
	}
	guarded, err := s.refuseCrossSite(rest.SingleSlashes(mux))
	if err != nil {
		return nil, err
	}
	return s.entrance.Wrap(s.traceRequests(guarded)), nil
}

// health returns why the process can't do all of its work.
func (s *Server) health() error {
	return errors.Join(s.repo.Health(), s.disk.Health(), s.replica.Health(), s.audit.Health())
}

// ready reports whether the desired repository can be read and followed, and whether it and
// the store can be written. Anyone gets the status, as probes and balancers have no token; the
// reason names files and addresses, and is for those who may see everything.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) { s.answerReady(w, r, s.health()) }

func (s *Server) answerReady(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		answer.Text(w, http.StatusOK, "ok\n")
		return
	}

	reason := notReady
	if s.showsReasons(r) {
		reason = err.Error() + "\n"
	}
	answer.Text(w, http.StatusServiceUnavailable, reason)
}

// notReady is what /readyz answers to those who may not know why.
const notReady = "not ready: the log has the reason, and a token of the role viewer for all projects shows it here\n"

// showsReasons reports whether a caller may know why the process can't do all of its work.
func (s *Server) showsReasons(r *http.Request) bool {
	if s.OpenMetrics || s.InsecureDev {
		return true
	}
	if !entrance.Presented(r) && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
		return false // a probe is no failed login
	}
	who, err := s.auth.Authenticate(r)

	return err == nil && seesEverything(who)
}

// seesEverything reports whether a caller may know of the instances of all projects.
func seesEverything(who auth.Identity) bool { return who.May(auth.Viewer, "") && who.EM == "" }

// guardMetrics lets only those in who may see everything, unless anyone may: metrics name
// instances of all projects.
func (s *Server) guardMetrics(next http.Handler) http.Handler {
	if s.OpenMetrics {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.auth.Authenticate(r)
		switch {
		case errors.Is(err, auth.ErrUnavailable):
			answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		case err != nil:
			w.Header().Set("WWW-Authenticate", `Bearer realm="jibe"`)
			answer.Problem(w, http.StatusUnauthorized, "a valid bearer token is needed")
		case !seesEverything(who):
			answer.Problem(w, http.StatusForbidden, "the role viewer is needed, for all projects")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// settleTime lets the files of one push arrive before it is looked at.
const settleTime = 5 * time.Millisecond

// watchPackages notices pushes to local package repositories at once, and fetches the
// others every Poll.
func (s *Server) watchPackages(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	dirs, err := filepath.Glob(filepath.Join(s.data.Packages(), "*.git"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		for _, sub := range []string{"", "refs/heads", "refs/tags"} {
			if err := w.Add(filepath.Join(d, sub)); err != nil {
				return err
			}
		}
	}
	poll := s.Poll
	if poll <= 0 {
		poll = 30 * time.Second
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("the watch of the package repositories ended")
			}
			if !strings.HasSuffix(e.Name, ".lock") && (strings.Contains(e.Name, "/refs/") || filepath.Base(e.Name) == "packed-refs") {
				timer.Reset(settleTime)
			}
			continue
		case err := <-w.Errors:
			s.Log.WarnContext(ctx, "watch of the package repositories", "error", err)
			continue
		case <-timer.C:
		}
		if err := s.syncPackages(ctx); err != nil {
			s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
		}
		s.recon.EnqueueUnobeyed() // the packages that they name may be there now
		s.follower.PackagesChanged()
		timer.Reset(poll)
	}
}
