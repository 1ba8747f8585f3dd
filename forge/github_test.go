package forge

import (
	"testing"

	"github.com/jibe-vnfm/jibe/test/forges"
)

// fakeGitHub is a repository on a server with the API of GitHub Enterprise Server.
type fakeGitHub struct{ fake }

func newFakeGitHub(t *testing.T) fakeGitHub {
	t.Helper()
	return fakeGitHub{newFake(t, forges.GitHub)}
}

func (g fakeGitHub) settings() Settings {
	return Settings{Kind: GitHub, URL: g.URL, Repository: "noc/vnfs", Token: forges.Token, Transport: transport(g.t)}
}

func (g fakeGitHub) reader(*testing.T) Settings {
	g.ReadOnly = true
	return g.settings()
}

func TestAServerWithTheAPIOfGitHubIsToldWhatConformanceAsks(t *testing.T) {
	conform(t, newFakeGitHub(t))
}
