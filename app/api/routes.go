package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/tracing"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/sol/vims"
)

// Handler is everything that the API's address serves.
func (s *API) Handler() (http.Handler, error) {
	mux := http.NewServeMux()
	common := s.common()
	repo := apiRepo{s.View.Counted(audited{s.Tracing.Repo(s.Repo)})}
	lifecycle := sol.New(sol.Config{Config: common,
		Repo: repo, Operations: s.Oplog, View: apiView{s.View, s.Problems, s.Meters.RejectedRequest}, Secrets: instanceSeals{s.Keeper, s.Repo.Settings},
		Subscriptions: s.Notify.Lifecycle("/vnflcm/v2"), SubscriptionsV1: s.Notify.Lifecycle("/vnflcm/v1"), Poke: s.Reconciler.Enqueue, Proposals: s.Proposals,
	})
	whole := s.Freshness.Wrap(s.Whole(lifecycle))
	mux.Handle("/vnflcm", whole)
	mux.Handle("/vnflcm/", whole)
	mux.Handle("/vnfpkgm", s.Freshness.Wrap(s.pkgm))
	mux.Handle("/vnfpkgm/", s.Freshness.Wrap(s.pkgm))
	mux.Handle("/v1.0/", vims.New(vims.Config{Config: common, Repo: audited{s.Repo}, Keep: s.Keeper.For(secret.ForVIMs()).Keep, Check: s.checkSettings, Reach: s.reachVIM}))
	mux.Handle("/", s.toPage(rest.NotFound(common)))
	mux.Handle("/jibe/v1/", s.Freshness.Wrap(s.guardJibeAPI(s.jibeAPI())))
	mux.Handle("/git/", s.Git)
	mux.Handle("POST /webhook", s.Webhook)
	mux.Handle("GET /metrics", s.guardMetrics(s.Meters.Handler()))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer.Text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	if err := s.servePage(mux, lifecycle, repo, common.Observe); err != nil {
		return nil, err
	}
	guarded, err := s.refuseCrossSite(rest.SingleSlashes(mux))
	if err != nil {
		return nil, err
	}
	return s.Entrance.Wrap(s.Tracing.Requests(guarded)), nil
}

// ready reports whether the desired repository can be read and followed, and whether it and
// the store can be written. Anyone gets the status, as probes and balancers have no token; the
// reason names files and addresses, and is for those who may see everything.
func (s *API) ready(w http.ResponseWriter, r *http.Request) { s.answerReady(w, r, s.Health()) }

func (s *API) answerReady(w http.ResponseWriter, r *http.Request, err error) {
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
func (s *API) showsReasons(r *http.Request) bool {
	if s.OpenMetrics || s.InsecureDev {
		return true
	}
	if !entrance.Presented(r) && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
		return false // a probe is no failed login
	}
	who, err := s.Auth.Authenticate(r)

	return err == nil && seesEverything(who)
}

// seesEverything reports whether a caller may know of the instances of all projects.
func seesEverything(who auth.Identity) bool { return who.May(auth.Viewer, "") && who.EM == "" }

// guardMetrics lets only those in who may see everything, unless anyone may: metrics name
// instances of all projects.
func (s *API) guardMetrics(next http.Handler) http.Handler {
	if s.OpenMetrics {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.Auth.Authenticate(r)
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

// common is what all interfaces of the API have in common.
func (s *API) common() rest.Config {
	return rest.Config{Auth: s.Auth, BaseURL: s.BaseURL, Log: s.Log,
		Observe: func(ctx context.Context, route, method string, status int, took time.Duration) {
			s.Meters.Request(route, method, status, took, tracing.OfRequest(ctx))
		}}
}
