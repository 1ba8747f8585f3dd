package hooks_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
)

func TestARunEndsWhenJibeGivesNoSignOfLifeAndNotBefore(t *testing.T) {
	r := newRunner(t)
	r.Silence = 2 * time.Second
	if _, err := r.Run(t.Context(), shell(`sleep 5`)); err != nil {
		t.Errorf("while Jibe lives: %v", err)
	}
	hooks.Mute(r)
	if _, err := r.Run(t.Context(), shell(`sleep 600`)); !errors.Is(err, hooks.ErrSilent) {
		t.Errorf("while Jibe is silent: %v", err)
	}
}
