package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// mostFiles is how many files a finding names.
const mostFiles = 3

// references looks for references to secrets that stand where new ones would be refused.
func (t *Target) references(ctx context.Context, settings *desired.Settings) Finding {
	keeper, err := t.Keeper()
	if err != nil {
		return skipped("the key can't be opened")
	}
	s, err := secret.Look(ctx, keeper, git.Runner{Dir: t.path("desired.git")}, "refs/heads/"+cmp.Or(t.Branch, "main"), settings)
	if err != nil {
		return skipped("the desired repository can't be read")
	}
	var what, remedies []string
	note := func(said, remedy string) {
		what = append(what, said)
		remedies = append(remedies, remedy)
	}
	if len(s.OfVIMs) > 0 {
		note("instances that refer to what vims/ or peers.yaml refers to: "+some(s.OfVIMs), "Have these instances name the VIM (vim: NAME), or keep their secrets elsewhere.")
	}
	if len(s.Outside) > 0 {
		note("instances that refer to what their project doesn't have: "+some(s.Outside), "Add it to secrets in the files under projects/, or encrypt it.")
	}
	if s.Misplaced > 0 {
		note(fmt.Sprintf("encrypted values that are for another place than where they stand: %d", s.Misplaced), "Encrypt these secrets for where they stand; where a project has changed around its instances, jibe secret rotate --adopt does so.")
	}
	if s.Unscoped > 0 {
		note(fmt.Sprintf("encrypted values that don't say what they are for: %d", s.Unscoped), "jibe secret rotate has them be for where they stand.")
	}
	if s.Unreadable > 0 {
		note(fmt.Sprintf("encrypted values that this installation's key doesn't open: %d", s.Unreadable), "Encrypt these secrets again.")
	}
	if len(what) == 0 {
		return ok("each stands where it may be used")
	}
	return found(Warning, strings.Join(remedies, " "), "%s", strings.Join(what, "; "))
}

// some names files, as many as a finding has room for.
func some(files []string) string {
	if more := len(files) - mostFiles; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(files[:mostFiles], ", "), more)
	}
	return strings.Join(files, ", ")
}
