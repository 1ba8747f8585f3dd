package objects

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PackFile is one pack of the repository.
type PackFile struct {
	Name string // "pack-<hash>.pack"
	Size int64  // bytes
}

// ListPacks returns the packs that are visible to readers, the smallest first.
func ListPacks(gitDir string) ([]PackFile, error) {
	items, err := os.ReadDir(filepath.Join(gitDir, "objects", "pack"))
	if err != nil {
		return nil, err
	}
	var packs []PackFile
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
		packs = append(packs, PackFile{name + ".pack", info.Size()})
	}
	slices.SortFunc(packs, func(a, b PackFile) int { return cmp.Or(cmp.Compare(a.Size, b.Size), strings.Compare(a.Name, b.Name)) })
	return packs, nil
}
