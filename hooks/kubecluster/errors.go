package kubecluster

import (
	"strings"
	"sync"
)

// several are errors that print as one line; errors.As finds each of them.
type several []error

// joined returns the errors as one, nil where there is none.
func joined(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return several(errs)
}

func (s several) Error() string {
	var texts []string
	for _, err := range s {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (s several) Unwrap() []error { return s }

// each calls do for all, for at most so many at once, and waits until all are done: one that
// fails doesn't stop the others. The errors are in the order of all.
func each[T any](all []T, most int, do func(T) error) error {
	errs := make([]error, len(all))
	slots := make(chan struct{}, most)
	var group sync.WaitGroup
	for i, one := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(one)
		})
	}
	group.Wait()
	var failed []error
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return joined(failed)
}
