package clock_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha/clock"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Where Go's runtime asks the kernel in another way, this is what fails.
func TestAMovedClockIsSeenByItsProcessAtOnceAndByNoOther(t *testing.T) {
	dir := t.TempDir()
	binary, err := clock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := clock.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := process.StartLogged(binary, filepath.Join(dir, "data"), filepath.Join(dir, "log"), []string{c.Environment()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.KillGroup)
	other := process.Start(t, filepath.Join(dir, "other"))
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		if err := c.Move(by); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if said := now(t, s).Sub(before); said < by-time.Minute || said > by+time.Minute {
			t.Errorf("the clock is moved by %s, and the process's is by %s", by, said)
		}
		if said := now(t, other).Sub(before); said.Abs() > time.Minute {
			t.Errorf("the clock of another process is moved by %s", said)
		}
		if passed := time.Since(before); passed < 0 || passed > 10*time.Minute {
			t.Errorf("%s have passed here", passed)
		}
	}
}

// now is what a server says that the time is.
func now(t *testing.T, s *process.Server) time.Time {
	t.Helper()
	at, err := http.ParseTime(s.Want(t, http.StatusOK, http.MethodGet, "/readyz", nil, nil).Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
