package notify

import (
	"testing"
	"time"
)

func TestPausesDoubleUpToTheLongestAndHalfOfThemIsRandom(t *testing.T) {
	for _, c := range []struct{ least, most time.Duration }{
		{time.Second, 5 * time.Minute}, {time.Second, time.Second}, {time.Minute, time.Second}, {3 * time.Millisecond, time.Hour},
	} {
		service, err := New(Config{RetryMin: c.least, RetryMax: c.most})
		if err != nil {
			t.Fatal(err)
		}
		w := &worker{Service: service}
		backoff := w.backoff()
		for try := range 40 {
			longest := c.most
			if try < 25 {
				longest = min(c.least<<try, c.most)
			}
			if got := backoff.Step(); got < longest/2 || got > longest {
				t.Errorf("pause %d from %v up to %v is %v, want %v to %v", try, c.least, c.most, got, longest/2, longest)
			}
		}
	}
}
