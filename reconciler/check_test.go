package reconciler_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestTheDriverIsAskedWhetherWhatRunsCanChangeToOtherParametersOfTheSamePackage(t *testing.T) {
	t.Parallel()

	settings := &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: "sim", Default: true}}}
	other := intended(func(in *desired.Instance) { in.Params = map[string]any{"refuseChange": "not these"} })
	err := newChecker().Check(t.Context(), settings, intended(nil), other)
	if _, reason, refused := reconciler.Refused(err); !refused || reason != "not these" {
		t.Errorf("the answer is %v", err)
	}
	for what, before := range map[string]*desired.Instance{
		"what doesn't run yet":    intended(func(in *desired.Instance) { in.State = desired.NotInstantiated }),
		"what has them already":   other,
		"what isn't there at all": nil,
	} {
		if err := newChecker().Check(t.Context(), settings, before, other); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
