package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// maxEarlier bounds how many commits on an instance's file [Repo.Earlier] looks at.
const maxEarlier = 1000

// Earlier implements [desired.Repo].
func (r *Repo) Earlier(ctx context.Context, instance string, fn func(*desired.Instance) bool) error {
	at, ok := r.Lookup(instance)
	if !ok {
		return nil
	}
	err := r.read.Each(ctx, maxEarlier, r.Head(), []string{at.Dir + "/" + desired.InstanceFile}, func(c read.PastCommit) (bool, error) {
		e, ok, err := r.read.LookupPath(ctx, c.Root, at.Dir)
		if err != nil || !ok || !e.IsDir() {
			return false, err
		}
		in, err := r.read.Read(ctx, desired.Revision{Instance: instance, Dir: at.Dir, Commit: c.Hash, Tree: e.Hash})
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
		key, err := r.read.SettingsKey(ctx, root)
		if err != nil || tried[key] {
			return false, err
		}
		tried[key] = true
		past, err := r.read.SettingsLeniently(ctx, root)
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
	err := r.read.EachCommit(ctx, commits, []string{desired.VIMDir}, func(c read.PastCommit) (bool, error) {
		if done, err := try(c.Root); done || err != nil {
			return done, err
		}
		for _, parent := range c.Parents {
			root, err := r.read.RootOf(ctx, parent)
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
		if root, err = r.read.RootOf(ctx, since); err == nil {
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
	want := message.Line(key) + ": " + message.Line(value)
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
		if _, err := r.read.Resolve(ctx, since+"^{commit}"); err == nil {
			ends = []string{head, "^" + since}
		} else if !errors.Is(err, desired.ErrNotFound) {
			return "", err
		}
	}
	find := func(revs ...string) (string, error) {
		out, err := r.read.Git.Run(ctx, append(append(args, revs...), "--")...)
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
