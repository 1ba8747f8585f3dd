package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	operationsLimit = 1000 // a second
	acceptedLimit   = 60 * time.Millisecond
	completedLimit  = 250 * time.Millisecond
	// askPause is that between two questions for one operation, endWait how long it may take.
	askPause = 50 * time.Millisecond
	endWait  = 5 * time.Minute
	// askers ask for the operations when the load has ended.
	askers = 16
)

const (
	jsonContent  = "application/json"
	patchContent = "application/merge-patch+json"
)

// load is one kind of request. Request i is on an instance of its own.
type load struct {
	name, method string
	target, body func(i int) string
	content      string
	status       int
}

func (l load) send(w *wire, i int) (answer, error) {
	return w.want(l.status, l.method, l.target(i), l.content, l.body(i))
}

// insist is send for an instance whose operation before may not have ended yet.
func (l load) insist(w *wire, i int) (a answer, err error) {
	for deadline := time.Now().Add(endWait); ; time.Sleep(askPause) {
		a, err = w.do(l.method, l.target(i), l.content, l.body(i), false)
		if err != nil || a.status == l.status {
			return a, err
		}
		if a.status != http.StatusConflict || time.Now().After(deadline) {
			return a, fmt.Errorf("%s: %d: %s", l.name, a.status, a.body)
		}
	}
}

// onInstance is the path of a task on an instance of the fill.
func onInstance(task string) func(i int) string {
	return func(i int) string { return process.Instances + "/" + instanceID("fill", i) + task }
}

func always(text string) func(int) string { return func(int) string { return text } }

func creating() load {
	return load{"create", http.MethodPost, always(process.Instances),
		func(i int) string { return fmt.Sprintf(`{"vnfdId":%q,"vnfInstanceName":"made %d"}`, vnfdID, i) }, jsonContent, http.StatusCreated}
}

func instantiating() load {
	return load{"instantiate", http.MethodPost, onInstance("/instantiate"), always(`{"flavourId":"simple"}`), jsonContent, http.StatusAccepted}
}

func scaling(typ string) load {
	return load{"scale", http.MethodPost, onInstance("/scale"), always(`{"type":"` + typ + `","aspectId":"web"}`), jsonContent, http.StatusAccepted}
}

func modifying() load {
	return load{"modify", http.MethodPatch, onInstance(""),
		func(i int) string { return fmt.Sprintf(`{"vnfInstanceName":"load %d","metadata":{"by":"load"}}`, i) }, patchContent, http.StatusAccepted}
}

// operations measures requests of many clients at a repository of many instances, each
// until it is answered and until its operation is COMPLETED, in the simulator, where
// nothing takes time of its own.
func (b *bench) operations(ctx context.Context) error {
	j, err := b.startWithMany(ctx, "operations")
	if err != nil {
		return err
	}
	defer j.Kill()
	b.note("%d clients at %d instances, %d requests of each kind, on %d CPUs that clients, server and git share", b.clients, b.instances, b.writes, runtime.NumCPU())
	b.note("COMPLETED: from sending the request, by the client's clock, to stateEnteredTime of the operation")
	for _, l := range []load{creating(), instantiating(), scaling("SCALE_OUT"), modifying()} {
		if err := b.under(ctx, j, l); err != nil {
			return fmt.Errorf("%s: %w; the server's log:\n%s", l.name, err, j.Log())
		}
	}
	return j.Stop()
}

// under puts the server under a load and prints its figures.
func (b *bench) under(ctx context.Context, j *jibe, l load) error {
	began := make([]time.Time, b.writes)
	took := make(times, b.writes)
	locations := make([]string, b.writes)
	packs, err := countPacks(j)
	if err != nil {
		return err
	}
	defer packs.close()
	transactions := transactions(j)
	server, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	own := ownCPU()
	start := time.Now()
	err = j.clients(ctx, b.clients, b.writes, func(w *wire, i int) error {
		began[i] = time.Now()
		a, err := l.send(w, i)
		took[i], locations[i] = time.Since(began[i]), a.location
		return err
	})
	wall := time.Since(start)
	own = ownCPU() - own
	if err != nil {
		return err
	}
	batches := packs.take()
	rate := float64(b.writes) / wall.Seconds()
	b.value(l.name, fmt.Sprintf("%.0f/s", rate), rate >= operationsLimit, fmt.Sprintf(">= %d/s", operationsLimit), fmt.Sprintf("n=%d in %s", b.writes, short(wall)))
	b.latency("  until answered", took, acceptedLimit, "")
	if l.status == http.StatusAccepted {
		ends := make(times, b.writes)
		if err := j.clients(ctx, askers, b.writes, func(w *wire, i int) error {
			o, err := w.completed(ctx, locations[i], askPause, endWait)
			ends[i] = o.Entered.Sub(began[i])
			return err
		}); err != nil {
			return err
		}
		p95 := ends.at(0.95)
		b.latency("  until COMPLETED", ends, 0, b.verdict(p95 <= completedLimit, "p95 <= "+short(completedLimit)))
	}
	after, err := cpuTime(j.Pid()) // before the metrics are asked for, which cost time of their own
	if err != nil {
		return err
	}
	each := float64(b.writes)
	b.value("  CPU time of the server, each", short(time.Duration(float64(after-server)/each)), true, "",
		fmt.Sprintf("questions for the end included; of the clients %s  commits in a pack %s, transactions of the store %s each",
			short(time.Duration(float64(own)/each)), perBatch(b.writes, batches), perOperation(transactions, j, each)))
	return j.quiet(ctx, time.Minute)
}

func perBatch(n int, batches int64) string {
	if batches == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/float64(batches))
}

func perOperation(before uint64, j *jibe, n float64) string {
	after := transactions(j)
	if before == 0 || after < before {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(after-before)/n)
}

// ownCPU is what this process has used so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// packs counts the packs that appear in the desired repository: each is one batch of commits.
type packs struct {
	watcher *fsnotify.Watcher
	seen    atomic.Int64
}

func countPacks(j *jibe) (*packs, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	p := &packs{watcher: w}
	go func() {
		for e := range w.Events {
			if e.Has(fsnotify.Create) && strings.HasSuffix(e.Name, ".idx") {
				p.seen.Add(1)
			}
		}
	}()
	if err := w.Add(filepath.Join(j.Desired(), "objects", "pack")); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *packs) take() int64 { return p.seen.Swap(0) }
func (p *packs) close()      { p.watcher.Close() }

// transactions is how many transactions the store has ever committed, 0 where it can't be
// told: each of bbolt's two meta pages, which are the file's first, has a number at its end.
func transactions(j *jibe) (n uint64) {
	f, err := os.Open(filepath.Join(j.Data, "store.db"))
	if err != nil {
		return 0
	}
	defer f.Close()
	// A page begins with 16 bytes of its own; magic, version, page size, flags, root and its
	// sequence, freelist and end come before the number.
	const sizeAt, numberAt = 16 + 8, 16 + 4*4 + 2*8 + 8 + 8
	page := make([]byte, numberAt+8)
	size := int64(0)
	for i := range int64(2) {
		if _, err := f.ReadAt(page, i*size); err != nil {
			return 0
		}
		size = int64(binary.NativeEndian.Uint32(page[sizeAt:]))
		n = max(n, binary.NativeEndian.Uint64(page[numberAt:]))
	}
	return n
}
