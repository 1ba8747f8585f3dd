package testenv

import (
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAForgeIsSkippedUnlessRequired(t *testing.T) {
	t.Setenv(EnvForgeURL, "http://127.0.0.1:1")
	t.Setenv(EnvForgeToken, "x")
	t.Setenv(EnvRequire, "")

	r := &kit.Recorder{TB: t}
	Gitea(r)

	if skipped, failed := r.Ended(); !skipped || failed {
		t.Errorf("skipped %v, failed %v", skipped, failed)
	}
}

func TestAForgeThatTheEnvironmentNamesIsTaken(t *testing.T) {
	t.Setenv(EnvForgeURL, "http://127.0.0.1:1")
	t.Setenv(EnvForgeToken, "x")
	t.Setenv(EnvRequire, "1")

	if got := Gitea(t); got != (Forge{"http://127.0.0.1:1", "x"}) {
		t.Errorf("%+v", got)
	}
}
