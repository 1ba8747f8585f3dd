package gitrepo

import "sync"

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
	c.once.Do(func() { c.set, c.err = readShallow(gitDir) })
	return c.set, c.err
}
