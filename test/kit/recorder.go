package kit

import (
	"fmt"
	"testing"
)

// Recorder is a testing.TB that remembers how a helper ended the test, "" where it did not. The helper's
// goroutine goes on after it, as a real one would not.
type Recorder struct {
	testing.TB

	WhySkipped, WhyFailed string
}

// Helper does nothing: no failure is shown.
func (r *Recorder) Helper() {}

// Skipf notes why the test is skipped.
func (r *Recorder) Skipf(format string, args ...any) { r.WhySkipped = fmt.Sprintf(format, args...) }

// Fatalf notes why the test has failed.
func (r *Recorder) Fatalf(format string, args ...any) { r.WhyFailed = fmt.Sprintf(format, args...) }

// Ended reports whether a helper has skipped the test, and whether it has failed it.
func (r *Recorder) Ended() (skipped, failed bool) { return r.WhySkipped != "", r.WhyFailed != "" }
