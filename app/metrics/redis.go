package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/store/redis"
)

// redisPatience bounds how long a scrape waits for Redis: one that is silently away must not make
// Jibe itself look away.
const redisPatience = time.Second

// Redis is what is asked of a Redis that has the records.
type Redis interface {
	Usage(ctx context.Context) (redis.Usage, error)
	Began() time.Time
}

// redisMetrics ask Redis at each scrape. Where it doesn't answer, all but up and epoch are left out.
type redisMetrics struct {
	store Redis

	up, epoch, memory, most, replicas, records *prometheus.Desc
}

func newRedisMetrics(store Redis) *redisMetrics {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &redisMetrics{
		store: store,
		up:    desc("jibe_redis_up", "1 where the Redis that has the records answered this scrape, else 0."),
		epoch: desc("jibe_redis_epoch_timestamp_seconds",
			"When Redis was last found not to have all that it had answered, or records were restored there; else when it was used first."),
		memory:   desc("jibe_redis_memory_bytes", "Memory that Redis uses."),
		most:     desc("jibe_redis_memory_limit_bytes", "Memory that Redis may use (maxmemory), 0 where it is unbounded."),
		replicas: desc("jibe_redis_replicas", "Replicas of Redis that are connected to its master."),
		records:  desc("jibe_redis_records", "Records of this installation in Redis."),
	}
}

// Describe implements prometheus.Collector.
func (r *redisMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.up, r.epoch, r.memory, r.most, r.replicas, r.records} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (r *redisMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), redisPatience)
	defer cancel()
	u, err := r.store.Usage(ctx)
	gauge(ch, r.epoch, stamp(r.store.Began()))
	if err != nil {
		gauge(ch, r.up, 0)
		return
	}
	gauge(ch, r.up, 1)
	gauge(ch, r.memory, float64(u.Memory))
	gauge(ch, r.most, float64(u.Most))
	gauge(ch, r.replicas, float64(u.Replicas))
	gauge(ch, r.records, float64(u.Records))
}
