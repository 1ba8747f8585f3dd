package testenv

import "testing"

// recorder is a testing.TB that remembers how a helper ended the test. The helper's
// goroutine goes on after it, as a real one would not.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Skipf(string, ...any)  { r.skipped = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestRealSkipsUnlessRequired(t *testing.T) {
	for require, skipped := range map[string]bool{"": true, "0": true, "1": false} {
		t.Setenv(EnvRequire, require)

		r := &recorder{TB: t}
		Real(r, "a real part")

		if r.skipped != skipped || r.failed {
			t.Errorf("%s=%q: skipped %v, failed %v", EnvRequire, require, r.skipped, r.failed)
		}
	}
}

func TestProgramReturnsWhereItIs(t *testing.T) {
	t.Setenv(EnvRequire, "1")

	if got := Program(t, "git", "git"); got == "" {
		t.Error("git is nowhere")
	}
}
