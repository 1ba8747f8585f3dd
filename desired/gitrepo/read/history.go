package read

import (
	"context"
	"fmt"
	"strings"
)

// maxHistory bounds how many commits on a file are tried for one that can be parsed.
const maxHistory = 50

// PastCommit is a commit of the history.
type PastCommit struct {
	Hash, Root string
	Parents    []string
}

// EachCommit calls fn for the commits that touched the paths, newest first,
// until it says that it is done. It tries no more than maxHistory.
func (r *Reader) EachCommit(ctx context.Context, commits string, paths []string, fn func(c PastCommit) (bool, error)) error {
	return r.Each(ctx, maxHistory, commits, paths, fn)
}

// Each calls fn with the commits of a range that change one of the paths, at most as many, the newest first, until it
// returns false.
func (r *Reader) Each(ctx context.Context, most int, commits string, paths []string, fn func(c PastCommit) (bool, error)) error {
	out, err := r.Git.Run(ctx, append([]string{"--literal-pathspecs", "log", fmt.Sprintf("-n%d", most), "--format=%H %T %P", commits, "--"}, paths...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if done, err := fn(PastCommit{Hash: f[0], Root: f[1], Parents: f[2:]}); done || err != nil {
			return err
		}
	}
	return nil
}
