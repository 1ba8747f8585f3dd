// Package store is the contract for what git and the VIM cannot keep: operation
// records, subscriptions, and leases.
//
// A store keeps versioned records under string keys. It doesn't know what the values
// mean. Implementations are below this package (store/bolt, store/redis) and pass
// one suite (store/storetest).
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
	// Version is 0 for a record that doesn't exist, and grows by 1 with each Put. That of a
	// record that is made is the store's to say, and is what Put returns: it is greater than any
	// that the key had before. So who has read a record that was removed and came again since
	// meets [ErrConflict]. A key that the store completes never comes again, and begins with 1.
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
	// Session is the name of the lease with which this one lasts, "" for one that is renewed
	// by itself; see [Store.Attach]. Expires is the session's as it was when the lease was
	// taken, and says nothing about later renewals.
	Session string
}

// Mark is a place in the order of a store's Puts.
type Mark struct {
	// Epoch grows when the store has lost Puts that it had answered, or can't tell. What was
	// read in a former epoch says nothing about what is stored.
	Epoch uint64
	// Put grows by 1 with each Put that wrote, within an epoch.
	Put uint64
}

// Before says whether m is an earlier place than other.
func (m Mark) Before(other Mark) bool {
	return m.Epoch < other.Epoch || m.Epoch == other.Epoch && m.Put < other.Put
}

// Change tells of a record that was put.
type Change struct {
	Key     string
	Version uint64 // 0 for a record that was removed
}

// Errors that callers decide on.
var (
	// ErrNotFound is returned by Get for a key without a record.
	ErrNotFound = errors.New("record not found")
	// ErrConflict is returned by Put when a record's version isn't the stored version.
	// Nothing was written.
	ErrConflict = errors.New("record was changed by someone else")
	// ErrHeld is returned by Acquire and Attach when another holder's lease hasn't expired.
	ErrHeld = errors.New("lease is held by another process")
	// ErrFenced is returned by a Put [Under] a lease that its holder no longer has, and by
	// Attach to a session that has ended. Nothing was written. To repeat it is useless: another
	// holder may be at work.
	ErrFenced = errors.New("the lease was lost")
	// ErrLost is returned by Changes where the store no longer knows all that was put since.
	// The caller takes a new Mark, reads everything again, and goes on behind that Mark.
	ErrLost = errors.New("what changed since is no longer known")
	// ErrUnavailable is returned while the store can't be reached, or takes no writes. A Put may
	// have been written nevertheless, where its error says that this isn't known: whoever
	// repeats it reads first.
	ErrUnavailable = errors.New("the store is unavailable")
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
	// the records as stored, keys completed and versions raised. Where ctx is [Under] a
	// lease, they are written only while that is held, else it returns [ErrFenced].
	Put(ctx context.Context, recs ...Record) ([]Record, error)
	// Acquire takes or renews the lease for holder. It returns [ErrHeld] while
	// another holder has it.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error)
	// Attach takes the lease under name for the holder of session, a lease that was acquired.
	// It lasts as long as the session is held, whose renewals are its own: whoever holds
	// thousands of leases renews one. To attach it again keeps its token. Attach returns
	// [ErrHeld] while another session has the lease, and [ErrFenced] where session is no
	// longer held.
	Attach(ctx context.Context, name string, session Lease) (Lease, error)
	// Release gives the lease back, and with a session all that is attached to it. It does
	// nothing for a lease that is no longer held.
	Release(ctx context.Context, l Lease) error
	// Leases returns, in order of name, the leases held that were acquired, not attached,
	// and whose name starts with prefix.
	Leases(ctx context.Context, prefix string) ([]Lease, error)
	// Mark returns the place of the newest Put, which isn't behind anything that was read before.
	Mark(ctx context.Context) (Mark, error)
	// Changes returns what was put after a [Mark], by whomever, in the order of the Puts,
	// and the Mark to go on behind. It waits until there is something, or ctx ends. A record
	// that was put twice may be told of once. It returns [ErrLost] where too much was put
	// since, or in another epoch.
	Changes(ctx context.Context, after Mark) ([]Change, Mark, error)
	// Close waits for calls under way and releases the store's files.
	Close() error
}

type leaseKey struct{}

// Under returns a context whose Puts are made under a lease: the store checks, in the
// transaction of the Put itself, that the lease is still held with its token. So a process
// that slept past its lease can't write over what the next holder has written.
func Under(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseOf returns the lease that ctx is [Under], if it is under one.
func LeaseOf(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok
}
