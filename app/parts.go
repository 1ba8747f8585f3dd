package app

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/githooks"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/report"
)

// follow has a part told of each change of an operation, also of those that other replicas make.
func (s *state) follow(changed func(*lcm.Operation)) {
	s.oplog.OnChange(changed)
	s.oplog.OnFollowed(changed)
}

// warnUnfetched logs that packages weren't fetched: those of an earlier fetch are there.
func (s *state) warnUnfetched(ctx context.Context, err error) {
	if err != nil {
		s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
	}
}

// newProblems makes what gathers why files aren't obeyed.
func (s *state) newProblems(view *reconciler.View, rollouts *automation.Rollouts) *api.Problems {
	return api.NewProblems(api.ProblemsConfig{
		Repo: s.repo, View: view, Packages: s.packages, Rollouts: rollouts, Log: s.Log,
		Forbidden: func() []*desired.Problem {
			settings, err := s.repo.Settings()
			if err != nil {
				return nil // the repository reports that itself
			}
			return forbiddenSettings(s.keeper, settings, nil)
		},
	})
}

// newReviewer makes what judges and plans proposals.
func (s *state) newReviewer(view *reconciler.View, rollouts *automation.Rollouts) *admission.Reviewer {
	return admission.NewReviewer(admission.Config{
		Repo: s.repo, View: view, Packages: s.packages, FetchProposed: s.packages.fetchProposed,
		Forbidden: func(settings, known *desired.Settings) []*desired.Problem {
			return forbiddenSettings(s.keeper, settings, known)
		},
		Rolled: rolledBy(rollouts), PullRequests: s.forge != nil,
	})
}

// newDelivered makes what has all replicas ask the forge; nil where no forge is told.
func (s *state) newDelivered(reporter *report.Reporter, proposals *forgesync.Proposals) *forgesync.Delivered {
	if reporter == nil {
		return nil
	}
	s.follow(reporter.OperationChanged)
	return forgesync.NewDelivered(forgesync.DeliveredConfig{
		Store: s.replica.Records, Oplog: s.oplog, Holder: s.replica.Holder(), Shared: s.shared(), Log: s.Log,
		Ask: func() {
			reporter.Delivered()
			proposals.Delivered()
		},
	})
}

// newGit makes what answers those who push and fetch.
func (s *state) newGit(reviewer *admission.Reviewer) *githooks.Service {
	return githooks.New(githooks.Config{
		Repo: s.repo, Auth: s.auth, Audit: s.audit, Reviewer: reviewer, Hooks: s.hooks, Remote: s.Remote, Branch: cmp.Or(s.Branch, "main"), Desired: s.data.Desired(), Packages: s.data.Packages(),
		ShareDesired: s.ShareDesired, SignedByPusher: s.Verify.Pusher, Signers: s.Verify.Desired,
		Describe: func(ctx context.Context, l admission.Landing, u check.RefUpdate, signers string) (*admission.Push, error) {
			return admission.DescribeLanding(ctx, check.New(s.repo.Reader()), l, u, signers)
		},
		Rejected: s.meters.RejectedPush, Arrived: s.tracing.Pushed, Register: s.meters.Register, Log: s.Log,
	})
}

// newBackups makes what takes backups.
func (s *state) newBackups() *maintenance.Backups {
	b := &maintenance.Backups{Log: s.Log, Source: backup.Source{Data: s.data.Path, Version: s.Version, Store: s.replica.Records, Place: s.Store.URL, Still: s.repo.Still}}
	if s.shared() {
		b.Source.Follow = func(ctx context.Context) error { return s.replica.FollowAccepted(ctx, s.repo) }
	}
	return b
}

// newDoctor makes what examines this process.
func (s *state) newDoctor(health func() error) *maintenance.Doctor {
	d := &maintenance.Doctor{Place: s.place(s.egress.ForConfigured()), Settings: s.repo.Settings, Keeper: s.keeper, Audit: s.audit.File(), Health: health}
	d.Data, d.Show = s.data.Path, s.replica.Show
	if s.forge != nil {
		d.Token = s.forge.Check
	}
	return d
}

// newUploads makes what says which replica works on which package; nil unless the store is shared.
func (s *state) newUploads() *replicas.Uploads {
	if !s.shared() {
		return nil
	}
	return replicas.NewUploads(s.replica.Records, s.replica.Member(), s.Log)
}

// newAPI makes what answers requests, by the parts of c and what there is of the host.
func (s *state) newAPI(c api.Config, uploads *replicas.Uploads) *api.API {
	c.Repo, c.Oplog, c.Packages, c.Store, c.Freshness = s.repo, s.oplog, s.packages.Catalogue, s.replica.Records, s.freshness
	c.Announces, c.Members, c.Plans = s.replica.Announces, s.replica.Members, admission.NewMemory(api.MostPlanMemory)
	c.Keeper, c.Auth, c.Entrance, c.Audit, c.Tracing, c.Meters, c.Log = s.keeper, s.auth, s.entrance, s.audit, s.tracing, s.meters, s.Log
	c.Egress, c.Sources, c.Trust, c.UploadsDir = s.egress.ForConfigured(), s.packageSources(), s.trust, s.data.Uploads()
	c.Remote, c.Branch, c.BaseURL, c.Version = s.Remote, cmp.Or(s.Branch, "main"), s.BaseURL, s.Version
	c.Page, c.Keystone, c.InsecureDev, c.OpenMetrics = s.Page, s.Keystone.URL != "", s.InsecureDev, s.OpenMetrics
	if uploads != nil {
		c.Claims = uploads
	}
	return api.New(c)
}

// measure registers what is measured of the parts; of has those that aren't of the host or the state.
func (s *state) measure(of metrics.Sources) {
	of.Repo, of.Operations, of.Packages, of.Audit, of.Member, of.Exporter = s.repo, s.oplog, s.packages, s.audit.File(), s.replica.Member(), s.tracing.Exporter
	of.Store, of.Backup = s.data.Store(), filepath.Join(s.data.Path, backup.LastFile)
	if r := s.replica.Redis(); r != nil {
		of.Redis = r
	}
	for _, c := range certificates(s.Options) {
		if c.File != "" {
			of.Certificates = append(of.Certificates, c.File)
		}
	}
	s.meters.Register(slices.Concat(s.entrance.Collectors(), s.audit.Collectors(), s.webhook.Collectors())...)
	s.meters.Scrape(of)
}

// callersCertificates ask callers for their certificates; nil where they need none.
func (s *host) callersCertificates() listener.Callers {
	if s.clientCAs == nil {
		return nil
	}
	return s.clientCAs
}

// reportRepo is the desired repository as reports read it.
type reportRepo struct {
	*gitrepo.Repo
	*read.Reader
}

// Read returns an instance as it stands at a revision.
func (r reportRepo) Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	return r.Repo.Read(ctx, rev)
}
