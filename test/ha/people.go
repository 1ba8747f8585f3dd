package ha

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jibe-vnfm/jibe/test/load"
)

// How many work with instances of their own, how many only heal, and how many are told; and how
// long each waits at most between two changes: all write to one branch, which takes one push at a
// time, and a machine of two processors has little left for pushes beside three replicas and a
// cluster.
const (
	slots       = 5
	healers     = 2
	subscribers = 3
	slotPause   = 5 * time.Second
	healPause   = 2 * time.Second
)

// People work with a rig, and are told what comes of it.
type People struct {
	World *load.World

	healers []*load.Healer
	work    []load.Work
}

// Invite has people and subscribers come. Their choices are those of the seed. The caller closes
// them, before the rig.
func (r *Rig) Invite(ctx context.Context, seed uint64) (_ *People, err error) {
	p := &People{World: r.World()}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(ctx))
		}
	}()
	for range subscribers {
		s, err := p.World.Subscribe(ctx)
		if err != nil {
			return nil, err
		}
		s.Late = true
	}
	person := func(name string, stream uint64, pause time.Duration) load.Person {
		c, failed := r.Clone(ctx, name)
		err = errors.Join(err, failed)
		return load.Person{World: p.World, Name: name, Rng: rand.New(rand.NewPCG(seed, stream)), Clone: c, Pause: pause}
	}
	for i := range slots {
		s := &load.Slot{Person: person(fmt.Sprintf("slot-%d", i), uint64(i+1), slotPause)}
		p.work = append(p.work, s.Work)
	}
	for i := range healers {
		h := &load.Healer{Person: person(fmt.Sprintf("healed-%d", i), uint64(100+i), healPause)}
		if err != nil {
			return nil, err
		}
		p.healers = append(p.healers, h)
		if err := h.Begin(ctx); err != nil {
			return nil, err
		}
		p.work = append(p.work, h.Work)
	}
	p.work = append(p.work, p.World.AcceptEnds)
	return p, nil
}

// Begin lets all of them work until the returned function is called, whose error is of what must
// not happen.
func (p *People) Begin(ctx context.Context) (end func() error) {
	return load.Begin(ctx, p.work...)
}

// Close removes what they have made at the cluster, and ends those who are told.
func (p *People) Close(ctx context.Context) error {
	for _, h := range p.healers {
		h.End()
	}
	return p.World.Close(ctx)
}
