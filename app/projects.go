package app

import (
	"context"
	"os"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

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
