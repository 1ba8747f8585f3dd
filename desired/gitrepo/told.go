package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// fetchedReview is where [Repo.FetchBranch] fetches to.
const fetchedReview = "refs/jibe/remote/review"

// Step is a commit with the one that it is compared with.
type Step struct {
	Commit string `json:"commit"`
	// Parent is the first one, "" for the first commit of all.
	Parent string `json:"parent,omitempty"`
	// Own says that Jibe made the commit, for a request of the API or by itself.
	Own bool `json:"own,omitempty"`
	// FillsIn says that Jibe made the commit to complete what one beneath it asks for, as by the package
	// that a VNF is pinned to.
	FillsIn bool `json:"fillsIn,omitempty"`
	// OfRollout says that Jibe made the commit to carry a rollout on, or for who asked for that by name.
	OfRollout bool `json:"ofRollout,omitempty"`
}

// Since returns up to most of the commits that the history of tip has and that of since lacks, the
// newest first; more says that there are more. since "" lacks all. One that this repository doesn't
// have is [desired.ErrNotFound].
func (r *Repo) Since(ctx context.Context, since, tip string, most int) (list []Step, more bool, err error) {
	revs := []string{tip}
	if since != "" {
		revs = append(revs, "^"+since)
	}
	for _, c := range []string{since, tip} {
		if c == "" {
			continue
		}
		if _, err := r.read.Resolve(ctx, c+"^{commit}"); err != nil {
			return nil, false, err
		}
	}
	args := append([]string{"log", fmt.Sprintf("-n%d", most+1), "--topo-order", "--format=%H %P"}, revs...)
	out, err := r.read.Git.Run(ctx, append(args, "--")...)
	if err != nil {
		return nil, false, fmt.Errorf("%w: log: %w", desired.ErrUnavailable, err)
	}
	for line := range strings.Lines(out) {
		if len(list) == most {
			return list, true, nil
		}
		f := strings.Fields(line)
		s := Step{Commit: f[0]}
		if len(f) > 1 {
			s.Parent = f[1]
		}
		data, err := r.read.Objects.Get(ctx, git.KindCommit, s.Commit)
		if err != nil {
			return nil, false, r.read.Damaged("commit "+s.Commit, err)
		}
		if s.Own = r.sealed(data); s.Own && len(f) <= 2 { // a merge has landed what somebody asks for
			_, trailers := message.Said(data)
			s.FillsIn, s.OfRollout = fillsIn(trailers), trailers[desired.TrailerRollout] != ""
		}
		list = append(list, s)
	}
	return list, false, nil
}

// Reaches is [Repo.Has], where nothing is reached from a tip that this repository doesn't have: one
// of a history that was cut or rewritten.
func (r *Repo) Reaches(ctx context.Context, tip, commit string) (bool, error) {
	has, err := r.Has(ctx, tip, commit)
	if err != nil && ctx.Err() == nil {
		if _, gone := r.read.Resolve(ctx, tip+"^{commit}"); errors.Is(gone, desired.ErrNotFound) {
			return false, nil
		}
	}
	return has, err
}

// FetchBranch returns the commit of a branch of the remote, which this repository has then, or
// [desired.ErrNotFound]. Unlike [Repo.Branch] it holds up no write.
func (r *Repo) FetchBranch(ctx context.Context, name string) (string, error) {
	r.reviewing.Lock() // one ref takes what is fetched
	defer r.reviewing.Unlock()
	ref := "refs/heads/" + name
	if ok, err := r.canBe(ctx, ref); err != nil {
		return "", fmt.Errorf("branch %q: %w", message.Clip(name), err)
	} else if !ok {
		return "", fmt.Errorf("%w: branch %q", desired.ErrNotFound, message.Clip(name))
	}
	tip, err := r.remoteRef(ctx, ref)
	if err == nil && tip == "" {
		err = fmt.Errorf("%w: branch %q", desired.ErrNotFound, message.Clip(name))
	}
	if err != nil {
		return "", err
	}
	if tip, err = r.fetch(ctx, ref, fetchedReview, transferTimeout); err == nil && !git.IsHash(tip) {
		err = fmt.Errorf("%w: branch %q", desired.ErrNotFound, message.Clip(name))
	}
	return tip, err
}

// OwnBranches returns, by name, the branches of the remote whose names are prefix and the id of an operation, and whose
// tip is the very commit that this installation has made for that operation. of, which is called when the remote has
// answered, says which operations count; only branches of those are fetched.
func (r *Repo) OwnBranches(ctx context.Context, prefix string, of func(operation string) (bool, error)) (names []string, err error) {
	listing, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	out, err := r.read.Git.Run(listing, "ls-remote", "--quiet", "--", r.opt.Remote, "refs/heads/"+prefix+"*")
	if err != nil {
		return nil, fmt.Errorf("%w: ask the remote: %w", desired.ErrUnavailable, err)
	}
	for line := range strings.Lines(out) {
		_, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name := strings.TrimPrefix(ref, "refs/heads/")
		id, ok := strings.CutPrefix(name, prefix)
		if !ok || ref == name {
			continue
		}
		if counts, err := of(id); err != nil {
			return nil, err
		} else if !counts {
			continue
		}
		tip, err := r.FetchBranch(ctx, name)
		if errors.Is(err, desired.ErrNotFound) {
			continue // it was removed a moment ago
		}
		if err != nil {
			return nil, err
		}
		data, err := r.read.Objects.Get(ctx, git.KindCommit, tip)
		if err != nil {
			return nil, fmt.Errorf("branch %s: %w", name, err)
		}
		if c, own := r.ownCommit(tip, data); own && c.Trailers[desired.TrailerOperation] == id {
			names = append(names, name)
		}
	}
	return names, nil
}

// RemoveBranch removes a branch of the remote, whoever has moved it; that is done where it isn't there.
func (r *Repo) RemoveBranch(ctx context.Context, name string) error {
	ref := "refs/heads/" + name
	if ref == r.read.Ref() {
		return fmt.Errorf("remove branch %s: it is the one that runs", name)
	}
	if ok, err := r.canBe(ctx, ref); err != nil {
		return fmt.Errorf("remove branch %s: %w", message.Clip(name), err)
	} else if !ok {
		return fmt.Errorf("remove branch %q: there can be none", message.Clip(name))
	}
	tip, err := r.remoteRef(ctx, ref)
	if err != nil || tip == "" {
		return err
	}
	k, err := r.nextPush(ctx)
	if err != nil {
		return fmt.Errorf("remove branch %s: %w: wait for the next push: %w", name, desired.ErrUnavailable, err)
	}
	defer k.end(true)
	return r.pushProposed(ctx, ref, "", tip)
}
