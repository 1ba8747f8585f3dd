// Package audit keeps a record of each write, each refusal and each login that failed: who asked,
// from where, for what, and what came of it.
//
// It owns the form of the records, the chain that makes an altered or missing one show, and the
// file that they are in. It never decides who may do what, and never writes to the process's log
// what belongs into a record.
package audit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Outcome is what came of what was asked for.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"    // it was accepted, and is durable
	Refused Outcome = "refused" // the asker may not do it, or it is wrong
	Failed  Outcome = "failed"  // Jibe couldn't do it, or it isn't known whether it is done
)

// Record is one entry. Texts that are too long are cut, and control characters are escaped, when
// it is written: a record is always one line. Nobody puts a secret into one.
type Record struct {
	// Time is when it happened; the zero time is when it is recorded.
	Time time.Time `json:"time"`
	// Identity is the asker's name, "" where nobody is known. Issuer says who vouches for it:
	// "tokens", "host", or the address of an issuer of tokens.
	Identity string `json:"identity,omitempty"`
	Issuer   string `json:"issuer,omitempty"`
	// Source is the asker's address without its port, "" for what comes from the host itself.
	Source string `json:"source,omitempty"`
	// Action is what was asked for, as "POST", "push", "login", "start"; Object is what it
	// concerns: a path of the API, a repository, a file.
	Action string `json:"action"`
	Object string `json:"object,omitempty"`
	// Project is that of the object, "" where it has none.
	Project string  `json:"project,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Status is the HTTP status of the answer, 0 where there is none.
	Status int `json:"status,omitempty"`
	// Reason says why it was refused or failed.
	Reason string `json:"reason,omitempty"`
	// Commit is the commit that was made or received, and Result where what came of it is shown:
	// a path of the API.
	Commit string `json:"commit,omitempty"`
	Result string `json:"result,omitempty"`
	// Omitted is how many records like this one were left out before it: of what strangers
	// cause, only so many are kept.
	Omitted int `json:"omitted,omitempty"`
}

// ErrUnavailable is returned when records can't be kept now. Who is about to change something
// refuses to; the API answers 503.
var ErrUnavailable = errors.New("the audit log can't be written")

// Log takes records. It is safe for concurrent use.
type Log interface {
	// Record returns when the record is durable. Whoever made a change MUST NOT say so before.
	// An error wraps [ErrUnavailable].
	Record(ctx context.Context, r Record) error
	// Ready returns why the next record couldn't be kept, nil if it could: a change is refused
	// before it is made, not afterwards. An error wraps [ErrUnavailable].
	Ready() error
}

// Discard is a [Log] that keeps nothing.
type Discard struct{}

// Record forgets the record.
func (Discard) Record(context.Context, Record) error { return nil }

// Ready is always so.
func (Discard) Ready() error { return nil }

// Memory is a [Log] that keeps records in memory, for tests. Its zero value is empty.
type Memory struct {
	mu      sync.Mutex
	records []Record
}

// Record keeps the record.
func (m *Memory) Record(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, r)
	return nil
}

// Ready is always so.
func (*Memory) Ready() error { return nil }

// Records returns what was recorded, the oldest first.
func (m *Memory) Records() []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records)
}
