package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// holdBack has the remote keep what the next push proposes, and refuse the push; carryOut makes its branch then,
// as a forge does that was slow to take a push which was given up meanwhile.
func (p *proposing) holdBack() (carryOut func() (branch string)) {
	p.Helper()
	at := filepath.Join(p.TempDir(), "held")
	hook := filepath.Join(p.options.Remote, "hooks", "pre-receive")
	script := fmt.Sprintf(`#!/bin/sh
while read -r old new ref; do
	case $ref in refs/heads/jibe/op/*)
		[ -e %[1]q ] && continue
		echo "$new $ref" > %[1]q
		cp -r "$GIT_QUARANTINE_PATH/." %[2]q
		exit 1
	esac
done
`, at, filepath.Join(p.options.Remote, "objects"))
	if err := os.WriteFile(hook, []byte(script), 0o700); err != nil { //nolint:gosec // git runs it
		p.Fatal(err)
	}
	return func() string {
		p.Helper()
		held, err := os.ReadFile(at)
		if err != nil {
			p.Fatal(err)
		}
		commit, ref, _ := strings.Cut(strings.TrimSpace(string(held)), " ")
		if out, err := process.Git(p.Context(), p.options.Remote, "update-ref", ref, commit); err != nil {
			p.Fatalf("%v: %s", err, out)
		}
		return strings.TrimPrefix(ref, "refs/heads/")
	}
}

func TestABranchThatComesWhenItsRequestWasGivenUpIsRemovedAndNothingElseIs(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	carryOut := p.holdBack()
	p.ask(http.StatusServiceUnavailable, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
	op := p.scaleOut() // the client has asked again
	pr := p.opened(op)
	stray := carryOut()
	if stray == pr.branch || p.api.at(stray) == "" {
		t.Fatalf("branch %s is at %q, and the second request's is %s", stray, p.api.at(stray), pr.branch)
	}
	// What a person has put on such a branch, or has pushed by such a name, is theirs.
	p.work.Git("fetch", "--quiet", "origin", stray)
	p.work.Git("push", "--quiet", "origin", "HEAD:refs/heads/jibe/op/00000000", "FETCH_HEAD:refs/heads/jibe/op/00000001")

	p.restart()
	kit.Eventually(t, func() error {
		if at := p.api.at(stray); at != "" {
			return fmt.Errorf("branch %s is left at %s", stray, at)
		}
		return nil
	})
	for _, branch := range []string{pr.branch, "jibe/op/00000000", "jibe/op/00000001"} {
		if p.api.at(branch) == "" {
			t.Errorf("branch %s is gone", branch)
		}
	}
	p.Want(t, http.StatusNotFound, http.MethodGet, process.Operations+"/"+strings.TrimPrefix(stray, "jibe/op/"), nil, nil)
	if gone := p.api.of(stray); gone.number != 0 {
		t.Errorf("it was proposed as %+v", gone)
	}
	p.opened(op)
	p.merge(pr, "merge", nil)
	p.Await(t, op, "COMPLETED")
	p.units(2)
}
