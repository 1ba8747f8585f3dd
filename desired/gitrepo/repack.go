package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// split divides packs into small and large ones.
func split(packs []objects.PackFile) (small, large []objects.PackFile) {
	for i, p := range packs {
		if p.Size >= largePack {
			return packs[:i], packs[i:]
		}
	}
	return packs, nil
}

// toRoll returns those of the packs, the smallest first, that are to become one, so that
// each that is left is at least twice as large as all smaller ones together.
func toRoll(packs []objects.PackFile) []objects.PackFile {
	var sum int64
	n := 0
	for i, p := range packs {
		if p.Size < 2*sum {
			n = i + 1
		}
		sum += p.Size
	}
	return packs[:n]
}

// repack rolls small packs up.
func (r *Repo) repack(ctx context.Context) error {
	started := time.Now()
	packs, err := objects.ListPacks(r.opt.Dir)
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
	packs, err := objects.ListPacks(r.opt.Dir)
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
func (r *Repo) roll(ctx context.Context, packs, excluded []objects.PackFile) error {
	if len(packs) < 2 {
		return nil
	}
	var list strings.Builder
	for _, p := range packs {
		list.WriteString(p.Name + "\n")
	}
	for _, p := range excluded {
		list.WriteString("^" + p.Name + "\n")
	}
	// Outside of objects/, as every pack that is being written: see [git.Pack.Write].
	tmp := filepath.Join(objects.OwnDir(r.opt.Dir), git.TmpPrefix+filepath.Base(packs[0].Name))
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
		name := strings.TrimSuffix(p.Name, ".pack")
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
