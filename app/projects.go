package app

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// listProjects answers with the projects of which the caller may see what is in them, and what
// they use ([reconciler.ProjectUse]).
func (s *Server) listProjects(w http.ResponseWriter, r *http.Request) {
	list, err := s.recon.View().Projects(r.Context())
	if err != nil {
		respondProblem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	who := auth.From(r.Context())
	respondJSON(w, http.StatusOK, slices.DeleteFunc(list, func(p reconciler.ProjectUse) bool { return !who.May(auth.Viewer, p.Name) }))
}

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is the namespace in which this process runs, "" outside of Kubernetes.
func ownNamespace() string {
	data, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// apiRepo is the desired repository as the API writes to it: within the quotas of projects, and
// with refusals in the API's words.
type apiRepo struct{ desired.Repo }

// Write implements [desired.Repo].
func (r apiRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	rev, err := r.Repo.Write(ctx, w)
	return rev, inAPIWords(err)
}

// followerRepo is the desired repository as the follower of versions writes to it: within the
// quotas of projects.
type followerRepo struct {
	*gitrepo.Repo
	counted desired.Repo
}

// Write implements [desired.Repo].
func (r followerRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	return r.counted.Write(ctx, w)
}

// maxProjects bounds the projects that metrics tell of one by one.
const maxProjects = 500

// projectUse are the metrics of what projects use. It counts nothing where there is no file of
// a project.
type projectUse struct {
	settings         func() (*desired.Settings, error)
	projects         func(ctx context.Context) ([]reconciler.ProjectUse, error)
	instances, vnfcs *prometheus.Desc
}

func newProjectUse(s *Server) *projectUse {
	return &projectUse{
		settings:  s.repo.Settings,
		projects:  func(ctx context.Context) ([]reconciler.ProjectUse, error) { return s.recon.View().Projects(ctx) },
		instances: prometheus.NewDesc("jibe_project_instances", "VNF instances that are instantiated, by project.", []string{"project"}, nil),
		vnfcs:     prometheus.NewDesc("jibe_project_vnfcs", "VNFCs by the scale levels in git, by project.", []string{"project"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *projectUse) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.instances
	ch <- c.vnfcs
}

// countTime is how long a scrape waits for what projects use.
const countTime = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *projectUse) Collect(ch chan<- prometheus.Metric) {
	settings, err := c.settings()
	if err != nil || len(settings.Projects) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTime) //nolint:contextcheck // a scrape has none
	defer cancel()
	list, err := c.projects(ctx)
	if err != nil {
		return // the next scrape counts on
	}
	for _, p := range list[:min(len(list), maxProjects)] {
		ch <- prometheus.MustNewConstMetric(c.instances, prometheus.GaugeValue, float64(p.InstancesUsed), p.Name)
		ch <- prometheus.MustNewConstMetric(c.vnfcs, prometheus.GaugeValue, float64(p.VNFCsUsed), p.Name)
	}
}
