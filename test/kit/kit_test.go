package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPollReturnsTheLastErrorOfWhatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, reason := time.Now(), errors.New("not yet")
		if err := Poll(t.Context(), time.Minute, func() error { return reason }); !errors.Is(err, reason) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestPollGoesOnUntilAllIsWellOrNothingComesAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		look := func() error {
			if looks++; looks < 100 {
				return errors.New("not yet")
			}
			return nil
		}
		if err := Poll(t.Context(), time.Minute, look); err != nil || looks != 100 {
			t.Errorf("after %d looks: %v", looks, err)
		}
		looks = 0
		failed := errors.New("FAILED")
		if err := Poll(t.Context(), time.Minute, func() error { looks++; return Final(failed) }); !errors.Is(err, failed) || looks != 1 {
			t.Errorf("after %d looks: %v", looks, err)
		}
	})
}

func TestACleanupMayWaitToo(t *testing.T) {
	looks := 0
	t.Run("with a cleanup", func(t *testing.T) {
		t.Cleanup(func() {
			Eventually(t, func() error {
				if looks++; looks < 3 {
					return errors.New("not yet")
				}
				return nil
			})
		})
	})
	if looks != 3 {
		t.Errorf("looked %d times, want 3", looks)
	}
}
