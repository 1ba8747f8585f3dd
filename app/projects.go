package app

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/app/answer"
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
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	who := auth.From(r.Context())
	answer.JSON(w, http.StatusOK, slices.DeleteFunc(list, func(p reconciler.ProjectUse) bool { return !who.May(auth.Viewer, p.Name) }))
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
