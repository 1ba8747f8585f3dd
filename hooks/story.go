package hooks

import (
	"sync"
	"time"
)

// storyPause is how long lines wait for others before they are recorded together.
const storyPause = time.Second

// Line is what a hook said, and when.
type Line struct {
	At   time.Time
	Text string
}

// Story records what a hook says while it runs, for those who look at the operation. It
// records lines once a second, as each record is a write to the disk.
type Story struct {
	now    func() time.Time
	record func([]Line)
	ended  chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	lines []Line
}

// NewStory returns a Story that hands its lines to record, which is called by one
// goroutine. [Story.End] must be called.
func NewStory(now func() time.Time, record func([]Line)) *Story {
	s := &Story{now: now, record: record, ended: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// Say adds a line.
func (s *Story) Say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, Line{At: s.now(), Text: text})
}

// End returns when all lines are recorded.
func (s *Story) End() {
	close(s.ended)
	<-s.done
}

func (s *Story) run() {
	defer close(s.done)
	tick := time.NewTicker(storyPause)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			s.flush()
			return
		case <-tick.C:
			s.flush()
		}
	}
}

func (s *Story) flush() {
	s.mu.Lock()
	lines := s.lines
	s.lines = nil
	s.mu.Unlock()
	if len(lines) > 0 {
		s.record(lines)
	}
}
