package process_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// giteaRepo is a desired repository on a real Gitea, and what a process needs to follow it.
type giteaRepo struct {
	*testing.T
	forge             testenv.Forge
	admin             *gitea.Client
	owner, name, url  string
	dir, data, config string
}

// newGiteaRepo makes one, with a simulator as its VIM.
func newGiteaRepo(t *testing.T) *giteaRepo {
	t.Helper()
	g := &giteaRepo{T: t, forge: testenv.Gitea(t), name: "desired-" + uuid.NewString()[:8], dir: t.TempDir()}
	var err error
	if g.admin, err = gitea.NewClient(g.forge.URL, gitea.SetToken(g.forge.Token)); err != nil {
		t.Fatal(err)
	}
	me, _, err := g.admin.GetMyUserInfo()
	if err != nil {
		t.Fatal(err)
	}
	g.owner = me.UserName
	repo, _, err := g.admin.CreateRepo(gitea.CreateRepoOption{Name: g.name, AutoInit: true, DefaultBranch: "main", Private: true})
	if err != nil {
		t.Fatal(err)
	}
	g.url, g.data, g.config = repo.CloneURL, filepath.Join(g.dir, "data"), filepath.Join(g.dir, "gitconfig")
	g.keep("gitconfig", "[http]\n\textraHeader = Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(me.UserName+":"+g.forge.Token))+"\n")
	g.write("main", "vims/sim.yaml", "type: sim\ndefault: true\n")
	g.write("main", "repositories.yaml", "- name: packages\n  url: packages.git\n  branch: main\n")
	return g
}

// keep writes a file for the process, and returns its path.
func (g *giteaRepo) keep(name, text string) string {
	g.Helper()
	file := filepath.Join(g.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
	return file
}

// write commits a file on a branch, which begins at main where it isn't there, and returns the commit.
func (g *giteaRepo) write(branch, path, text string) string {
	g.Helper()
	o := gitea.FileOptions{Message: "Write " + path, BranchName: branch}
	if _, _, err := g.admin.GetRepoBranch(g.owner, g.name, branch); err != nil {
		o.BranchName, o.NewBranchName = "main", branch
	}
	content := base64.StdEncoding.EncodeToString([]byte(text))
	var f *gitea.FileResponse
	is, _, err := g.admin.GetContents(g.owner, g.name, o.BranchName, path)
	if err == nil {
		f, _, err = g.admin.UpdateFile(g.owner, g.name, path, gitea.UpdateFileOptions{FileOptions: o, SHA: is.SHA, Content: content})
	} else {
		f, _, err = g.admin.CreateFile(g.owner, g.name, path, gitea.CreateFileOptions{FileOptions: o, Content: content})
	}
	if err != nil {
		g.Fatalf("write %s: %v", path, err)
	}
	return f.Commit.SHA
}

// hook makes a webhook of these events.
func (g *giteaRepo) hook(s *process.Server, secret string, events ...string) *gitea.Hook {
	g.Helper()
	h, _, err := g.admin.CreateRepoHook(g.owner, g.name, gitea.CreateHookOption{
		Type: gitea.HookTypeGitea, Active: true, Events: events,
		Config: map[string]string{"url": s.URL + "/webhook", "content_type": "json", "secret": secret},
	})
	if err != nil {
		g.Fatal(err)
	}
	return h
}

// start starts a process that follows the repository. It is killed when the test ends.
func (g *giteaRepo) start(args ...string) *process.Server {
	g.Helper()
	s, err := process.StartLogged(process.Binary(g.T), g.data, filepath.Join(g.dir, "log"),
		[]string{"GIT_CONFIG_GLOBAL=" + g.config, "JIBE_SECRET_AWAY=nobody"}, append([]string{"--remote", g.url}, args...)...)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() {
		s.KillGroup()
		if g.Failed() {
			g.Logf("the end of Jibe's log:\n%s", s.Log())
		}
	})
	return s
}

// statuses are the states that a commit was ever given in Jibe's context, the oldest first.
func (g *giteaRepo) statuses(commit string) (states []string, newest *gitea.Status) {
	g.Helper()
	all, _, err := g.admin.ListStatuses(g.owner, g.name, commit, gitea.ListStatusesOption{})
	if err != nil {
		g.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *gitea.Status) int { return int(a.ID - b.ID) })
	for _, s := range all {
		if s.Context == "jibe" {
			states, newest = append(states, string(s.State)), s
		}
	}
	return states, newest
}
