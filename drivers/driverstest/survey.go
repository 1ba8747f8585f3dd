package driverstest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func surveyNamesWhatIsThere(t *testing.T, h Harness) {
	d := h.Connect(t)
	s, ok := d.(drivers.Surveyor)
	if !ok {
		t.Skip("this driver makes no surveys")
	}
	surveys := func(id string, want bool) {
		t.Helper()
		kit.EventuallyWithin(t, h.Patience, func() error {
			ids, err := s.Instances(t.Context())
			if err != nil {
				return err
			}
			if slices.Contains(ids, id) != want {
				return fmt.Errorf("instance %s is in the survey: %t", id, !want)
			}
			return nil
		})
	}
	id := h.id(t, 1)
	surveys(id, false)

	src := h.instantiate(t, d, id, 1)
	surveys(id, true)
	h.terminate(t, d, src)
	surveys(id, false)

	if away, ok := h.ConnectAway(t).(drivers.Surveyor); ok {
		if ids, err := away.Instances(t.Context()); !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("a VIM that is away: %v, %v; want ErrUnavailable", ids, err)
		}
	}
}
