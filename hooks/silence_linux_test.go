package hooks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestARunEndsWhenJibeGivesNoSignOfLifeAndNotBefore(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	r.Silence = time.Second

	// A machine that stalls for a second stalls Jibe, too, but not each time.
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	err := hooks.ErrSilent
	for errors.Is(err, hooks.ErrSilent) && ctx.Err() == nil {
		_, err = r.Run(ctx, shell(`sleep 2`))
	}
	if err != nil {
		t.Errorf("while Jibe lives: %v", err)
	}

	hooks.Mute(r)
	if _, err := r.Run(t.Context(), shell(`sleep 600`)); !errors.Is(err, hooks.ErrSilent) {
		t.Errorf("while Jibe is silent: %v", err)
	}
}
