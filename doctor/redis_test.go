package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
)

func TestWhatIsWrongWithRedisIsToldWithItsRemedy(t *testing.T) {
	good := redis.Facts{Version: "7.0.15", Role: "master", Policy: "noeviction", Appends: true, Sync: "always", Took: time.Millisecond}
	with := func(change func(*redis.Facts)) redis.Facts {
		f := good
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		facts redis.Facts
		err   error
		state State
		says  string
	}{
		"good":        {facts: good, state: OK, says: "appendfsync always"},
		"away":        {err: errors.Join(store.ErrUnavailable), state: Failed, says: "unavailable"},
		"a replica":   {facts: with(func(f *redis.Facts) { f.Role = "slave" }), state: Failed, says: "no master"},
		"evicting":    {facts: with(func(f *redis.Facts) { f.Policy = "allkeys-lru" }), state: Failed, says: "allkeys-lru"},
		"a full disk": {facts: with(func(f *redis.Facts) { f.AppendFails = true }), state: Failed, says: "disk failed"},
		"old":         {facts: with(func(f *redis.Facts) { f.Version = "6.2.1" }), state: Warning, says: "6.2.1"},
		"forgetful":   {facts: with(func(f *redis.Facts) { f.Appends = false }), state: Warning, says: "appendonly"},
		"nearly full": {facts: with(func(f *redis.Facts) { f.Memory, f.Most = 90<<20, 100<<20 }), state: Warning, says: "of 100"},
		"in clear":    {facts: with(func(f *redis.Facts) { f.Plain = true }), state: Warning, says: "in clear"},
		"late":        {facts: with(func(f *redis.Facts) { f.Skew = -8 * time.Second }), state: Warning, says: "differ by 8s"},
		"far away":    {facts: with(func(f *redis.Facts) { f.Took = time.Second }), state: Warning, says: "1s"},
	} {
		target := &Target{Redis: func(context.Context) (redis.Facts, error) { return c.facts, c.err }}
		if got := target.store(t.Context()); got.State != c.state || !strings.Contains(got.Means, c.says) || (got.Do == "") != (c.state == OK) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.state, c.says)
		}
	}
}
