// Package app puts the parts of a Jibe process together: the data directory, the
// repositories, the store, the reconciler and the listeners. It owns their
// start, their order and their end; it has no logic of VNFs.
package app

import (
	"context"
	"errors"

	"github.com/jibe-vnfm/jibe/app/replicas"
)

// Run starts everything, calls Ready, and works until ctx ends. Then it stops
// in an order that loses nothing and returns nil.
func Run(ctx context.Context, o Options) error {
	// The parts outlive ctx for the moment that an orderly end takes.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	h, err := openHost(work, o)
	if err == nil {
		err = runOn(ctx, work, stop, h)
	}
	return errors.Join(err, h.close())
}

// runOn does the work of a process on a host; work is what the parts live in, until stop is called.
func runOn(ctx, work context.Context, stop func(), h *host) error {
	s, err := openState(work, h, ctx.Done())
	switch {
	case err == nil:
		err = s.run(ctx, work)
	case errors.Is(err, replicas.ErrEnded):
		err = nil
	}
	stop()
	return errors.Join(err, h.listener.Close(), s.close(context.WithoutCancel(ctx)))
}
