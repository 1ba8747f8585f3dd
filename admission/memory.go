package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Memory bounds what the proposals that are read, and the plans that are made of them, hold at
// once, and has each caller plan one thing at a time. It counts by what is read and made; what the
// process has is shared with all else that it does.
type Memory struct {
	most int64

	mu      sync.Mutex
	held    int64
	callers map[string]*caller
}

type caller struct {
	turn    chan struct{} // holds one element while a plan of the caller is being made
	present int           // plans that are made or wait
}

// mostPresent is how many plans of one caller are made or wait.
const mostPresent = 16

// NewMemory returns a Memory of so many bytes.
func NewMemory(most int64) *Memory { return &Memory{most: most, callers: map[string]*caller{}} }

// ErrTooManyPlans is returned where a caller has too many plans waiting.
var ErrTooManyPlans = fmt.Errorf("%d plans of this caller wait already, and one is made at a time: ask again when they are answered", mostPresent-1)

// ErrMemoryInUse is returned where other plans hold the memory that this one needs. The same
// request may succeed in a moment.
var ErrMemoryInUse = errors.New("other plans hold the memory that there is for plans: ask again in a moment")

// TooLargeError is returned where a plan needs more memory than there is for all.
type TooLargeError struct{ Most int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the plan needs more than the %d MiB that there are for plans: plan fewer instances at once", e.Most>>20)
}

// Hold is the memory of one plan.
type Hold struct {
	m    *Memory
	who  string
	held int64
	peak int64 // of what is needed only while one file is read
}

// Begin waits until no other plan of the caller is being made. The hold MUST be ended.
func (m *Memory) Begin(ctx context.Context, who string) (*Hold, error) {
	m.mu.Lock()
	c := m.callers[who]
	if c == nil {
		c = &caller{turn: make(chan struct{}, 1)}
		m.callers[who] = c
	}
	if c.present >= mostPresent {
		m.mu.Unlock()
		return nil, ErrTooManyPlans
	}
	c.present++
	m.mu.Unlock()

	select {
	case c.turn <- struct{}{}:
		return &Hold{m: m, who: who}, nil
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leave(who)

		return nil, ctx.Err()
	}
}

// leave forgets one of a caller's plans. m.mu is held.
func (m *Memory) leave(who string) {
	if c := m.callers[who]; c.present > 1 {
		c.present--
	} else {
		delete(m.callers, who)
	}
}

// End gives back what the plan holds.
func (h *Hold) End() {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()

	h.m.held -= h.held
	h.held = 0
	<-h.m.callers[h.who].turn
	h.m.leave(h.who)
}

// Take counts so many bytes more. Its errors are [ErrMemoryInUse] and a [*TooLargeError]; the plan
// is to end with them.
func (h *Hold) Take(bytes int64) error {
	if h == nil {
		return nil
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()

	switch {
	case h.held+bytes > h.m.most:
		return &TooLargeError{Most: h.m.most}
	case h.m.held+bytes > h.m.most:
		return ErrMemoryInUse
	}
	h.held += bytes
	h.m.held += bytes
	return nil
}

// What the parts of a proposal cost, bytes. Each of the characters that separate values in YAML
// and JSON may stand for a node while a file is read, and for a value afterwards: "[0,0,0,…" is
// the worst.
const (
	perCandidate = 512
	perValue     = 64
	perNode      = 256
)

// TakeFile counts the text of a file, and what is made of it.
func (h *Hold) TakeFile(text string) error {
	if h == nil {
		return nil
	}
	values := int64(0)
	for _, separator := range []string{",", ":", "\n", "- ", "[", "{"} {
		values += int64(strings.Count(text, separator))
	}

	if transient := values * perNode; transient > h.peak {
		if err := h.Take(transient - h.peak); err != nil {
			return err
		}
		h.peak = transient
	}
	return h.Take(int64(len(text)) + values*perValue)
}

// TakeCandidate counts an instance of a proposal.
func (h *Hold) TakeCandidate(c Candidate) error {
	if err := h.Take(int64(perCandidate + len(c.Dir) + len(c.Instance))); err != nil {
		return err
	}
	return h.TakeFile(c.File)
}

// TakeAnswer counts a part of an answer twice, as it is encoded as a whole.
func (h *Hold) TakeAnswer(part any) error {
	if h == nil {
		return nil
	}
	return h.Take(2 * sizeOf(reflect.ValueOf(part)))
}

// sizeOf is about what a value holds, which has no cycles as it is to be encoded.
func sizeOf(v reflect.Value) int64 {
	size := int64(0)
	if v.IsValid() {
		size = int64(v.Type().Size()) //nolint:gosec // a type's size is small
	}

	switch v.Kind() {
	case reflect.String:
		size += int64(v.Len())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			size += sizeOf(v.Index(i))
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			size += sizeOf(i.Key()) + sizeOf(i.Value()) + perValue
		}
	case reflect.Pointer, reflect.Interface:
		size += sizeOf(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			size += sizeOf(v.Field(i))
		}
	}
	return size
}

type holdKey struct{}

// WithHold has a review count what it makes.
func WithHold(ctx context.Context, h *Hold) context.Context {
	return context.WithValue(ctx, holdKey{}, h)
}

// holdOf returns the hold of a review, nil if nothing is counted.
func holdOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}
