package testenv

import "testing"

func TestAForgeIsSkippedUnlessRequired(t *testing.T) {
	t.Setenv(EnvForgeURL, "http://127.0.0.1:1")
	t.Setenv(EnvForgeToken, "x")
	t.Setenv(EnvRequire, "")

	r := &recorder{TB: t}
	Gitea(r)

	if !r.skipped || r.failed {
		t.Errorf("skipped %v, failed %v", r.skipped, r.failed)
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
