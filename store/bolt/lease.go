package bolt

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
)

// Acquire implements [store.Store]. The token is new whenever the lease had
// expired, was given back or goes to another holder: only a renewal keeps it.
func (s *Store) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if name == "" || holder == "" || ttl <= 0 {
		return store.Lease{}, fmt.Errorf("acquire lease %q for %q: a lease needs a name, a holder and a time to live", name, holder)
	}
	var lease store.Lease
	err := s.submit(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket(s.names.leases)
		old, err := readLease(b, name)
		if err != nil {
			return err
		}
		now := s.now()
		held := old.Holder != "" && now.Before(old.Expires)
		if held && old.Holder != holder {
			return fmt.Errorf("by %s until %s: %w", old.Holder, old.Expires.Format(time.RFC3339), store.ErrHeld)
		}
		lease = store.Lease{Name: name, Holder: holder, Token: old.Token, Expires: now.Add(ttl).UTC()}
		if !held {
			lease.Token++
		}
		return writeLease(b, lease)
	})
	if err != nil {
		return store.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	return lease, nil
}

// Release implements [store.Store]. The record stays, without a holder, to keep
// the token growing.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	err := s.submit(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket(s.names.leases)
		old, err := readLease(b, l.Name)
		if err != nil || old.Holder != l.Holder || old.Token != l.Token {
			return err
		}
		return writeLease(b, store.Lease{Name: l.Name, Token: old.Token})
	})
	if err != nil {
		return fmt.Errorf("release lease %q: %w", l.Name, err)
	}
	return nil
}

func readLease(b *bolt.Bucket, name string) (store.Lease, error) {
	var l store.Lease
	v := b.Get([]byte(name))
	if v == nil {
		return l, nil
	}
	if err := json.Unmarshal(v, &l); err != nil {
		return l, fmt.Errorf("lease %q is damaged: %w", name, err)
	}
	return l, nil
}

func writeLease(b *bolt.Bucket, l store.Lease) error {
	v, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := b.Put([]byte(l.Name), v); err != nil {
		return fmt.Errorf("%w: %w", errHalfway, err)
	}
	return nil
}
