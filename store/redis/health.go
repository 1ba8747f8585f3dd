package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// outcome says how a write ended.
type outcome struct {
	at  time.Time
	err error
}

// LastWrite returns when the last write ended, or the zero time if there was none since the
// store was opened, and the error if it failed. A Put that was refused (a conflict) hasn't failed.
func (s *Store) LastWrite() (at time.Time, err error) {
	if o := s.last.Load(); o != nil {
		return o.at, o.err
	}
	return time.Time{}, nil
}

// Probe finds out whether Redis takes writes: it writes size bytes that nobody reads, and removes
// them again. Its error is that of any write.
func (s *Store) Probe(ctx context.Context, size int) error {
	err := s.repeat(ctx, func() error {
		if err := s.client.Set(ctx, s.keys.writeProbe, make([]byte, size), 0).Err(); err != nil {
			return err
		}
		return s.client.Del(ctx, s.keys.writeProbe).Err()
	})
	if ctx.Err() == nil {
		s.last.Store(&outcome{at: time.Now(), err: err})
	}
	if err != nil {
		return fmt.Errorf("probe of the store: %w", err)
	}
	return nil
}

// Facts are what can be said of Redis without the records' meaning.
type Facts struct {
	Version, Role string
	// Replicas is how many are connected.
	Replicas int
	// Policy is what Redis does where its memory is full; only noeviction keeps records. Memory
	// is what it uses, Most what it may, bytes; 0 is unbounded.
	Policy       string
	Memory, Most int64
	// Appends says that each write goes to a file; Sync how often that is forced to the disk, ""
	// where that isn't told. AppendFails says that the last one failed.
	Appends     bool
	Sync        string
	AppendFails bool
	Records     int64
	// Took is how long the shortest of three questions took.
	Took time.Duration
	// Plain says that the way there isn't encrypted, and leaves this machine.
	Plain bool
	// Skew is by how much Redis's clock, by which leases end, is ahead of this machine's.
	Skew time.Duration
}

// Usage is what an operator watches of Redis all the time.
type Usage struct {
	// Memory is what Redis uses, Most what it may, bytes; 0 is unbounded.
	Memory, Most int64
	// Replicas is how many are connected to the master.
	Replicas int
	Records  int64
}

// Usage asks Redis, by two questions. It isn't asked again where it doesn't answer: ctx bounds how long
// that may take.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	n, err := s.master(ctx)
	if err == nil {
		u.Records, err = s.client.ZCard(ctx, s.keys.index).Result()
	}
	if err != nil {
		return u, fmt.Errorf("usage of the store: %w", s.failure(ctx, err))
	}
	text, err := n.Info(ctx, "memory", "replication").Result()
	if err != nil {
		return u, fmt.Errorf("usage of the store: %w", s.failure(ctx, err))
	}
	info := parseInfo(text)
	u.Replicas, _ = strconv.Atoi(info["connected_slaves"])
	u.Memory, u.Most = int64(number(info["used_memory"])), int64(number(info["maxmemory"]))
	return u, nil
}

// Facts asks Redis.
func (s *Store) Facts(ctx context.Context) (Facts, error) {
	f := Facts{Plain: s.plain}
	var text string
	err := s.repeat(ctx, func() (err error) {
		for range 3 {
			began := time.Now()
			if f.Records, err = s.client.ZCard(ctx, s.keys.index).Result(); err != nil {
				return err
			}
			if took := time.Since(began); f.Took == 0 || took < f.Took {
				f.Took = took
			}
		}
		began := time.Now()
		at, err := s.client.Time(ctx).Result()
		if err != nil {
			return err
		}
		f.Skew = at.Sub(began.Add(time.Since(began) / 2))
		text = ""
		for _, section := range []string{"server", "replication", "memory", "persistence"} {
			part, err := s.client.Info(ctx, section).Result()
			if err != nil {
				return err
			}
			text += part + "\r\n"
		}
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("facts of the store: %w", err)
	}
	info := parseInfo(text)
	f.Version, f.Role, f.Policy = info["redis_version"], info["role"], info["maxmemory_policy"]
	f.Replicas, _ = strconv.Atoi(info["connected_slaves"])
	f.Memory, f.Most = int64(number(info["used_memory"])), int64(number(info["maxmemory"]))
	f.Appends, f.AppendFails = info["aof_enabled"] == "1", info["aof_last_write_status"] == "err"
	// Few users may ask for the configuration, and nothing depends on it.
	if got, err := s.client.ConfigGet(ctx, "appendfsync").Result(); err == nil {
		f.Sync = got["appendfsync"]
	}
	return f, nil
}
