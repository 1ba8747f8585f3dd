package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// FindTrailer returns the commit reachable from head that carries the trailer,
// the newest if there are several, looking no further back than the commit since
// (itself included; "" is the beginning), or desired.ErrNotFound.
func (r *Repo) FindTrailer(ctx context.Context, since, key, value string) (string, error) {
	want := oneLine(key) + ": " + oneLine(value)
	head := r.Head()
	none := fmt.Errorf("%w: a commit with the trailer %q", desired.ErrNotFound, want)
	if head == "" {
		return "", none
	}
	args := []string{"log", "--fixed-strings", "--grep=" + want, "--format=%H%x00%(trailers:only,unfold)%x01"}
	ends := []string{head}
	if since != "" {
		if _, err := r.resolve(ctx, since+"^{commit}"); err == nil {
			ends = []string{head, "^" + since}
		} else if !errors.Is(err, desired.ErrNotFound) {
			return "", err
		}
	}
	find := func(revs ...string) (string, error) {
		out, err := r.git.Run(ctx, append(append(args, revs...), "--")...)
		if err != nil {
			return "", fmt.Errorf("%w: search history: %w", desired.ErrUnavailable, err)
		}
		for item := range strings.SplitSeq(out, "\x01") {
			hash, trailers, ok := strings.Cut(strings.TrimSpace(item), "\x00")
			for line := range strings.Lines(trailers) {
				if ok && strings.TrimSpace(line) == want {
					return hash, nil
				}
			}
		}
		return "", none
	}
	hash, err := find(ends...)
	if errors.Is(err, desired.ErrNotFound) && len(ends) > 1 {
		return find("--no-walk", since)
	}
	return hash, err
}
