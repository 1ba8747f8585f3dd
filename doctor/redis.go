package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// slowRedis is how long a question may take at most before it is worth a warning: every request
// and every step waits for several.
const slowRedis = 20 * time.Millisecond

// oldestRedis is the oldest major version whose scripts and streams do as the store needs.
const oldestRedis = 7

// subscriptions looks whether the records of subscriptions are as this installation wrote them.
func (t *Target) subscriptions(ctx context.Context) Finding {
	why, err := t.Unproven(ctx)
	switch {
	case err != nil:
		return found(Failed, "See that Redis runs, and that the key can be read.", "%v", err)
	case len(why) > 0:
		return found(Failed, "Find out who may write to Redis; delete each (DELETE at its API), and have its owner subscribe again.",
			"not served are %d, as their records in Redis aren't this installation's own: %s", len(why), strings.Join(why[:min(len(why), 5)], "; "))
	}
	return ok("each record in Redis is this installation's own")
}

// redis looks at the Redis that has the records.
func (t *Target) redis(ctx context.Context) Finding {
	f, err := t.Redis(ctx)
	if err != nil {
		return found(Failed, "See that Redis runs, and that address, user and password are right. What runs is in git, and isn't lost.", "%v", err)
	}
	text := fmt.Sprintf("Redis %s, %s with %d replicas, %d records, %d MiB of memory, answers in %s",
		f.Version, f.Role, f.Replicas, f.Records, f.Memory>>20, f.Took.Round(10*time.Microsecond))
	major, _, _ := strings.Cut(f.Version, ".")
	version, _ := strconv.Atoi(major)
	switch {
	case f.Role != "master":
		return found(Failed, "Name the master, or its sentinels.", "%s: it is no master, and takes no writes", text)
	case f.Policy != "" && f.Policy != "noeviction":
		return found(Failed, "Set maxmemory-policy to noeviction: with another, Redis throws records away where its memory is full.", "%s: maxmemory-policy is %s", text, f.Policy)
	case f.AppendFails:
		return found(Failed, "Look at the disk of Redis.", "%s: its last write to the disk failed", text)
	case version < oldestRedis:
		return found(Warning, "Upgrade Redis to 7 or newer, or Valkey.", "%s: it is older than what is tested", text)
	case f.Skew.Abs() >= skewWarning:
		return found(Warning, "Have both follow a time server.", "%s: its clock and this machine's differ by %s. Leases end by its own; after a failover to a machine whose clock is another they end early or late", text, f.Skew.Abs().Round(time.Second))
	case !f.Appends:
		return found(Warning, "Set appendonly yes, and appendfsync always: without, a restart of Redis loses what it wrote since its last dump.", "%s: appendonly is no", text)
	case f.Most > 0 && f.Memory > f.Most/5*4:
		return found(Warning, "Raise maxmemory: where it is full, nothing can be written.", "%s of %d", text, f.Most>>20)
	case f.Plain:
		return found(Warning, "Have Redis speak TLS, and name it by rediss://. Where the network between is trusted, leave it so.", "%s: password and records cross the network in clear", text)
	case f.Took > slowRedis:
		return found(Warning, "Have Redis nearer: every request waits for several of its answers.", "%s", text)
	}
	if f.Sync != "" {
		text += ", appendfsync " + f.Sync
	}
	return ok("%s", text)
}
