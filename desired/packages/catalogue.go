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

// ErrDamaged is wrapped where the files of one package can't be read, while others of its repository can.
var ErrDamaged = errors.New("its files can't be read here")

// ErrNoFiles is wrapped where something stands in the place of a package's folder whose files
// can't be read: a submodule, or a symbolic link. The error says what to do.
var ErrNoFiles = errors.New("it isn't a folder with files")

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
	// About is what else its VNFD says of it.
	About *About
	// Flaw is what its author should repair although the package can be used, as some instances of
	// it may run; nil is nothing. An upload with it is refused. See [Catalogue.JudgeBy].
	Flaw error
}

// About is what a VNFD says of its product.
type About struct {
	Provider, ProductName, SoftwareVersion string
	VnfmInfo                               []string
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

// IsUnusable reports whether an error says that a package is there, and nothing may be made of it now.
func IsUnusable(err error) bool {
	return errors.Is(err, ErrUnsound) || errors.Is(err, ErrDisabled) || errors.Is(err, ErrUnverified)
}

// Catalogue knows the packages. It is safe for concurrent use.
type Catalogue struct {
	git      git.Runner
	most     limits
	packages string
	log      *slog.Logger

	index    atomic.Pointer[index]
	syncing  sync.Mutex // one Sync at a time; guards swept
	swept    bool       // of what former processes left of proposals
	fetching sync.Map   // name of a repository -> *sync.Mutex: one fetch of it at a time
	reading  sync.Mutex // one index is made at a time
	writing  sync.Mutex // one commit of this process at a time

	proposing string        // below which refs this process fetches proposals
	places    chan struct{} // of proposals that are fetched at once

	failing failures

	host    *HostVerification
	proofs  *proofs
	offered *offers

	loading singleflight.Group
	cache   *lru.Cache[*vnfd.Package]
	sound   *verdicts
	pinned  sync.Map // tree -> true
	pinning sync.Mutex
	kept    sync.Map // pinned tree -> its VNFD id

	barred func(desired.Repository) string // set by LimitHooks
	judge  Judge                           // set by JudgeBy

	remoteOnly bool
	heads      func(home desired.Repository) Head // set by Share
	apart      string                             // set by NeverWrite
	shown      signal
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
	// unverified are packages that aren't signed as they must be, by tree; none is an entry.
	// hidden has them by vnfdId.
	unverified map[string]Unusable
	hidden     map[string]*Entry
	// demands are what is demanded of the repositories, by name; demanding says that there is any.
	demands   map[string]string
	demanding bool
	// records are those of the repository that Jibe writes to, by id; onboarded is what comes of
	// them and of the entries.
	records   []*Record
	onboarded []Onboarded
	at        string // the commit at which they are, "" for none

	// What needn't be read again.
	commits map[string]place   // commit and path -> what is there
	parsed  map[string]summary // tree -> what its VNFD says
}

// summary is what is kept of a package that was read once.
type summary struct {
	vnfdID, version string
	about           *About
	err             error // it can't be read
	unsound         error // it isn't what it says itself
	flaw            error // it wouldn't pass as an upload
}

// place is a folder of packages, or a package, at a commit.
type place struct {
	packages []found
	err      error // why it can't be used
}

// damaged reports whether not all of it could be read, so that the next build has to look again.
func (p place) damaged() bool {
	return errors.Is(p.err, ErrDamaged) || slices.ContainsFunc(p.packages, func(f found) bool { return errors.Is(f.err, ErrDamaged) })
}

// found is a package's directory at a commit, or what stands in the place of one and can't be
// read, with the reason.
type found struct {
	path, tree string
	err        error
}

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
		git: newRunner(gitDir), most: defaultLimits(), packages: packagesDir, log: log, cache: lru.New[*vnfd.Package](cacheSize, cacheSize), sound: &verdicts{},
		proofs: &proofs{}, offered: &offers{},
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
	c.syncing.Lock()
	defer c.syncing.Unlock()
	return errors.Join(c.fetch(ctx, upstream, repos), c.read(ctx, repos, true))
}

// SyncOne is Sync for one of the repositories that the last Sync was about: it waits for no
// other one that is slow.
func (c *Catalogue) SyncOne(ctx context.Context, name string) error {
	repos := c.Repositories()
	i := slices.IndexFunc(repos, func(r desired.Repository) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("%w: there is no package repository %s", ErrUnknown, name)
	}
	if err := c.fetch(ctx, upstream, repos[i:i+1]); err != nil {
		return err
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.readAll(ctx, c.Repositories(), false)
}

// fetch fetches the repositories below the prefix. The joined error has a [*RepositoryError]
// for each that can't be fetched.
func (c *Catalogue) fetch(ctx context.Context, prefix string, repos []desired.Repository) error {
	if err := c.host.read(); err != nil {
		c.log.ErrorContext(ctx, "what the host demands of packages counts as it was read last", "error", err)
	}
	errs := make([]error, len(repos))
	var group errgroup.Group
	group.SetLimit(8)
	for i, r := range repos {
		group.Go(func() error {
			if prefix == upstream { // a proposal has refs of its own
				one, _ := c.fetching.LoadOrStore(r.Name, &sync.Mutex{})
				one.(*sync.Mutex).Lock()
				defer one.(*sync.Mutex).Unlock()
			}
			r.Verify = c.host.of(r)
			err := error(nil)
			if why := r.Unprotected(); why != "" {
				err = errors.New(why)
			} else if c.remoteOnly && Local(r) {
				err = errLocal
			} else {
				err = c.fetchAs(ctx, r, prefix)
			}
			if err != nil {
				errs[i] = &RepositoryError{r.Name, err}
				c.log.WarnContext(ctx, "package repository not fetched", "repository", r.Name, "error", err)
			}
			if prefix == upstream && ctx.Err() == nil {
				c.failing.fetched(r.Name, err)
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
	return c.read(ctx, repos, false)
}

// read makes a new index out of the refs.
func (c *Catalogue) read(ctx context.Context, repos []desired.Repository, prune bool) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.readAll(ctx, repos, prune)
}

// readAll is read for who holds the lock.
func (c *Catalogue) readAll(ctx context.Context, repos []desired.Repository, prune bool) error {
	at, stale, err := c.fetched(ctx, upstream, repos)
	if err != nil {
		return err
	}
	next, err := c.build(ctx, repos, at)
	if ctx.Err() == nil {
		c.failing.read(err)
	}
	if err != nil {
		return err
	}
	c.offered.remember(next)
	c.index.Store(next)
	c.shown.tell()
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
		at[name] = append(at[name], version{short, ref.Commit, ref.Tag, semverOf(short)})
	}
	return at, stale, nil
}

// Find returns the newest version of the package with the VNFD id, or [ErrUnknown]. Versions that
// aren't signed as they must be don't count; if there are only such, that is [ErrUnverified]. The first
// repository in repositories.yaml that has it counts, and in it the tag with the highest
// semantic version. If the checksums of that one don't hold, Find returns [ErrUnsound]: nobody
// has asked for an older one. One that is disabled is [ErrDisabled]. It costs no I/O.
func (c *Catalogue) Find(vnfdID string) (*Entry, error) {
	ix := c.index.Load()
	if e := ix.byVnfd[vnfdID]; len(e) > 0 {
		if err := ix.refuseDisabled(vnfdID); err != nil {
			return nil, err
		}
		if problem, bad := ix.unsound[e[0]]; bad {
			return nil, fmt.Errorf("%w: VNFD id %q: %w (%s)", ErrUnsound, vnfdID, problem, remedyOf(problem))
		}
		out := *e[0]
		return &out, nil
	}
	if e := ix.hidden[vnfdID]; e != nil {
		return nil, fmt.Errorf("VNFD id %q: %w (%s)", vnfdID, ix.unverified[e.Tree], remedyUnverified)
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

// Failing returns the error of each repository that couldn't be fetched or read when it was tried last, in the order of
// repositories.yaml. What was known of it before is still offered.
func (c *Catalogue) Failing() []*RepositoryError { return c.failing.of(c.Repositories()) }

// version is a ref of a repository.
type version struct {
	name, commit string
	tag          string // the annotated tag, "" for none
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
