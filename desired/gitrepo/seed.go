package gitrepo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Seed commits files of any path: what a new desired repository starts with. It
// is for the first start and for tests; instances are written with [Repo.Write].
// Files that the branch has already are kept.
func (r *Repo) Seed(ctx context.Context, files map[string][]byte, subject string) error {
	now := r.opt.Now()
	name, mail, _ := strings.Cut(strings.TrimSuffix(r.opt.Author, ">"), " <")
	var b strings.Builder
	fmt.Fprintf(&b, "commit %s\ncommitter %s <%s> %d +0000\ndata %d\n%s\n", r.ref(), name, mail, now.Unix(), len(subject)+1, subject+"\n")
	if head := r.Head(); head != "" {
		fmt.Fprintf(&b, "from %s\n", head)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(files[path]), files[path])
	}
	if _, err := r.git.runInput(ctx, []byte(b.String()), "fast-import", "--quiet"); err != nil {
		return fmt.Errorf("write the first files of the desired repository: %w", err)
	}
	return r.Refresh(ctx)
}

// Poke asks for a fetch of the remote, or a look at the local branch, now. It
// returns at once, and asking twice is the same as once.
func (r *Repo) Poke() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}
