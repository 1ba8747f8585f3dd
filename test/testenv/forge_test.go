package testenv

import "testing"

func TestAForgeThatIsNotBuiltSkipsUnlessRequired(t *testing.T) {
	t.Setenv(EnvForgeURL, "")
	t.Setenv(EnvRequire, "")
	t.Setenv("JIBE_CACHE", t.TempDir())
	r := &recorder{TB: t}
	if got := Gitea(r); !r.skipped || r.failed || got != (Forge{}) {
		t.Errorf("skipped %v, failed %v, %+v", r.skipped, r.failed, got)
	}
}

func TestAForgeThatTheEnvironmentNamesIsTaken(t *testing.T) {
	t.Setenv(EnvForgeURL, "http://127.0.0.1:1")
	t.Setenv(EnvForgeToken, "x")
	if got := Gitea(t); got != (Forge{"http://127.0.0.1:1", "x"}) {
		t.Errorf("%+v", got)
	}
}
