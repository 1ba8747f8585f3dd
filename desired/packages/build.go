package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// build makes an index of what there is of the repositories. Only commits and trees
// that the present one hasn't seen are read. Where the store itself can't be read,
// there is no index.
func (c *Catalogue) build(ctx context.Context, repos []desired.Repository, at map[string][]version) (*index, error) {
	b := &builder{store: newObjects(ctx, c.git, c.most), sound: c.sound, judge: c.judge, log: c.log, host: c.host, proofs: c.proofs, now: time.Now(), was: c.index.Load(), next: &index{
		repos: slices.Clone(repos), byVnfd: map[string][]*Entry{}, trees: map[string]*Entry{}, unsound: map[*Entry]Unusable{},
		commits: map[string]place{}, parsed: map[string]summary{},
		unverified: map[string]Unusable{}, hidden: map[string]*Entry{}, demands: map[string]string{},
	}}
	defer b.store.close()
	b.store.commits = probes(at)
	var errs []error
	for _, r := range repos {
		slices.SortFunc(at[r.Name], func(a, b version) int { return b.compare(a) })
		if err := errors.Join(b.repository(r, at[r.Name]), b.record(r, at[r.Name])); err != nil {
			errs = append(errs, &RepositoryError{r.Name, err})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	b.next.onboard()
	return b.next, nil
}

// mostProbes bounds the commits by which it is told whether the store can be read.
const mostProbes = 8

// probes returns commits by which it is told whether the store can be read: that of the desired branch, and a few versions.
func probes(at map[string][]version) []string {
	commits := []string{"HEAD"}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		for _, v := range at[name] {
			if len(commits) == mostProbes {
				return commits
			}
			commits = append(commits, v.commit)
		}
	}
	return commits
}

// builder makes one index.
type builder struct {
	sound     *verdicts
	judge     Judge
	log       *slog.Logger
	host      *HostVerification
	proofs    *proofs
	now       time.Time
	was, next *index
	store     *objects
}

// repository adds what is at the versions of r, newest first.
func (b *builder) repository(r desired.Repository, versions []version) error {
	demanded, err := newDemand(b.host.of(r))
	if err != nil { // it was read before: repositories.yaml and the host's files are held to it
		return fmt.Errorf("what it must be signed with: %w", err)
	}
	b.next.demands[r.Name] = demanded.id
	b.next.demanding = b.next.demanding || demanded.id != ""
	for _, v := range versions {
		notSigned := b.version(demanded, v)
		if errors.Is(notSigned, errStore) && b.store.works(v.commit) == nil {
			notSigned = damaged(notSigned)
		}
		if errors.Is(notSigned, errStore) {
			return fmt.Errorf("read %s: %w", v.name, notSigned)
		}
		key := v.commit + ":" + r.Path
		here, seen := b.was.commits[key]
		if !seen {
			here.packages, here.err = b.store.packages(v.commit, r.Path)
			if errors.Is(here.err, errStore) && b.store.works(v.commit) == nil {
				here.err = damaged(here.err)
			}
			if errors.Is(here.err, errStore) {
				return fmt.Errorf("read %s: %w", v.name, here.err)
			}
		}
		if !here.damaged() {
			b.next.commits[key] = here
		}
		if here.err != nil {
			b.next.problems = append(b.next.problems, Unusable{Repository: r.Name, Ref: v.name, Path: r.Path, Err: here.err})
			continue
		}
		ids := map[string]string{} // VNFD id -> path, at this version
		for _, p := range here.packages {
			if p.err != nil {
				b.next.problems = append(b.next.problems, Unusable{Repository: r.Name, Ref: v.name, Path: p.path, Tree: p.tree, Err: p.err})
				continue
			}
			s, err := b.summary(p.tree)
			if err != nil && b.store.works(v.commit) == nil { // looked at again by the next build
				b.next.problems = append(b.next.problems, Unusable{Repository: r.Name, Ref: v.name, Path: p.path, Tree: p.tree, Err: damaged(err)})
				continue
			}
			if err != nil {
				return fmt.Errorf("read %s at %s: %w", cmp.Or(p.path, "."), v.name, err)
			}
			if first, twice := ids[s.vnfdID]; twice && s.err == nil {
				s.err = fmt.Errorf("its VNFD id %s is that of the package %s too: give one of them another id", s.vnfdID, cmp.Or(first, "."))
			}
			problem := Unusable{Repository: r.Name, Ref: v.name, Path: p.path, Tree: p.tree, VnfdID: s.vnfdID, Version: s.version, Err: cmp.Or(s.err, s.unsound)}
			if problem.Err != nil {
				b.next.problems = append(b.next.problems, problem)
			}
			if s.err != nil {
				continue
			}
			notSigned := notSigned
			if notSigned == nil {
				notSigned = b.manifest(demanded, p.tree)
				if errors.Is(notSigned, errStore) && b.store.works(v.commit) == nil {
					notSigned = damaged(notSigned)
				}
				if errors.Is(notSigned, errStore) {
					return fmt.Errorf("read %s at %s: %w", cmp.Or(p.path, "."), v.name, notSigned)
				}
			}
			ids[s.vnfdID] = p.path
			if notSigned != nil {
				b.hide(problem, notSigned, s)
				continue
			}
			e := &Entry{Repository: r.Name, Ref: v.name, Path: p.path, Tree: p.tree, VnfdID: s.vnfdID, Version: s.version, About: s.about, Flaw: s.flaw}
			if s.unsound != nil {
				b.next.unsound[e] = problem
			}
			b.next.entries = append(b.next.entries, e)
			b.next.byVnfd[e.VnfdID] = append(b.next.byVnfd[e.VnfdID], e)
			if _, ok := b.next.trees[e.Tree]; !ok {
				b.next.trees[e.Tree] = e
			}
		}
	}
	return nil
}

// summary reads the VNFD in the tree, once. The error is that of the store; the summary holds
// what is wrong with the package.
func (b *builder) summary(tree string) (summary, error) {
	for _, ix := range []*index{b.next, b.was} {
		if s, ok := ix.parsed[tree]; ok {
			b.next.parsed[tree] = s
			return s, nil
		}
	}
	p, _, err := load(b.store, tree)
	var s summary
	switch {
	case errors.Is(err, errStore):
		return summary{}, err
	case err != nil:
		s.err = err
	default:
		d := p.VNFD
		s.vnfdID, s.version = d.ID, d.Version
		s.about = &About{Provider: d.Provider, ProductName: d.ProductName, SoftwareVersion: d.SoftwareVersion, VnfmInfo: d.VnfmInfo}
		if s.unsound = b.sound.of(b.store.ctx, p); errors.Is(s.unsound, errStore) {
			return summary{}, s.unsound
		}
		if s.flaw, err = b.judge.of(b.store.ctx, p); err != nil {
			return summary{}, err
		}
		if s.flaw != nil {
			b.log.Warn("a package has a flaw: an upload of it would be refused", "vnfdId", s.vnfdID, "version", s.version, "tree", tree, "error", s.flaw)
		}
	}
	b.next.parsed[tree] = s
	return s, nil
}
