package gitrepo

import (
	"os"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

func TestWhoOwnsADraftIsProvedByASeal(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: []byte("the key of the installation")})
	mustWrite(t, r, testID(1), "instances/amf", 1)
	first := r.Head()
	mustWrite(t, r, testID(1), "", 2)
	second := r.Head()
	mustWrite(t, r, testID(1), "", 3)
	third := r.Head()
	mustWrite(t, r, testID(1), "", 4)
	fourth := r.Head()
	const draft = "refs/heads/draft"
	is := func(at, want string) {
		t.Helper()
		if owner, err := r.DraftOwner(t.Context(), draft, at); err != nil || owner != want {
			t.Errorf("at %s it is %q's (%v), want %q", at, owner, err, want)
		}
	}
	moved := func(old, to, by string, rewritten bool) {
		t.Helper()
		if err := r.DraftMoved(check.RefUpdate{Ref: draft, Old: old, New: to}, by, rewritten); err != nil {
			t.Fatal(err)
		}
	}

	is(first, "")
	moved("", second, "ann (tokens)", false)
	is(second, "ann (tokens)")
	is(first, "") // another branch of that name
	moved(second, first, "ann (tokens)", true)
	is(first, "ann (tokens)")
	moved(first, second, "ann (tokens)", false) // goes on with it
	is(second, "ann (tokens)")
	moved(second, third, "bob (tokens)", false) // puts a commit on top
	is(third, "")
	moved(third, fourth, "ann (tokens)", false) // and so does its owner: bob's is still within
	is(fourth, "")
	moved(fourth, "", "root (tokens)", true)
	moved("", second, "ann (tokens)", false)
	is(second, "ann (tokens)")
	moved(second, "", "ann (tokens)", true)
	is(second, "")

	moved("", second, "ann (tokens)", false)
	data, err := os.ReadFile(r.draftsFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.draftsFile(), []byte(strings.Replace(string(data), "ann", "eve", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	is(second, "")
	if err := os.WriteFile(r.draftsFile(), []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	is(second, "")
	moved("", second, "ann (tokens)", false)
	is(second, "ann (tokens)")
	if err := r.DraftMoved(check.RefUpdate{Ref: r.read.Ref(), New: second}, "ann (tokens)", false); err != nil {
		t.Fatal(err)
	}
	if owner, err := r.DraftOwner(t.Context(), r.read.Ref(), second); err != nil || owner != "" {
		t.Errorf("the desired branch is %q's, %v", owner, err)
	}
}
