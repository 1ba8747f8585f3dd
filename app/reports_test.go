package app

import (
	"testing"
)

func TestWhereAForgeIsIsToldByTheRemote(t *testing.T) {
	for _, test := range []struct {
		remote   string
		options  ForgeOptions
		at, repo string
	}{
		{"https://git.example.org/noc/vnfs.git", ForgeOptions{}, "https://git.example.org", "noc/vnfs"},
		{"http://127.0.0.1:3000/noc/vnfs.git", ForgeOptions{}, "http://127.0.0.1:3000", "noc/vnfs"},
		{"https://noc@git.example.org:8443/a/b/c/vnfs", ForgeOptions{}, "https://git.example.org:8443", "a/b/c/vnfs"},
		{"ssh://git@git.example.org:2222/noc/vnfs.git", ForgeOptions{}, "https://git.example.org", "noc/vnfs"},
		{"git@git.example.org:noc/vnfs.git", ForgeOptions{}, "https://git.example.org", "noc/vnfs"},
		{"https://example.org/gitea/noc/vnfs.git", ForgeOptions{URL: "https://example.org/gitea/"}, "https://example.org/gitea", "noc/vnfs"},
		{"git@ssh.example.org:noc/vnfs.git", ForgeOptions{URL: "https://git.example.org"}, "https://git.example.org", "noc/vnfs"},
		{"file:///srv/vnfs.git", ForgeOptions{URL: "https://git.example.org", Repository: "noc/vnfs"}, "https://git.example.org", "noc/vnfs"},
	} {
		at, repo, err := onForge(test.remote, test.options)
		if err != nil || at != test.at || repo != test.repo {
			t.Errorf("%s with %+v: %q, %q, %v; want %q, %q", test.remote, test.options, at, repo, err, test.at, test.repo)
		}
	}
	for remote, o := range map[string]ForgeOptions{
		"file:///srv/vnfs.git": {}, "/srv/vnfs.git": {}, "https://git.example.org/vnfs.git": {},
	} {
		if at, repo, err := onForge(remote, o); err == nil {
			t.Errorf("%s: %q, %q", remote, at, repo)
		}
	}
}
