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
	// A machine that stalls for two seconds stalls Jibe, too: but not each time.
	var err error
	for range 3 {
		if _, err = r.Run(t.Context(), shell(`sleep 5`)); !errors.Is(err, hooks.ErrSilent) {
			break
		}
	}
	if err != nil {
		t.Errorf("while Jibe lives: %v", err)
	}
	hooks.Mute(r)
	if _, err := r.Run(t.Context(), shell(`sleep 600`)); !errors.Is(err, hooks.ErrSilent) {
		t.Errorf("while Jibe is silent: %v", err)
	}
}
