package forgesync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// deliveredKey is the key of the record that says when the forge told a replica of something last.
const deliveredKey = "forge/delivered"

// Delivered has all replicas ask the forge once it has told one of them that something happened there: a pull
// request is looked after by whoever looks after its instance. They hear of it as of all that is put
// into the store.
type Delivered struct {
	store store.Store
	by    string // the process, for people
	log   *slog.Logger
	ask   func()        // has this process ask the forge
	wake  chan struct{} // nil where no other process serves
}

// DeliveredConfig says who learns of deliveries.
type DeliveredConfig struct {
	Store  store.Store
	Oplog  *oplog.Log
	Holder string // this process
	Shared bool   // whether others serve beside it
	Ask    func() // has this process ask the forge
	Log    *slog.Logger
}

// NewDelivered makes it.
func NewDelivered(c DeliveredConfig) *Delivered {
	d := &Delivered{store: c.Store, by: c.Holder, log: c.Log, ask: c.Ask}
	if c.Shared {
		d.wake = make(chan struct{}, 1)
		c.Oplog.OnStored(deliveredKey, func(store.Change) { d.ask() })
		c.Oplog.OnLost(d.ask)
	}
	return d
}

// Take takes a delivery. It never blocks. Where no forge is told, d is nil.
func (d *Delivered) Take() {
	if d == nil {
		return
	}
	if d.wake == nil {
		d.ask()
		return
	}
	select {
	case d.wake <- struct{}{}:
	default: // those that come together are one
	}
}

// Run tells all replicas of deliveries, this one among them, until ctx ends.
func (d *Delivered) Run(ctx context.Context) error {
	for {
		select {
		case <-d.wake:
		case <-ctx.Done():
			return nil
		}
		if err := d.tell(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "other replicas aren't told that something happened on the forge, they find out when they look next", "error", err)
			d.ask()
		}
	}
}

// tell has the record written. Where somebody else has done so meanwhile, all are told by that.
func (d *Delivered) tell(ctx context.Context) error {
	rec, err := d.store.Get(ctx, deliveredKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s in the store: %w", deliveredKey, err)
	}
	value, err := json.Marshal(struct {
		By string    `json:"by"`
		At time.Time `json:"at"`
	}{d.by, time.Now().UTC()})
	if err != nil {
		return err
	}
	_, err = d.store.Put(ctx, store.Record{Key: deliveredKey, Version: rec.Version, Value: value})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%s in the store: %w", deliveredKey, err)
	}
	return nil
}
