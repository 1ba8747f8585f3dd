// Package store is the contract for what git and the VIM cannot keep: operation
// records, subscriptions, and leases.
//
// A store keeps versioned records under string keys. It doesn't know what the values
// mean. Implementations are below this package (store/bolt) and pass one suite
// (store/storetest).
package store

import (
	"context"
	"errors"
	"time"
)

// Record is one value with the version that guards it.
type Record struct {
	// Key is non-empty UTF-8 without NUL, at most 512 bytes. In a Put, a key that
	// ends in "/" is completed by the store with a 20-digit decimal number
	// greater than every one it gave under that prefix before; such records become
	// visible in the order of their numbers.
	Key string
	// Version is 0 for a record that doesn't exist, and grows by 1 with each Put.
	Version uint64
	Value   []byte
	// Delete, in a Put, removes the record.
	Delete bool
}

// Lease is the right of one holder to work on one name until it expires.
type Lease struct {
	Name    string
	Holder  string
	Token   uint64 // grows with each new holder: a fencing token
	Expires time.Time
}

// Errors that callers decide on.
var (
	// ErrNotFound is returned by Get for a key without a record.
	ErrNotFound = errors.New("record not found")
	// ErrConflict is returned by Put when a record's version isn't the stored version.
	// Nothing was written.
	ErrConflict = errors.New("record was changed by someone else")
	// ErrHeld is returned by Acquire when another holder's lease hasn't expired.
	ErrHeld = errors.New("lease is held by another process")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("store is closed")
)

// Store is safe for concurrent use.
type Store interface {
	// Get returns the record under key, or [ErrNotFound].
	Get(ctx context.Context, key string) (Record, error)
	// List returns, in order of key, at most limit records whose key starts with
	// prefix and is greater than after ("" for the first page). limit <= 0 means all.
	// They are as they were at one moment, and all of them in memory at once: whoever
	// expects many lists them in pages of a thousand or so.
	List(ctx context.Context, prefix, after string, limit int) ([]Record, error)
	// Put writes all records or none, each only if its Version is the stored one
	// (0: it doesn't exist). When it returns nil the records are durable. It returns
	// the records as stored, keys completed and versions raised.
	Put(ctx context.Context, recs ...Record) ([]Record, error)
	// Acquire takes or renews the lease for holder. It returns [ErrHeld] while
	// another holder has it.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error)
	// Release gives the lease back. It does nothing for a lease that is no longer held.
	Release(ctx context.Context, l Lease) error
	// Close waits for calls under way and releases the store's files.
	Close() error
}
