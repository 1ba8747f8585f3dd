// Package packages is the catalogue of VNF packages: which there are in the
// package repositories, and the content of each by its git tree hash.
//
// Everything lives in the object store of the desired repository: upstreams are
// fetched below refs/jibe/upstream/<repository>/, those that are only proposed below
// refs/jibe/proposed/ for a moment, and what runs is pinned by
// refs/jibe/packages/<tree>, so that neither a moved nor a deleted upstream can
// take it away. It never checks anything out, never runs a package's hooks,
// and never decides which package an instance runs.
package packages

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// ErrUnknown is returned for a VNFD id or a tree that no package has.
var ErrUnknown = errors.New("no such package")

// ErrUnsound is returned for a package whose files aren't those that its own
// TOSCA.meta or manifest lists: whoever changed them, nobody vouches for them.
var ErrUnsound = errors.New("the package can't be used")

// RepositoryError is returned by [Catalogue.Sync] for each repository that could
// not be fetched or read. What was known of it before stays known.
type RepositoryError struct {
	Repository string
	Err        error
}

func (e *RepositoryError) Error() string {
	return fmt.Sprintf("package repository %s: %v", e.Repository, e.Err)
}

func (e *RepositoryError) Unwrap() error { return e.Err }

// Entry is one version of a package.
type Entry struct {
	Repository string
	// Ref is the branch or tag, by its short name; "HEAD" where the repository
	// names neither.
	Ref string
	// Path is the package's directory in the repository, "" for its root.
	Path string
	// Tree is the git tree hash of that directory: the pin.
	Tree   string
	VnfdID string
	// Version is descriptor_version of the VNFD.
	Version string
	// Hooks says whether Jibe may run the hooks of the repository's packages.
	Hooks bool
}

// Unusable is a package that can't be used.
type Unusable struct {
	Repository, Ref, Path, Tree string
	// VnfdID and Version are what its VNFD says, "" where that can't be read.
	VnfdID, Version string
	Err             error
}

func (p Unusable) Error() string {
	return fmt.Sprintf("package %s in repository %s at %s: %v", cmp.Or(p.Path, "."), p.Repository, p.Ref, p.Err)
}

// Unwrap gives what is wrong.
func (p Unusable) Unwrap() error { return p.Err }

// Catalogue knows the packages. It is safe for concurrent use.
type Catalogue struct {
	git      git.Runner
	packages string
	log      *slog.Logger

	index atomic.Pointer[index]
	sync  sync.Mutex // one Sync at a time; guards swept
	swept bool       // of what former processes left of proposals

	proposing string        // below which refs this process fetches proposals
	places    chan struct{} // of proposals that are fetched at once

	loading singleflight.Group
	cache   *lru.Cache[*vnfd.Package]
	sound   *verdicts
	pinned  sync.Map // tree -> true
	pinning sync.Mutex
	kept    sync.Map // pinned tree -> its VNFD id
}

// index is immutable.
type index struct {
	repos    []desired.Repository // what it was made for
	entries  []*Entry             // in the order of repositories.yaml, newest first
	byVnfd   map[string][]*Entry  // likewise
	trees    map[string]*Entry
	problems []Unusable
	// unsound are the entries that nobody may choose, and why. An instance may run one of
	// them: it was chosen before its checksums were wrong, or known.
	unsound map[*Entry]Unusable

	// What needn't be read again.
	commits map[string]place   // commit and path -> what is there
	parsed  map[string]summary // tree -> what its VNFD says
}

// summary is what is kept of a package that was read once.
type summary struct {
	vnfdID, version string
	err             error // it can't be read
	unsound         error // it isn't what it says itself
}

// place is a folder of packages, or a package, at a commit.
type place struct {
	packages []found
	err      error // why it can't be used
}

// found is a package's directory at a commit.
type found struct{ path, tree string }

// New makes an empty catalogue that keeps its objects in the bare repository
// gitDir. packagesDir is where relative URLs of local repositories begin.
func New(gitDir, packagesDir string, log *slog.Logger) *Catalogue {
	if abs, err := filepath.Abs(gitDir); err == nil {
		gitDir = abs
	}
	if abs, err := filepath.Abs(packagesDir); err == nil {
		packagesDir = abs
	}
	c := &Catalogue{
		git: newRunner(gitDir), packages: packagesDir, log: log, cache: lru.New[*vnfd.Package](cacheSize, cacheSize), sound: &verdicts{},
		proposing: proposed + rand.Text() + "/", places: make(chan struct{}, maxProposals),
	}
	c.index.Store(&index{})
	return c
}

// Sync fetches all repositories, forgets those that aren't listed any more, and
// brings the catalogue up to date. A repository that can't be fetched keeps what
// it had, and is a [*RepositoryError] in the joined error; the others are up to
// date all the same. Packages that can't be used are no error: see
// [Catalogue.Problems].
func (c *Catalogue) Sync(ctx context.Context, repos []desired.Repository) error {
	c.sync.Lock()
	defer c.sync.Unlock()
	return errors.Join(c.fetch(ctx, upstream, repos), c.read(ctx, repos, true))
}

// fetch fetches the repositories below the prefix. The joined error has a [*RepositoryError]
// for each that can't be fetched.
func (c *Catalogue) fetch(ctx context.Context, prefix string, repos []desired.Repository) error {
	errs := make([]error, len(repos))
	var group errgroup.Group
	group.SetLimit(8)
	for i, r := range repos {
		group.Go(func() error {
			if err := c.fetchRefs(ctx, c.location(r), refspec(r, prefix)); err != nil {
				errs[i] = &RepositoryError{r.Name, err}
				c.log.WarnContext(ctx, "package repository not fetched", "repository", r.Name, "error", err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// Load brings the catalogue up to date with what was fetched before, without
// asking any repository: for a start while they are away, and for checks.
func (c *Catalogue) Load(ctx context.Context, repos []desired.Repository) error {
	c.sync.Lock()
	defer c.sync.Unlock()
	return c.read(ctx, repos, false)
}

// location is what git fetches from.
func (c *Catalogue) location(r desired.Repository) string {
	if strings.Contains(r.URL, ":") || filepath.IsAbs(r.URL) {
		return r.URL
	}
	return filepath.Join(c.packages, filepath.FromSlash(r.URL))
}

const (
	upstream = "refs/jibe/upstream/"
	proposed = "refs/jibe/proposed/" // then a name of the process, then one of the proposal
	pins     = "refs/jibe/packages/"
)

// refspec says what of the repository is fetched, and to below which prefix.
func refspec(r desired.Repository, prefix string) string {
	to := prefix + r.Name
	switch {
	case r.Branch != "":
		return fmt.Sprintf("+refs/heads/%s:%s/heads/%s", r.Branch, to, r.Branch)
	case r.Tags == "":
		return fmt.Sprintf("+HEAD:%s/HEAD", to)
	case strings.Count(r.Tags, "*") == 1 && !strings.ContainsAny(r.Tags, `?[]\^~: `) && !strings.Contains(r.Tags, ".."):
		return fmt.Sprintf("+refs/tags/%s:%s/tags/%s", r.Tags, to, r.Tags)
	}
	// Git knows no other patterns: the rest is left out when reading.
	return fmt.Sprintf("+refs/tags/*:%s/tags/*", to)
}

// wanted says whether a fetched ref, such as "tags/v1.2", is one that the
// repository's entry asks for, and its short name.
func wanted(r desired.Repository, ref string) (string, bool) {
	kind, name, _ := strings.Cut(ref, "/")
	switch {
	case r.Branch != "":
		return name, kind == "heads" && name == r.Branch
	case r.Tags == "":
		return kind, ref == "HEAD"
	}
	ok, err := path.Match(r.Tags, name)
	return name, kind == "tags" && err == nil && ok
}

// read makes a new index out of the refs.
func (c *Catalogue) read(ctx context.Context, repos []desired.Repository, prune bool) error {
	at, stale, err := c.fetched(ctx, upstream, repos)
	if err != nil {
		return err
	}
	next, err := c.build(ctx, repos, at)
	if err != nil {
		return err
	}
	c.index.Store(next)
	if !prune {
		return nil
	}
	if err := c.deleteRefs(ctx, stale); err != nil {
		return fmt.Errorf("forget removed package repositories: %w", err)
	}
	return c.sweep(ctx)
}

// fetched returns the versions of the repositories below the prefix, by name of the
// repository, and the refs there that none of them asks for.
func (c *Catalogue) fetched(ctx context.Context, prefix string, repos []desired.Repository) (at map[string][]version, stale []string, err error) {
	refs, err := c.refs(ctx, prefix)
	if err != nil {
		return nil, nil, fmt.Errorf("read package catalogue: %w", err)
	}
	byName := map[string]desired.Repository{}
	for _, r := range repos {
		byName[r.Name] = r
	}
	at = map[string][]version{}
	for _, ref := range refs {
		name, rest, _ := strings.Cut(strings.TrimPrefix(ref.Name, prefix), "/")
		r, known := byName[name]
		short, ok := wanted(r, rest)
		if !known || !ok {
			stale = append(stale, ref.Name)
			continue
		}
		at[name] = append(at[name], version{short, ref.Commit, semverOf(short)})
	}
	return at, stale, nil
}

// build makes an index of what there is of the repositories. Only commits and trees
// that the present one hasn't seen are read. Where the store itself can't be read,
// there is no index.
func (c *Catalogue) build(ctx context.Context, repos []desired.Repository, at map[string][]version) (*index, error) {
	b := &builder{store: newObjects(ctx, c.git), sound: c.sound, was: c.index.Load(), next: &index{
		repos: slices.Clone(repos), byVnfd: map[string][]*Entry{}, trees: map[string]*Entry{}, unsound: map[*Entry]Unusable{},
		commits: map[string]place{}, parsed: map[string]summary{},
	}}
	defer b.store.close()
	var errs []error
	for _, r := range repos {
		slices.SortFunc(at[r.Name], func(a, b version) int { return b.compare(a) })
		if err := b.repository(r, at[r.Name]); err != nil {
			errs = append(errs, &RepositoryError{r.Name, err})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return b.next, nil
}

// builder makes one index.
type builder struct {
	sound     *verdicts
	was, next *index
	store     *objects
}

// repository adds what is at the versions of r, newest first.
func (b *builder) repository(r desired.Repository, versions []version) error {
	for _, v := range versions {
		key := v.commit + ":" + r.Path
		here, seen := b.was.commits[key]
		if !seen {
			here.packages, here.err = b.store.packages(v.commit, r.Path)
			if errors.Is(here.err, errStore) {
				return fmt.Errorf("read %s: %w", v.name, here.err)
			}
		}
		b.next.commits[key] = here
		if here.err != nil {
			b.next.problems = append(b.next.problems, Unusable{Repository: r.Name, Ref: v.name, Path: r.Path, Err: here.err})
			continue
		}
		ids := map[string]string{} // VNFD id -> path, at this version
		for _, p := range here.packages {
			s, err := b.summary(p.tree)
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
			ids[s.vnfdID] = p.path
			e := &Entry{Repository: r.Name, Ref: v.name, Path: p.path, Tree: p.tree, VnfdID: s.vnfdID, Version: s.version, Hooks: r.Hooks}
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
		s.vnfdID, s.version = p.VNFD.ID, p.VNFD.Version
		s.unsound = b.sound.of(p)
	}
	b.next.parsed[tree] = s
	return s, nil
}

// Find returns the newest version of the package with the VNFD id, or [ErrUnknown]. The first
// repository in repositories.yaml that has it counts, and in it the tag with the highest
// semantic version. If the checksums of that one don't hold, Find returns [ErrUnsound]: nobody
// has asked for an older one. It costs no I/O.
func (c *Catalogue) Find(vnfdID string) (*Entry, error) {
	ix := c.index.Load()
	if e := ix.byVnfd[vnfdID]; len(e) > 0 {
		if problem, bad := ix.unsound[e[0]]; bad {
			return nil, fmt.Errorf("%w: VNFD id %q: %w (%s)", ErrUnsound, vnfdID, problem, remedy)
		}
		out := *e[0]
		return &out, nil
	}
	why := "push the package to one of repositories.yaml"
	if n := len(ix.problems); n > 0 {
		why += fmt.Sprintf("; %d packages there can't be used, such as: %v", n, ix.problems[0])
	}
	return nil, fmt.Errorf("%w: VNFD id %q (%s)", ErrUnknown, vnfdID, why)
}

// FindTree returns the entry that has the tree now, or [ErrUnknown]: a pinned
// tree that upstream has moved on from has none. It answers for a package whose
// checksums don't hold too: see [Catalogue.Verify].
func (c *Catalogue) FindTree(tree string) (*Entry, error) {
	if e := c.index.Load().trees[tree]; e != nil {
		out := *e
		return &out, nil
	}
	return nil, fmt.Errorf("%w: no repository has the tree %s now", ErrUnknown, tree)
}

// List returns every version of every package that can be used, in the order in
// which Find prefers them; the others are [Catalogue.Problems].
func (c *Catalogue) List() []Entry {
	ix := c.index.Load()
	out := make([]Entry, 0, len(ix.entries))
	for _, e := range ix.entries {
		if _, bad := ix.unsound[e]; !bad {
			out = append(out, *e)
		}
	}
	return out
}

// Repositories returns those that the last Sync or Load was about.
func (c *Catalogue) Repositories() []desired.Repository { return slices.Clone(c.index.Load().repos) }

// Problems returns the packages that can't be used, as of the last Sync or Load.
func (c *Catalogue) Problems() []Unusable { return slices.Clone(c.index.Load().problems) }

// version is a ref of a repository.
type version struct {
	name, commit string
	semver       *semver.Version
}

// compare orders by semantic version; names that have none come before, by name.
func (v version) compare(w version) int {
	switch {
	case v.semver != nil && w.semver != nil:
		if c := v.semver.Compare(w.semver); c != 0 {
			return c
		}
	case v.semver != nil:
		return 1
	case w.semver != nil:
		return -1
	}
	return strings.Compare(v.name, w.name)
}

// semverOf is the version in a tag: "v1.2", "amf/v1.2.0" and "amf-1.2.0" have one.
func semverOf(tag string) *semver.Version {
	tag = tag[strings.LastIndexByte(tag, '/')+1:]
	for _, s := range []string{tag, strings.TrimLeftFunc(tag, func(r rune) bool { return r < '0' || r > '9' })} {
		if v, err := semver.NewVersion(s); err == nil {
			return v
		}
	}
	return nil
}

// RepositoriesOf names the repositories that have the tree, each once, in the order of
// repositories.yaml.
func (c *Catalogue) RepositoriesOf(tree string) []string {
	var names []string
	for _, e := range c.index.Load().entries {
		if e.Tree == tree && !slices.Contains(names, e.Repository) {
			names = append(names, e.Repository)
		}
	}
	return names
}

// Hooks says whether a repository that has the tree allows its hooks to run. The hooks of a
// package that no repository has any more may not. Those of a package whose checksums don't
// hold may: they end what runs of it. [Catalogue.Verify] sees to it that nothing new is made
// of such a package.
func (c *Catalogue) Hooks(tree string) bool {
	return slices.ContainsFunc(c.index.Load().entries, func(e *Entry) bool { return e.Tree == tree && e.Hooks })
}
