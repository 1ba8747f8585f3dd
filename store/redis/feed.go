package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/store"
)

const (
	// page is how many Puts are read at once by those who follow.
	page = 2000
	// listenTime is how long the listener waits in one command. Then those who wait look
	// whether Redis still has what they know.
	listenTime = 5 * time.Second
	// retryPause is how long the listener waits after a failure.
	retryPause = 500 * time.Millisecond
)

// entryID is the id of a Put in the stream of changes.
func entryID(epoch, put uint64) string { return fmt.Sprintf("%d-%d", epoch, put) }

// parseID reads an entry's id.
func parseID(id string) store.Mark {
	epoch, put, _ := strings.Cut(id, "-")
	return store.Mark{Epoch: number(epoch), Put: number(put)}
}

// parseChanges reads what a Put tells of: for each record its version, 8 bytes, and its key,
// with NUL between.
func parseChanges(text string) []store.Change {
	var out []store.Change
	for len(text) >= 8 {
		c := store.Change{Version: binary.BigEndian.Uint64([]byte(text[:8]))}
		c.Key, text, _ = strings.Cut(text[8:], "\x00")
		out = append(out, c)
	}
	return out
}

// Mark implements [store.Store].
func (s *Store) Mark(ctx context.Context) (store.Mark, error) {
	var m store.Mark
	err := s.repeat(ctx, func() (err error) {
		m, err = s.newest(ctx)
		return err
	})
	if err != nil {
		return store.Mark{}, fmt.Errorf("mark: %w", err)
	}
	return m, nil
}

// newest asks for the place of the newest Put, and takes note where Redis has lost some.
func (s *Store) newest(ctx context.Context) (store.Mark, error) {
	state, err := s.client.HMGet(ctx, s.keys.state, "epoch", "put").Result()
	if err != nil {
		return store.Mark{}, err
	}
	m := markOf(state)
	if epoch, put := s.known.place(); m.Epoch != epoch || m.Put < put {
		return s.meet(ctx)
	}
	s.known.put(m.Put)
	return m, nil
}

func markOf(state []any) store.Mark {
	epoch, _ := state[0].(string)
	put, _ := state[1].(string)
	return store.Mark{Epoch: number(epoch), Put: number(put)}
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context, after store.Mark) ([]store.Change, store.Mark, error) {
	for {
		more := s.tail.more()
		changes, next, err := s.since(ctx, after)
		if err != nil || next != after {
			return changes, next, err
		}
		s.listen(after)
		select {
		case <-more:
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// since reads what was put after a Mark.
func (s *Store) since(ctx context.Context, after store.Mark) ([]store.Change, store.Mark, error) {
	var now store.Mark
	var entries []redis.XMessage
	err := s.repeat(ctx, func() (err error) {
		if now, err = s.newest(ctx); err != nil || now.Epoch != after.Epoch || now.Put <= after.Put {
			return err
		}
		entries, err = s.client.XRangeN(ctx, s.keys.changes, entryID(after.Epoch, after.Put+1), "+", page).Result()
		return err
	})
	lost := fmt.Errorf("changes after %d of epoch %d: %w", after.Put, after.Epoch, store.ErrLost)
	switch {
	case err != nil:
		return nil, after, fmt.Errorf("changes: %w", err)
	case now.Epoch != after.Epoch || now.Put < after.Put || now.Put > after.Put && len(entries) == 0:
		return nil, after, lost
	}
	var out []store.Change
	next := after
	for _, e := range entries {
		at := parseID(e.ID)
		if at.Epoch != next.Epoch || at.Put != next.Put+1 {
			return nil, after, lost // some were removed, or never came
		}
		next = at
		keys, _ := e.Values["keys"].(string)
		out = append(out, parseChanges(keys)...)
	}
	return out, next, nil
}

// tail listens to what is put, on a connection of its own, and wakes those who wait. It runs
// from the first question on.
type tail struct {
	mu      sync.Mutex
	running bool
	next    chan struct{} // closed with the next change
	group   sync.WaitGroup
}

func newTail() tail { return tail{next: make(chan struct{})} }

// more returns a channel that is closed when there may be something new.
func (t *tail) more() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

func (t *tail) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.next)
	t.next = make(chan struct{})
}

// wait returns when the listener has ended.
func (t *tail) wait() { t.group.Wait() }

// listen starts the listener, if it doesn't run, behind a Mark.
func (s *Store) listen(after store.Mark) {
	t := &s.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running || s.work.Err() != nil {
		return
	}
	t.running = true
	t.group.Go(func() { s.follow(entryID(after.Epoch, after.Put)) })
}

func (s *Store) follow(id string) {
	for s.work.Err() == nil {
		streams, err := s.client.XRead(s.work, &redis.XReadArgs{Streams: []string{s.keys.changes}, ID: id, Count: page, Block: listenTime}).Result()
		if err == nil && len(streams) > 0 && len(streams[0].Messages) > 0 {
			m := streams[0].Messages
			id = m[len(m)-1].ID
		}
		s.tail.wake()
		if err != nil && !errors.Is(err, redis.Nil) {
			select {
			case <-s.work.Done():
			case <-time.After(retryPause):
			}
		}
	}
}
