package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// soakWindow is how much of the beginning and of the end are compared.
	soakWindow = 5 * time.Minute
	// soakEvery is how often memory and files are looked at.
	soakEvery = 10 * time.Second
	// soakKeep is which operations are kept, so that some are removed meanwhile. Each is
	// looked at when it has ended, and so before.
	soakKeep = "10m,5"
	// lossesShown is how many are told.
	lossesShown = 10
)

// soak is one long run of everything at once. Its clients share the instances out: the first
// half is changed by requests, the next quarter by pushes, and what runs of the last quarter
// is changed by hand.
type soak struct {
	*bench
	*jibe
	n      int
	begin  time.Time
	wanted []wanted // by instance; each has one owner

	mu      sync.Mutex
	samples map[string][]sample
	states  []state
	counted map[string]int // what was accepted, and what ended as it should
	losses  []string
	// branch is held by requests, and by a push alone: git lets a push in only where nobody
	// has committed since its fetch, and beside a steady stream of commits it would never be.
	branch sync.RWMutex
}

// wanted is what the last accepted change of an instance says.
type wanted struct {
	runs    bool
	level   int
	name    string
	touched bool
}

// sample is a latency, and when it was taken.
type sample struct {
	at   time.Time
	took time.Duration
}

// state is what is seen of the server at a moment.
type state struct {
	at             time.Time
	resident, peak int   // bytes
	store, packs   int64 // bytes; number
	goroutines     int
}

// soaking runs everything at once for as long as was asked for, and then compares the
// beginning with the end, and looks for what was lost.
func (b *bench) soaking(ctx context.Context) error {
	if b.profiles == "" { // for its heap, where no others are wanted
		b.profiles = b.tmp
		defer func() {
			b.tops(ctx)
			b.profiles = ""
		}()
	}
	server, err := b.spawnLab(filepath.Join(b.tmp, "soak"), "--keep-operations="+soakKeep)
	if err != nil {
		return err
	}
	j, err := furnish(ctx, server, map[string]string{"sim": simVIM})
	if err != nil {
		server.Kill()
		return err
	}
	defer j.Kill()
	s := &soak{bench: b, jibe: j, n: b.soaked, wanted: make([]wanted, b.soaked), samples: map[string][]sample{}, counted: map[string]int{}}
	if err := s.fill(ctx); err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, j.Log())
	}
	b.note("%d instances, for %s", s.n, b.soakFor)
	s.begin = time.Now()
	if err := s.everything(ctx); err != nil {
		return err
	}
	if err := j.quiet(ctx, 5*time.Minute); err != nil {
		s.lost("after the end: %s", err)
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	s.print()
	return j.Stop()
}

// fill makes the instances.
func (s *soak) fill(ctx context.Context) error {
	for first := 0; first < s.n; first += commitOf {
		n := min(s.n, first+commitOf)
		if err := s.addUnseen(ctx, "fill", first, n, s.named); err != nil {
			return err
		}
		if err := s.completed(ctx, running(n), 10*time.Minute); err != nil {
			return err
		}
		s.progress("%d of %d instances", n, s.n)
	}
	for i := range s.wanted {
		s.wanted[i] = wanted{runs: i%rarely != rarely-1, name: nameOf(i)}
	}
	s.clone += "-bare.git"
	if _, err := process.Git(ctx, s.Data, "clone", "--quiet", "--bare", "--no-local", s.Desired(), s.clone); err != nil {
		return err
	}
	return s.quiet(ctx, 5*time.Minute)
}

// everything runs all loads until the time is over. A load that fails has lost something,
// and goes on.
func (s *soak) everything(ctx context.Context) error {
	inTime, cancel := context.WithTimeout(ctx, s.soakFor)
	defer cancel()
	var wg sync.WaitGroup
	for c := range soakWriters {
		wg.Go(func() { s.write(ctx, inTime, c) })
	}
	wg.Go(func() { s.push(ctx, inTime) })
	wg.Go(func() { s.meddle(ctx, inTime) })
	wg.Go(func() { s.list(ctx, inTime) })
	wg.Go(func() { s.look(inTime) })
	wg.Wait()
	return ctx.Err()
}

// took keeps a latency.
func (s *soak) took(kind string, begin time.Time, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples[kind] = append(s.samples[kind], sample{begin, d})
}

func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted[what]++
}

// lost keeps what isn't as it should be.
func (s *soak) lost(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = append(s.losses, firstLine(fmt.Sprintf(format, args...)))
}

// look samples memory and files.
func (s *soak) look(ctx context.Context) {
	for {
		x := state{at: time.Now()}
		var err1, err2 error
		x.resident, err1 = resident(s.Pid())
		x.peak, err2 = peak(s.Pid())
		if info, err := os.Stat(filepath.Join(s.Data, "store.db")); err == nil {
			x.store = info.Size()
		}
		packs, err3 := filepath.Glob(filepath.Join(s.Desired(), "objects", "pack", "*.pack"))
		x.packs = int64(len(packs))
		c, err4 := s.counts(context.WithoutCancel(ctx))
		x.goroutines = c.goroutines
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			s.lost("the server: %s", err)
			return
		}
		s.mu.Lock()
		s.states = append(s.states, x)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(soakEvery):
		}
	}
}

// check compares each instance with what its last accepted change says.
func (s *soak) check(ctx context.Context) error {
	w, err := s.dial()
	if err != nil {
		return err
	}
	defer w.close()
	for i, want := range s.wanted {
		if !want.touched {
			continue
		}
		var got struct {
			Name  string `json:"vnfInstanceName"`
			State string `json:"instantiationState"`
			Info  struct {
				Scale []struct {
					Level int `json:"scaleLevel"`
				} `json:"scaleStatus"`
				Units []struct{} `json:"vnfcResourceInfo"`
			} `json:"instantiatedVnfInfo"`
		}
		if _, err := w.get(process.Instances+"/"+instanceID("fill", i), &got); err != nil {
			return err
		}
		has := wanted{runs: got.State == "INSTANTIATED", name: got.Name, touched: true}
		if len(got.Info.Scale) > 0 {
			has.level = got.Info.Scale[0].Level
		}
		units := 0
		if want.runs {
			units = 1 + want.level
		} else {
			want.level, has.level = 0, 0
		}
		if has != want || len(got.Info.Units) != units {
			s.lost("instance %s is %+v with %d units, and its last change says %+v", instanceID("fill", i), has, len(got.Info.Units), want)
		}
		s.counted["instances compared at the end"]++
	}
	return nil
}

// print prints the figures of the whole.
func (s *soak) print() {
	window := min(soakWindow, s.soakFor/4)
	s.note("latencies of the first and of the last %s", window)
	end := s.begin.Add(s.soakFor)
	for _, kind := range sorted(s.samples) {
		var first, last times
		for _, x := range s.samples[kind] {
			if x.at.Before(s.begin.Add(window)) {
				first = append(first, x.took)
			}
			if x.at.After(end.Add(-window)) {
				last = append(last, x.took)
			}
		}
		s.latency("  "+kind+", first", first, 0, "")
		s.latency("  "+kind+", last", last, 0, fmt.Sprintf("p50 %s, p95 %s of the first", ratio(float64(last.median()), float64(first.median())), ratio(float64(last.at(0.95)), float64(first.at(0.95)))))
	}
	s.note("over time")
	var next time.Time
	for _, x := range s.states {
		if x.at.Before(next) {
			continue
		}
		next = x.at.Add(window)
		s.value("  after "+x.at.Sub(s.begin).Round(time.Second).String(), fmt.Sprintf("%d MiB resident, most %d MiB, store %d MiB, %d packs, %d goroutines", x.resident>>20, x.peak>>20, x.store>>20, x.packs, x.goroutines), true, "", "")
	}
	for _, what := range sorted(s.counted) {
		s.value(what, fmt.Sprint(s.counted[what]), true, "", "")
	}
	s.value("lost, refused or ended otherwise than it should", fmt.Sprint(len(s.losses)), len(s.losses) == 0, "= 0", "")
	for i, x := range s.losses {
		if i == lossesShown {
			s.note("and %d others", len(s.losses)-i)
			break
		}
		s.note("%s", strings.TrimSpace(x))
	}
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
