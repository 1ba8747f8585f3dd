package forge

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// transport is what the server calls a forge by, for forges on this machine.
func transport(t *testing.T) http.RoundTripper {
	t.Helper()
	tr, err := peer.NewTransport(egress.Anywhere(), peer.TLS{}, requestTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// realGitea is a repository on a real server.
type realGitea struct {
	forge       testenv.Forge
	owner, name string
	// admin is who looks, and other is somebody who comments.
	admin, other             *gitea.Client
	otherName, otherPassword string
	through                  http.RoundTripper
}

func newRealGitea(t *testing.T) *realGitea {
	t.Helper()
	w := &realGitea{forge: testenv.Gitea(t), name: "vnfs-" + uuid.NewString()[:8], through: transport(t)}
	var err error
	if w.admin, err = gitea.NewClient(w.forge.URL, gitea.SetToken(w.forge.Token)); err != nil {
		t.Fatal(err)
	}
	me, _, err := w.admin.GetMyUserInfo()
	if err != nil {
		t.Fatal(err)
	}
	w.owner = me.UserName
	other, change := "other-"+uuid.NewString()[:8], false
	w.otherName, w.otherPassword = other, uuid.NewString()
	_, _, err = w.admin.AdminCreateUser(gitea.CreateUserOption{
		Username: other, Email: other + "@example.org", Password: w.otherPassword, MustChangePassword: &change,
	})
	if err != nil {
		t.Fatalf("make another user: %v", err)
	}
	if w.other, err = gitea.NewClient(w.forge.URL, gitea.SetToken(w.forge.Token), gitea.SetSudo(other)); err != nil {
		t.Fatal(err)
	}
	if _, _, err = w.admin.CreateRepo(gitea.CreateRepoOption{Name: w.name, AutoInit: true, DefaultBranch: "main"}); err != nil {
		t.Fatalf("make the repository %s: %v", w.name, err)
	}
	t.Cleanup(func() {
		if _, err := w.admin.DeleteRepo(w.owner, w.name); err != nil {
			t.Errorf("remove the repository %s: %v", w.name, err)
		}
	})
	for _, branch := range []string{"change-1", "change-2"} {
		_, _, err := w.admin.CreateFile(w.owner, w.name, branch+".txt", gitea.CreateFileOptions{
			FileOptions: gitea.FileOptions{Message: "Make " + branch, BranchName: "main", NewBranchName: branch},
			Content:     "eA==",
		})
		if err != nil {
			t.Fatalf("make the branch %s: %v", branch, err)
		}
	}
	return w
}

func (w *realGitea) settings() Settings {
	return Settings{Kind: Gitea, URL: w.forge.URL, Repository: w.owner + "/" + w.name, Token: w.forge.Token, Transport: w.through}
}

func (w *realGitea) commit(t *testing.T, branch string) string {
	t.Helper()
	b, _, err := w.admin.GetRepoBranch(w.owner, w.name, branch)
	if err != nil {
		t.Fatal(err)
	}
	return b.Commit.ID
}

func (w *realGitea) statuses(t *testing.T, commit, context string) (all []Status) {
	t.Helper()
	got, _, err := w.admin.ListStatuses(w.owner, w.name, commit, gitea.ListStatusesOption{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b *gitea.Status) int { return int(a.ID - b.ID) })
	for _, s := range got {
		if s.Context == context {
			all = append(all, Status{s.Context, State(s.State), s.Description, s.TargetURL})
		}
	}
	return all
}

func (w *realGitea) comments(t *testing.T, number int64) (all []string) {
	t.Helper()
	got, _, err := w.admin.ListIssueComments(w.owner, w.name, number, gitea.ListIssueCommentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got {
		all = append(all, c.Body)
	}
	return all
}

func (w *realGitea) merge(t *testing.T, number int64) {
	t.Helper()
	// Gitea finds out beside the request whether it can be merged.
	kit.Eventually(t, func() error {
		ok, _, err := w.admin.MergePullRequest(w.owner, w.name, number, gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
		if err == nil && !ok {
			err = errors.New("not merged")
		}
		return err
	})
}

func (w *realGitea) reader(t *testing.T) Settings {
	t.Helper()
	self, err := gitea.NewClient(w.forge.URL, gitea.SetBasicAuth(w.otherName, w.otherPassword))
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := self.CreateAccessToken(gitea.CreateAccessTokenOption{Name: "reader", Scopes: []gitea.AccessTokenScope{gitea.AccessTokenScopeAll}})
	if err != nil {
		t.Fatalf("make a token: %v", err)
	}
	s := w.settings()
	s.Token = made.Token
	return s
}

func (w *realGitea) comment(t *testing.T, number int64, text string) {
	t.Helper()
	if _, _, err := w.other.CreateIssueComment(w.owner, w.name, number, gitea.CreateIssueCommentOption{Body: text}); err != nil {
		t.Fatal(fmt.Errorf("comment: %w", err))
	}
}

func TestARealGiteaIsToldWhatConformanceAsks(t *testing.T) { conform(t, newRealGitea(t)) }
