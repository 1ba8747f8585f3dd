package replicas

import (
	"context"
	"errors"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
)

// awaitPause is how often a start looks whether Redis is there again.
const awaitPause = time.Second

// ErrEnded is returned by a start that was told to end while it waited.
var ErrEnded = errors.New("told to end before the start was done")

// awaitRedis opens the Redis, and waits for one that can't be reached: whoever started this process would
// only start it again. Meanwhile /healthz says that it lives, and everything else that it isn't ready. What
// Redis itself refuses, as a wrong password, ends the start.
func (s *Replica) awaitRedis(ctx context.Context, o redis.Options) (*redis.Store, error) {
	r, err := redis.Open(ctx, o)
	if !errors.Is(err, store.ErrUnavailable) || redis.Refused(err) {
		return r, err
	}
	s.Log.WarnContext(ctx, "Redis can't be reached: the start waits for it", "error", err)
	since := time.Now()
	stop, lerr := s.Defer(err)
	if lerr != nil {
		return nil, errors.Join(err, lerr)
	}
	defer stop()
	for errors.Is(err, store.ErrUnavailable) && !redis.Refused(err) {
		select {
		case <-s.Ending:
			return nil, ErrEnded
		case <-time.After(awaitPause):
		}
		r, err = redis.Open(ctx, o)
	}
	if err == nil {
		s.Log.InfoContext(ctx, "Redis is there, the start goes on", "waited", time.Since(since).Round(time.Second))
	}
	return r, err
}
