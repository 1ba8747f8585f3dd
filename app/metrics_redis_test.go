package app_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// figures are the values of the metrics without labels, by name, that a scrape of one replica shows.
func figures(t *testing.T, s *process.Server) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^(jibe_\w+) (\S+)$`).FindAllStringSubmatch(scrape(t, s, "text/plain"), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		found[m[1]] = v
	}
	return found
}

func TestEachReplicaShowsHowItsRedisIsAndWhatItHasLost(t *testing.T) {
	r, _ := newReplicas(t, 0)
	stalled := r.stalls()
	s := []*process.Server{r.start(), r.start()}
	r.create(s[0], 2)
	c := r.redis.Client(t)
	if err := c.ConfigSet(t.Context(), "maxmemory", "1gb").Err(); err != nil {
		t.Fatal(err)
	}
	before := figures(t, s[0])
	if before["jibe_redis_up"] != 1 || before["jibe_redis_memory_limit_bytes"] != 1<<30 || before["jibe_redis_memory_bytes"] < 1<<16 || before["jibe_redis_replicas"] != 0 {
		t.Errorf("a Redis that is well is shown as %v", before)
	}
	kit.Eventually(t, func() error { // events come and go for a while
		shown := figures(t, s[0])["jibe_redis_records"]
		n, err := c.ZCard(t.Context(), "{jibe}:index").Result()
		if err == nil && (n < 4 || shown != float64(n)) {
			err = fmt.Errorf("%v records are shown, and there are %d", shown, n)
		}
		return err
	})
	// A machine that stands still for some seconds loses its sessions.
	if lost, shown := before["jibe_member_sessions_lost_total"]; before["jibe_redis_epoch_timestamp_seconds"] == 0 || !shown || lost > 0 && stalled() < 2*time.Second {
		t.Errorf("before anything is lost: %v", before)
	}
	if _, shown := before["jibe_store_size_bytes"]; shown {
		t.Error("a file is shown that isn't there")
	}

	const lost = "jibe_member_sessions_lost_total"
	were := []float64{figures(t, s[0])[lost], figures(t, s[1])[lost]}
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for n, one := range s {
		kit.Eventually(t, func() error {
			now := figures(t, one)
			if now["jibe_redis_epoch_timestamp_seconds"] <= before["jibe_redis_epoch_timestamp_seconds"] || now[lost] <= were[n] || now["jibe_member_session_held"] != 1 {
				return fmt.Errorf("after Redis was emptied: %v, before %v", now, before)
			}
			return nil
		})
	}

	epoch := figures(t, s[1])["jibe_redis_epoch_timestamp_seconds"]
	r.redis.Kill()
	away := figures(t, s[1])
	if up, shown := away["jibe_redis_up"]; !shown || up != 0 {
		t.Errorf("a Redis that is away is shown as %v", away)
	}
	if _, shown := away["jibe_redis_memory_bytes"]; shown || away["jibe_redis_epoch_timestamp_seconds"] != epoch {
		t.Errorf("while Redis is away, what it said is shown as if it were so still, or its epoch isn't: %v", away)
	}
	r.redis.Start(t)
	kit.Eventually(t, func() error {
		if up := figures(t, s[1])["jibe_redis_up"]; up != 1 {
			return fmt.Errorf("jibe_redis_up is %v", up)
		}
		return nil
	})
}
