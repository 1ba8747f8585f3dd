package gitrepo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Versions returns the hashes of the contents that a file had at the commits on it, the newest first: no more than
// most, and none of commits before since, if that is set. It follows all parents, so that a version is found whatever
// merge brought it.
func (r *Repo) Versions(ctx context.Context, file string, since time.Time, most int) ([]string, error) {
	head := r.Head()
	if head == "" {
		return nil, nil
	}
	args := []string{"--literal-pathspecs", "log", "--full-history", fmt.Sprintf("-n%d", most), "--format=", "--raw", "--no-abbrev", "-m"}
	if !since.IsZero() {
		args = append(args, "--since="+since.UTC().Format(time.RFC3339))
	}
	out, err := r.read.Git.Run(ctx, append(args, head, "--", file)...)
	if err != nil {
		return nil, fmt.Errorf("%w: versions of %s: %w", desired.ErrUnavailable, file, err)
	}

	var hashes []string
	seen := map[string]bool{}
	for line := range strings.Lines(out) { // ":100644 100644 OLD NEW M\tPATH"
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		for _, hash := range []string{f[3], f[2]} {
			if git.IsHash(hash) && strings.Trim(hash, "0") != "" && !seen[hash] {
				seen[hash] = true
				hashes = append(hashes, hash)
			}
		}
	}

	return hashes, nil
}
