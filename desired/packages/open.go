package packages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// cacheSize is how many bytes of packages are kept for the next reader.
const cacheSize = 256 << 20

// descriptorSize is what a package takes besides its files, in bytes.
const descriptorSize = 64 << 10

// Open returns the package with the tree hash, whether an upstream still has it or only its
// pin. A tree that isn't in the store is [ErrUnknown]; a package that can't be read is a
// [*vnfd.InvalidError], or says what is refused. Open doesn't check the checksums, see
// [Catalogue.Verify]: what runs of a package must be looked after even where they don't hold.
// The result is shared: nobody may change it.
func (c *Catalogue) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	if !git.IsHash(tree) {
		return nil, fmt.Errorf("%w: %q isn't a tree hash", ErrUnknown, tree)
	}
	if p, ok := c.cache.Get(tree); ok {
		return p, nil
	}
	// The work goes on for the others who wait when the first of them gives up.
	work := context.WithoutCancel(ctx)
	done := c.loading.DoChan(tree, func() (any, error) {
		if p, ok := c.cache.Get(tree); ok {
			return p, nil
		}
		ctx, cancel := context.WithTimeout(work, localTime)
		defer cancel()
		store := newObjects(ctx, c.git, c.most)
		defer store.close()
		p, size, err := load(store, tree)
		if err != nil {
			return nil, err
		}
		c.cache.Add(tree, p, int(size)+descriptorSize)
		return p, nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("open package %s: %w", tree, ctx.Err())
	case r := <-done:
		if r.Err != nil {
			return nil, fmt.Errorf("open package %s: %w", tree, r.Err)
		}
		return r.Val.(*vnfd.Package), nil
	}
}

// remedy is what to do about a package whose checksums don't hold.
const remedy = "put the files back, or run `jibe package rehash` where the change is meant, and push that to its repository"

// remedyOf is what to do about a package with an error, "" where the error says that.
func remedyOf(err error) string {
	if _, refused := errors.AsType[*refusedError](err); refused {
		return "use another version of the package"
	}
	return remedy
}

// Verify checks that the files of the tree's package are those that its TOSCA.meta and
// manifest list, by the checksums there, as `jibe package validate` does. [ErrUnsound] names
// each file that differs. A package without checksums passes. Each tree is checked only once,
// as it never changes. A package that is disabled is [ErrDisabled]. One that isn't signed as its
// repository must be, or that no repository has and that never ran, is [ErrUnverified].
func (c *Catalogue) Verify(ctx context.Context, tree string) error {
	if err := c.vouched(ctx, c.index.Load(), tree); err != nil {
		return fmt.Errorf("package %s: %w (%s)", tree, err, remedyUnverified)
	}
	if ix := c.index.Load(); slices.ContainsFunc(ix.records, func(r *Record) bool { return r.Disabled }) {
		p, err := c.Open(ctx, tree)
		if err != nil {
			return err
		}
		if err := ix.refuseDisabled(p.VNFD.ID); err != nil {
			return err
		}
	}
	err, known := c.sound.known(tree)
	if !known {
		p, oerr := c.Open(ctx, tree)
		if oerr != nil {
			return oerr
		}
		if err = c.sound.of(ctx, p); errors.Is(err, errStore) {
			return fmt.Errorf("verify package %s: %w", tree, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: package %s: %w (%s)", ErrUnsound, tree, err, remedyOf(err))
	}
	return nil
}

// verdicts remembers for which trees the checksums hold. The zero value knows none.
type verdicts struct{ byTree sync.Map }

// verdict is what is wrong, nil for nothing.
type verdict struct{ err error }

func (v *verdicts) known(tree string) (error, bool) {
	known, ok := v.byTree.Load(tree)
	if !ok {
		return nil, false
	}
	return known.(verdict).err, true
}

// of checks the package unless that was done before. It doesn't remember an error of the store.
func (v *verdicts) of(ctx context.Context, p *vnfd.Package) error {
	if err, known := v.known(p.Tree); known {
		return err
	}
	err := verifyArtifacts(ctx, p)
	if !errors.Is(err, errStore) {
		v.byTree.Store(p.Tree, verdict{err})
	}
	return err
}

// verifyArtifacts is [vnfd.VerifyArtifacts], with the store's errors as such, and refuses what git would refuse.
func verifyArtifacts(ctx context.Context, p *vnfd.Package) (wrong error) {
	err := reading(ctx, p, func(p *vnfd.Package) {
		if wrong = vnfd.VerifyArtifacts(p); wrong == nil {
			wrong = checkGitFiles(ctx, p.Files)
		}
	})
	if err != nil {
		return err
	}
	return wrong
}

// load reads the package and says how many bytes of it are in memory.
func load(store *objects, tree string) (*vnfd.Package, int64, error) {
	files, err := store.files(tree)
	if err != nil {
		return nil, 0, err
	}
	w := &watch{ctx: store.ctx}
	p, err := vnfd.Load(files.within(w))
	if lost := w.failed(); lost != nil {
		return nil, 0, lost
	}
	if err != nil {
		return nil, 0, err
	}
	if p.VNFD == nil || p.VNFD.ID == "" {
		return nil, 0, errors.New("it has no VNFD: TOSCA.meta needs Entry-Definitions")
	}
	p.Tree, p.Files = tree, files
	return p, files.held, nil
}

// Pin keeps the tree for ever, whatever becomes of its upstream. It is durable
// when it returns, and may be repeated. A tree that isn't in the store is
// [ErrUnknown].
func (c *Catalogue) Pin(ctx context.Context, tree string) error {
	if _, ok := c.pinned.Load(tree); ok {
		return nil
	}
	// One at a time: git refuses two that make the same ref.
	c.pinning.Lock()
	defer c.pinning.Unlock()
	if _, ok := c.pinned.Load(tree); ok {
		return nil
	}
	if !git.IsHash(tree) {
		return fmt.Errorf("pin package: %w: %q isn't a tree hash", ErrUnknown, tree)
	}
	store := newObjects(ctx, c.git, c.most)
	_, _, err := store.get(tree, git.KindTree)
	store.close()
	if err != nil {
		return fmt.Errorf("pin package %s: %w", tree, err)
	}
	if err := c.setRef(ctx, pins+tree, tree); err != nil {
		return fmt.Errorf("pin package %s: %w", tree, err)
	}
	c.pinned.Store(tree, true)
	return nil
}

// Kept returns the pinned trees that are packages with the VNFD id, in order, whether a
// repository still has them or not. It costs no I/O but for the list once all are known.
func (c *Catalogue) Kept(ctx context.Context, vnfdID string) ([]string, error) {
	refs, err := c.refNames(ctx, pins)
	if err != nil {
		return nil, fmt.Errorf("packages that are pinned: %w", err)
	}
	store := newObjects(ctx, c.git, c.most)
	defer store.close()
	var trees []string
	for _, ref := range refs {
		tree := strings.TrimPrefix(ref, pins)
		id, known := c.kept.Load(tree)
		if !known {
			p, _, err := load(store, tree)
			switch {
			case errors.Is(err, errStore):
				return nil, fmt.Errorf("package %s, which is pinned: %w", tree, err)
			case err != nil:
				id = "" // it is of no use to anyone by now
			default:
				id = p.VNFD.ID
			}
			c.kept.Store(tree, id)
		}
		if id == vnfdID {
			trees = append(trees, tree)
		}
	}
	return trees, nil
}
