package gitrepo

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

func TestNamesThatGitTakesForSomethingElse(t *testing.T) {
	t.Parallel()

	for _, name := range []string{
		"HEAD", "Head", "a/HEAD", "FETCH_HEAD", "x/MERGE_HEAD", "my_head", "@", "a/@", "refs/heads/main", "heads/main", "tags/v1", "remotes/origin/main", "origin/main",
		"-f", "--force", "deadbeef", "0123456789abcdef0123456789abcdef01234567", "1234567890123456789012345678901234567890", strings.Repeat("0", 64), "MAIN", "Main",
	} {
		for _, kind := range []string{"refs/heads/", "refs/tags/"} {
			if check.MisleadingRef(kind+name, "main") == "" {
				t.Errorf("%s passes", kind+name)
			}
		}
	}
	for _, ref := range []string{
		"refs/heads/main", "refs/heads/ui/ann/scale", "refs/heads/ahead", "refs/heads/overhead", "refs/tags/v1.2.0", "refs/tags/amf/1.0.0", "refs/tags/20260301", "refs/heads/x-1",
		"refs/heads/main-2", "refs/heads/feature/main", "refs/heads/head-office", "refs/tags/original/x", "refs/heads/abcdef", "refs/heads/a@b",
	} {
		if why := check.MisleadingRef(ref, "main"); why != "" {
			t.Errorf("%s: %s", ref, why)
		}
	}
	if check.MisleadingRef("refs/tags/main", "main") == "" {
		t.Error("a tag may have the branch's name")
	}
}
