package objects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// cutHistory knows the commits whose parents were archived. git takes account of them by itself
// where it walks; whoever reads commits one by one does so here. It doesn't change while a
// process has the repository open.
type cutHistory struct {
	once sync.Once
	set  map[string]bool
	err  error
}

// commits returns them; none where nothing was ever cut.
func (c *cutHistory) commits(gitDir string) (map[string]bool, error) {
	c.once.Do(func() { c.set, c.err = ReadShallow(gitDir) })
	return c.set, c.err
}

// ReadShallow returns these commits.
func ReadShallow(gitDir string) (map[string]bool, error) {
	data, err := os.ReadFile(ShallowFile(gitDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, hash := range strings.Fields(string(data)) {
		if !git.IsHash(hash) {
			return nil, fmt.Errorf("%s holds %.60q where a commit's hash should be", ShallowFile(gitDir), hash)
		}
		all[hash] = true
	}
	return all, nil
}

// ShallowFile is where git has the commits whose parents are not there, and are not missed.
func ShallowFile(gitDir string) string { return filepath.Join(gitDir, "shallow") }
