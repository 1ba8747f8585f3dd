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

// An operator's draft is theirs to delete and to rewrite, as long as it is the one that they brought.
func TestADraftIsDeletedByWhoBroughtItAlone(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	first := p.commit("A draft", map[string]string{"notes/draft.md": "one\n"})
	other := p.commit("Another draft", map[string]string{"notes/draft.md": "two\n"})
	try := func(who, spec string, want bool) {
		t.Helper()
		said, err := p.push(who, spec)
		if (err == nil) != want {
			t.Errorf("%s pushes %s: %v %s", who, spec, err, said)
		}
		if !want && !strings.Contains(said, "deleted or rewritten by the caller who brought") && !strings.Contains(said, "can't be deleted") && !strings.Contains(said, "can't be rewritten") {
			t.Errorf("%s pushes %s: %s", who, spec, said)
		}
	}

	try("ops", first+":refs/heads/draft", true)
	try("east", ":refs/heads/draft", false)
	try("east", "+"+other+":refs/heads/draft", false)
	try("ops", "+"+other+":refs/heads/draft", true)
	try("ops", ":refs/heads/draft", true)
	try("east", first+":refs/heads/draft", true) // under the same name, it is east's
	try("ops", ":refs/heads/draft", false)
	try("root", ":refs/heads/draft", true)

	// What the host's administrator made in its place isn't the owner's.
	try("ops", first+":refs/heads/again", true)
	if _, err := process.Git(t.Context(), s.Desired(), "update-ref", "refs/heads/again", "refs/heads/main"); err != nil {
		t.Fatal(err)
	}
	try("ops", ":refs/heads/again", false)

	try("root", ":refs/heads/main", false)
	try("root", "+"+first+"~1:refs/heads/main", true) // where it stands
	try("root", other+":refs/tags/v1", true)
	try("root", ":refs/tags/v1", false)
	if refs, err := process.Git(t.Context(), s.Desired(), "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"); err != nil || strings.Join(strings.Fields(refs), " ") != "refs/heads/again refs/heads/main refs/tags/v1" {
		t.Errorf("there are %s (%v)", refs, err)
	}
	var audited string
	for _, r := range records(t, s.Data) {
		audited += r.Reason + "\n"
	}
	if !strings.Contains(audited, "deleted, it was at "+other) || !strings.Contains(audited, "rewritten, it was at "+first) {
		t.Errorf("the audit log: %s", audited)
	}
}
