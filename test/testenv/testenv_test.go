package testenv

import (
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestRealSkipsUnlessRequired(t *testing.T) {
	for require, skipped := range map[string]bool{"": true, "0": true, "1": false} {
		t.Setenv(EnvRequire, require)

		r := &kit.Recorder{TB: t}
		Real(r, "a real part")

		if is, failed := r.Ended(); is != skipped || failed {
			t.Errorf("%s=%q: skipped %v, failed %v", EnvRequire, require, is, failed)
		}
	}
}

func TestProgramReturnsWhereItIs(t *testing.T) {
	t.Setenv(EnvRequire, "1")

	if got := Program(t, "git", "git"); got == "" {
		t.Error("git is nowhere")
	}
}
