// Package maintenance looks after a data directory: backups and restores, its examination, room on its disk, records
// that are to go, and the memory of the process.
package maintenance

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryShare is what the heap may have of the memory of the process's cgroup. What is
	// left is for the store's file and for git, which runs beside.
	memoryShare = 0.9
	// memoryPause is the least time between two looks at how large the heap is.
	memoryPause = time.Second
)

// When the process is at rest, its garbage goes back to the system: the collector would leave
// it where it is, as nothing makes it run.
const (
	restAllocates = 4 << 20  // bytes between two looks that are still rest
	restLooks     = 10       // so many in a row
	restWorth     = 64 << 20 // bytes of garbage that are worth a collection
)

// How much garbage may lie beside what the heap holds, before it is collected.
const (
	// garbageMost trades memory for speed while the heap is small: under many writes a fifth of
	// the time went into collecting it. It is percent of what lives.
	garbageMost = 300
	// garbageEnough is enough in bytes where much lives, so that the process doesn't take
	// three times as much again.
	garbageEnough = 256 << 20
	// garbageLeast keeps the collector from running all the time, in percent of what lives.
	garbageLeast = 50
)

// BoundMemory keeps the process within the memory of its cgroup, and its garbage small
// beside what lives, until ctx ends. $GOMEMLIMIT and $GOGC are obeyed instead, each where it
// is set.
func BoundMemory(ctx context.Context, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") == "" {
		limit, err := memlimit.Set(memlimit.WithRatio(memoryShare))
		switch {
		case err != nil:
			log.WarnContext(ctx, "the memory limit of the cgroup can't be read, so that there is none but what GOMEMLIMIT says", "error", err)
		case limit != math.MaxInt64:
			log.InfoContext(ctx, "the heap is kept within the memory of the cgroup", "limit", limit)
		}
	}
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := garbageMost
	debug.SetGCPercent(percent)
	go func() {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
		var rest resting
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(memoryPause):
			}
			metrics.Read(heap)
			// Each change stops the world for a moment, so that small ones aren't made.
			if next := garbage(heap[0].Value.Uint64()); next < percent*9/10 || next > percent*11/10 {
				percent = next
				debug.SetGCPercent(percent)
			}
			if rest.begins(heap[1].Value.Uint64()) {
				debug.FreeOSMemory()
			}
		}
	}()
}

// resting tells when the process comes to rest, by how much is allocated between two looks.
type resting struct {
	allocated uint64 // until the last look, in bytes
	since     uint64 // that were allocated since memory was given back
	quiet     int    // looks in a row at which little was allocated
}

// begins says, once for each rest, that the process has come to rest, and that there is
// something to give back. allocated is how many bytes were allocated since the process began.
func (r *resting) begins(allocated uint64) bool {
	more := allocated - r.allocated
	r.allocated = allocated
	r.since += more
	if r.quiet++; more > restAllocates {
		r.quiet = 0
	}
	if r.quiet < restLooks || r.since < restWorth {
		return false
	}
	r.since = 0
	return true
}

// garbage is how much garbage may lie beside so many bytes that live, in percent of them.
func garbage(live uint64) int {
	if live == 0 {
		return garbageMost
	}
	return int(min(garbageMost, max(garbageLeast, garbageEnough*100/live)))
}
