package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// reading calls look with the package, whose files can be read until ctx ends. Its error wraps
// [errStore] where not all that look asked for could be read: what it found is worthless then.
func reading(ctx context.Context, p *vnfd.Package, look func(*vnfd.Package)) error {
	content, ours := p.Files.(*files)
	if !ours {
		look(p)
		return nil
	}

	w := &watch{ctx: ctx}
	mine := *p
	mine.Files = content.within(w)
	look(&mine)

	return w.failed()
}

// watch remembers the first read that failed for another reason than the package: those who
// read take each error for one of the package. A nil watch remembers nothing.
type watch struct {
	ctx  context.Context
	mu   sync.Mutex
	lost error
}

// within are the files as w sees them.
func (f *files) within(w *watch) *files {
	mine := *f
	mine.watch = w
	return &mine
}

// open returns an error once the reader's context has ended.
func (w *watch) open(op, name string) error {
	if w == nil || w.ctx.Err() == nil {
		return nil
	}
	return w.note(&fs.PathError{Op: op, Path: name, Err: w.ctx.Err()})
}

// note takes note of an error of the store, and returns it.
func (w *watch) note(err error) error {
	if w == nil || err == nil || errors.Is(err, io.EOF) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil {
		w.lost = err
	}
	return err
}

// failed wraps [errStore] where a read has failed.
func (w *watch) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errStore, w.lost)
}
