package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// maxHistory bounds how many commits on a file are tried for one that can be parsed.
const maxHistory = 50

// pastCommit is a commit of the history.
type pastCommit struct {
	hash, root string
	parents    []string
}

// eachCommit calls fn for the commits that touched the paths, newest first,
// until it says that it is done. It tries no more than maxHistory.
func (r *Reader) eachCommit(ctx context.Context, commits string, paths []string, fn func(c pastCommit) (bool, error)) error {
	return r.each(ctx, maxHistory, commits, paths, fn)
}

func (r *Reader) each(ctx context.Context, most int, commits string, paths []string, fn func(c pastCommit) (bool, error)) error {
	out, err := r.git.Run(ctx, append([]string{"--literal-pathspecs", "log", fmt.Sprintf("-n%d", most), "--format=%H %T %P", commits, "--"}, paths...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if done, err := fn(pastCommit{hash: f[0], root: f[1], parents: f[2:]}); done || err != nil {
			return err
		}
	}
	return nil
}

// maxEarlier bounds how many commits on an instance's file [Repo.Earlier] looks at.
const maxEarlier = 1000

// Earlier implements [desired.Repo].
func (r *Repo) Earlier(ctx context.Context, instance string, fn func(*desired.Instance) bool) error {
	at, ok := r.Lookup(instance)
	if !ok {
		return nil
	}
	err := r.each(ctx, maxEarlier, r.Head(), []string{at.Dir + "/" + desired.InstanceFile}, func(c pastCommit) (bool, error) {
		e, ok, err := r.lookupPath(ctx, c.root, at.Dir)
		if err != nil || !ok || !e.IsDir() {
			return false, err
		}
		in, err := r.Read(ctx, desired.Revision{Instance: instance, Dir: at.Dir, Commit: c.hash, Tree: e.Hash})
		if err != nil || in.ID != instance {
			return false, nil //nolint:nilerr // what couldn't be parsed was never obeyed
		}
		return fn(in), nil
	})
	if err != nil {
		return fmt.Errorf("earlier files of instance %s: %w", instance, err)
	}
	return nil
}

// FormerSettings returns the newest settings in head's history that ok accepts, no older than
// those of the commit since ("": however old): by them an instance at a removed VIM can be
// taken down. It passes over files that can't be parsed. Where ok accepts none, it returns
// desired.ErrNotFound.
func (r *Repo) FormerSettings(ctx context.Context, since string, ok func(*desired.Settings) bool) (*desired.Settings, error) {
	var found *desired.Settings
	tried := map[string]bool{}
	try := func(root string) (bool, error) {
		key, err := r.settingsKey(ctx, root)
		if err != nil || tried[key] {
			return false, err
		}
		tried[key] = true
		past, err := r.settingsLeniently(ctx, root)
		if err != nil {
			return false, err
		}
		if ok(past) {
			found = past
		}
		return found != nil, nil
	}
	head := r.Head()
	commits := head
	if since != "" {
		commits = since + ".." + head
	}
	err := r.eachCommit(ctx, commits, []string{desired.VIMDir}, func(c pastCommit) (bool, error) {
		if done, err := try(c.root); done || err != nil {
			return done, err
		}
		for _, parent := range c.parents {
			root, err := r.rootOf(ctx, parent)
			if err != nil {
				return false, err
			}
			if done, err := try(root); done || err != nil {
				return done, err
			}
		}
		return false, nil
	})
	if err == nil && found == nil && since != "" {
		var root string
		if root, err = r.rootOf(ctx, since); err == nil {
			_, err = try(root)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for former VIMs: %w", err)
	}
	if found == nil {
		return nil, fmt.Errorf("%w: a former definition of the VIM", desired.ErrNotFound)
	}
	return found, nil
}

// FindTrailer returns the commit of Jibe's own reachable from head that carries the trailer
// (anybody can write the words), the newest if there are several, looking no further back than the commit since
// (itself included; "" is the beginning), or desired.ErrNotFound. While it isn't known whether the
// remote took a push, a commit that isn't found is desired.ErrUnavailable.
func (r *Repo) FindTrailer(ctx context.Context, since, key, value string) (string, error) {
	want := oneLine(key) + ": " + oneLine(value)
	head := r.Head()
	none := fmt.Errorf("%w: a commit with the trailer %q", desired.ErrNotFound, want)
	if d := r.sent.doubt(); d != nil {
		none = fmt.Errorf("find the commit with the trailer %q: %w", want, d)
	}
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
				if !ok || strings.TrimSpace(line) != want {
					continue
				}
				own, err := r.own(ctx, hash)
				if err != nil {
					return "", err
				}
				if own {
					return hash, nil
				}
			}
		}
		return "", none
	}
	hash, err := find(ends...)
	if errors.Is(err, none) && len(ends) > 1 {
		return find("--no-walk", since)
	}
	return hash, err
}
