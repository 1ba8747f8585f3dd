package reconciler

import (
	"errors"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

func TestAReasonThatDiffersFromLookToLookIsToldOnce(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	u := newUnlisted()
	note := func(after time.Duration, why string) string {
		u.note("i1", "instances/a", &drivers.UnlistedError{VIM: "a", Kind: "Gadget", Since: began, Err: errors.New(why)}, []string{"s3cret"}, began.Add(after))
		if list := u.list(); len(list) == 1 {
			return list[0].Why
		}
		return ""
	}

	for _, look := range []struct {
		after     time.Duration
		why, told string
	}{
		{5 * time.Second, "initializing", ""},
		{11 * time.Second, "initializing", "initializing"},
		{20 * time.Second, "initializing: from port 1", "initializing: from port 1"},
		{30 * time.Second, "initializing: from port 2", "initializing: from port 1"},
		{80 * time.Second, "initializing: from port 3", "initializing: from port 3"},
		{150 * time.Second, "token s3cret", "token ***"},
	} {
		if told := note(look.after, look.why); told != look.told {
			t.Errorf("after %s it says %q, want %q", look.after, told, look.told)
		}
	}

	u.note("i1", "instances/a", drivers.ErrUnavailable, nil, began.Add(time.Hour))
	if list := u.list(); len(list) > 0 {
		t.Errorf("the VIM is unreachable, and the kind is told: %+v", list)
	}
}
