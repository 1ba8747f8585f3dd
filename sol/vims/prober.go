package vims

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// The values of status.
const (
	reachable   = "REACHABLE"
	unreachable = "UNREACHABLE"
)

const (
	// probeTimeout bounds one look at a VIM.
	probeTimeout = 3 * time.Second
	// probeFor is how long its outcome is believed, so that lists cost the VIMs little.
	probeFor = 30 * time.Second
	// probesAtOnce bounds how many VIMs are looked at beside each other.
	probesAtOnce = 16
	// mostProbes is how many outcomes are kept.
	mostProbes = 10_000
)

// prober remembers for a moment which VIMs answer. It is safe for concurrent use.
type prober struct {
	reach func(ctx context.Context, v *desired.VIM) error

	mu    sync.Mutex
	known map[string]probe // by what the VIM's file says
}

// probe is the outcome of a look.
type probe struct {
	at    time.Time
	state string
}

// status returns the states of the VIMs, by name.
func (p *prober) status(ctx context.Context, vims ...*desired.VIM) map[string]string {
	out := make(map[string]string, len(vims))
	var mu sync.Mutex
	var all sync.WaitGroup
	turns := make(chan struct{}, probesAtOnce)
	for _, v := range vims {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			state := p.one(ctx, v)
			mu.Lock()
			defer mu.Unlock()
			out[v.Name] = state
		})
	}
	all.Wait()
	return out
}

func (p *prober) one(ctx context.Context, v *desired.VIM) string {
	file := fmt.Sprintf("%+v", *v)
	p.mu.Lock()
	was, ok := p.known[file]
	p.mu.Unlock()
	if ok && time.Since(was.at) < probeFor {
		return was.state
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	now := probe{state: reachable}
	if err := p.reach(ctx, v); err != nil {
		now.state = unreachable
	}
	now.at = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= mostProbes {
		p.known = map[string]probe{}
	}
	p.known[file] = now
	return now.state
}
