package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// A repack is bounded by what it rewrites: small packs are rolled up among themselves, so that
// this takes seconds whatever the size of the repository. What they grow to is large, and
// large packs are rolled up on their own, side by side with that: at hundreds of commits a
// second, packs come faster than a history of gigabytes can be rewritten.
const (
	largePack = 32 << 20 // bytes of a pack from which it is large
	// maxLarge is the number of large packs from which they are rolled up.
	maxLarge = 20
)

// packFile is one pack of the repository.
type packFile struct {
	name string // "pack-<hash>.pack"
	size int64  // bytes
}

// listPacks returns the packs that are visible to readers, the smallest first.
func listPacks(gitDir string) ([]packFile, error) {
	items, err := os.ReadDir(filepath.Join(gitDir, "objects", "pack"))
	if err != nil {
		return nil, err
	}
	var packs []packFile
	for _, it := range items {
		name, isIndex := strings.CutSuffix(it.Name(), ".idx")
		if !isIndex {
			continue
		}
		info, err := os.Stat(filepath.Join(gitDir, "objects", "pack", name+".pack"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a deletion that was cut short
		}
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(gitDir, "objects", "pack", name+".keep")); err == nil {
			continue // someone holds it: a push that is under way
		}
		packs = append(packs, packFile{name + ".pack", info.Size()})
	}
	slices.SortFunc(packs, func(a, b packFile) int { return cmp.Or(cmp.Compare(a.size, b.size), strings.Compare(a.name, b.name)) })
	return packs, nil
}

// split divides packs into small and large ones.
func split(packs []packFile) (small, large []packFile) {
	for i, p := range packs {
		if p.size >= largePack {
			return packs[:i], packs[i:]
		}
	}
	return packs, nil
}

// toRoll returns those of the packs, the smallest first, that are to become one, so that
// each that is left is at least twice as large as all smaller ones together.
func toRoll(packs []packFile) []packFile {
	var sum int64
	n := 0
	for i, p := range packs {
		if p.size < 2*sum {
			n = i + 1
		}
		sum += p.size
	}
	return packs[:n]
}

// repack rolls small packs up.
func (r *Repo) repack(ctx context.Context) error {
	started := time.Now()
	packs, err := listPacks(r.opt.Dir)
	if err != nil {
		return err
	}
	small, large := split(packs)
	if err := r.roll(ctx, toRoll(small), large); err != nil {
		return err
	}
	if _, err := r.patiently(ctx, "", "prune-packed", "--quiet"); err != nil {
		return err
	}
	r.maint.count(r.opt.Dir)
	r.log.Debug("repacked", "packs", r.maint.packs.Load(), "took", time.Since(started))
	return nil
}

// repackLarge rolls large packs up.
func (r *Repo) repackLarge(ctx context.Context) error {
	started := time.Now()
	packs, err := listPacks(r.opt.Dir)
	if err != nil {
		return err
	}
	_, large := split(packs)
	// None is excluded here: a small pack that has an object as well may be rolled up at the
	// same time without it, because this one has it.
	if err := r.roll(ctx, toRoll(large), nil); err != nil {
		return err
	}
	r.maint.count(r.opt.Dir)
	r.log.Debug("repacked large packs", "packs", r.maint.large.Load(), "took", time.Since(started))
	return nil
}

// roll makes one pack of several, and then removes them. It leaves out what excluded packs
// have; the caller MUST see to it that they are only ever replaced by packs that have it too.
// Objects that nothing refers to are kept. An interruption leaves objects twice, which the next
// time removes.
func (r *Repo) roll(ctx context.Context, packs, excluded []packFile) error {
	if len(packs) < 2 {
		return nil
	}
	var list strings.Builder
	for _, p := range packs {
		list.WriteString(p.name + "\n")
	}
	for _, p := range excluded {
		list.WriteString("^" + p.name + "\n")
	}
	// Outside of objects/, as every pack that is being written: see [git.Pack.Write].
	tmp := filepath.Join(objects.OwnDir(r.opt.Dir), git.TmpPrefix+filepath.Base(packs[0].name))
	out, err := r.patiently(ctx, list.String(), "-c", "pack.threads=1", "pack-objects", "--stdin-packs", "--unpacked", "--delta-base-offset",
		"--non-empty", "--quiet", "--window=5", "--depth=50", tmp)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.opt.Dir, "objects", "pack")
	made := strings.TrimSpace(out)
	if git.IsHash(made) {
		for _, ext := range []string{".pack", ".idx"} { // the index makes it visible
			if err := os.Rename(tmp+"-"+made+ext, filepath.Join(dir, "pack-"+made+ext)); err != nil {
				return err
			}
		}
		if err := git.SyncDir(dir); err != nil {
			return err
		}
	} else if made != "" {
		return fmt.Errorf("git pack-objects: unexpected answer %.80q", made)
	}
	for _, p := range packs {
		name := strings.TrimSuffix(p.name, ".pack")
		if name == "pack-"+made {
			continue
		}
		for _, ext := range []string{".idx", ".rev", ".bitmap", ".pack"} {
			if err := os.Remove(filepath.Join(dir, name+ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	r.read.Objects.Refresh()
	return nil
}
