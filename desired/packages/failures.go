package packages

import (
	"cmp"
	"errors"
	"regexp"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
)

// failures are the repositories that couldn't be fetched or read when it was tried last, by name. The zero value has none.
type failures struct {
	mu                sync.Mutex
	unfetched, unread map[string]error
}

// fetched notes how the last fetch of a repository ended. An error that differs from the former one in numbers alone, as in the
// milliseconds that a server took, leaves the former one: it is the same problem.
func (f *failures) fetched(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.unfetched[name]
	switch {
	case err == nil:
		delete(f.unfetched, name)
	case was == nil || numbers.ReplaceAllString(was.Error(), "") != numbers.ReplaceAllString(err.Error(), ""):
		if f.unfetched == nil {
			f.unfetched = map[string]error{}
		}
		f.unfetched[name] = err
	}
}

var numbers = regexp.MustCompile(`[0-9]+`)

// read notes how the last look at all repositories ended.
func (f *failures) read(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unread = map[string]error{}
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, one := range all.Unwrap() {
		if failed, ok := errors.AsType[*RepositoryError](one); ok {
			f.unread[failed.Repository] = failed.Err
		}
	}
}

// of returns those among the repositories that fail.
func (f *failures) of(repos []desired.Repository) []*RepositoryError {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*RepositoryError
	for _, r := range repos {
		if err := cmp.Or(f.unfetched[r.Name], f.unread[r.Name]); err != nil {
			out = append(out, &RepositoryError{r.Name, err})
		}
	}
	return out
}
