package reconciler

import (
	"context"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// storyPause is how long lines of a program wait for others before they are recorded.
const storyPause = time.Second

// teller records what a program says while it runs, for those who look at the operation.
type teller struct {
	mu    sync.Mutex
	lines []lcm.Told
}

func (t *teller) say(at time.Time, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, lcm.Told{At: at, Text: text})
}

func (t *teller) take() []lcm.Told {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	return lines
}

// tells starts to record the lines until stopped, which records the rest. What can't be
// recorded is lost: it stands in the log, too.
func (p *pass) tells(ctx context.Context, operation string, t *teller) (stop func()) {
	flush := func() {
		lines := t.take()
		if len(lines) == 0 {
			return
		}
		_, err := p.Oplog.Record(ctx, operation, func(op *lcm.Operation, _ *lcm.Instance) error {
			for _, line := range lines {
				op.Tell(line.At, line.Text)
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "lines of a program were not recorded", "operation", operation, "error", err)
		}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(storyPause)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				flush()
				return
			case <-tick.C:
				flush()
			}
		}
	}()
	return func() { close(ended); <-done }
}
