package app_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// A tag HEAD, once fetched, has git push an operator's commit where an administrator pushes HEAD.
func TestARefThatMisleadsWhoFetchesItIsRefused(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	draft := p.commit("Another person's VIM", map[string]string{"vims/theirs.yaml": "type: sim\n"})
	for _, ref := range []string{
		"refs/tags/HEAD", "refs/heads/HEAD", "refs/heads/x/FETCH_HEAD", "refs/tags/main", "refs/heads/Main", "refs/heads/origin/main", "refs/tags/refs/for/main",
		"refs/tags/" + draft, "refs/heads/" + draft[:10] + "a",
	} {
		for _, who := range []string{"ops", "root"} {
			said, err := p.push(who, draft+":"+ref)
			if err == nil || who == "root" && !strings.Contains(said, "git could take this name for something else") {
				t.Errorf("%s pushes %s: %v %s", who, ref, err, said)
			}
		}
	}
	if said, err := newPushes(t, s, "packages/packages.git").push("pack", draft+":refs/tags/HEAD"); err == nil {
		t.Errorf("a packager has brought it: %s", said)
	}

	if said, err := p.push("ops", draft+":refs/tags/v1"); err == nil || !strings.Contains(said, "it needs the role admin") {
		t.Errorf("an operator's tag: %v %s", err, said)
	}
	if said, err := p.push("root", draft+":refs/tags/v1"); err != nil {
		t.Errorf("an administrator's tag: %v %s", err, said)
	}
	if said, err := p.push("ops", draft+":refs/heads/draft"); err != nil {
		t.Errorf("an operator's draft: %v %s", err, said)
	}
	if refs, err := process.Git(t.Context(), s.Desired(), "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"); err != nil || strings.Join(strings.Fields(refs), " ") != "refs/heads/draft refs/heads/main refs/tags/v1" {
		t.Errorf("there are %s (%v)", refs, err)
	}
}
