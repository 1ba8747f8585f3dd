package forge

import (
	"testing"

	"github.com/jibe-vnfm/jibe/test/forges"
)

// fakeGitLab is a project on a server with GitLab's API v4.
type fakeGitLab struct{ fake }

func newFakeGitLab(t *testing.T) fakeGitLab {
	t.Helper()
	return fakeGitLab{newFake(t, forges.GitLab)}
}

func (g fakeGitLab) settings() Settings {
	return Settings{Kind: GitLab, URL: g.URL, Repository: "noc/tokyo/vnfs", Token: forges.Token, Transport: transport(g.t)}
}

// statuses speak the words of [Status].
func (g fakeGitLab) statuses(t *testing.T, commit, context string) []Status {
	all := g.fake.statuses(t, commit, context)
	for i := range all {
		if all[i].State == "failed" {
			all[i].State = Failure
		}
	}
	return all
}

func (g fakeGitLab) reader(*testing.T) Settings {
	g.ReadOnly = true
	return g.settings()
}

func TestAServerWithTheAPIOfGitLabIsToldWhatConformanceAsks(t *testing.T) {
	conform(t, newFakeGitLab(t))
}
