package oplog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// Keep says which ended operations [Log.Prune] leaves. Its zero value keeps all. It is a
// pflag.Value.
type Keep struct {
	// Age is how long an operation is kept after its end; 0 is for ever.
	Age time.Duration
	// PerInstance is how many operations of an instance are kept however old they are: the
	// newest ones, and as many of those that may have changed its package.
	PerInstance int
}

// DefaultKeep is what is kept where nobody says otherwise.
func DefaultKeep() Keep { return Keep{Age: 90 * day, PerInstance: 20} }

const (
	day     = 24 * time.Hour
	keepAll = "all"
)

// Set reads AGE,NUMBER, as 90d,20, or "all". AGE has whole days, or is a Go duration.
func (k *Keep) Set(text string) error {
	if text == keepAll {
		*k = Keep{}
		return nil
	}
	age, number, ok := strings.Cut(text, ",")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if !ok || err != nil || n < 0 {
		return fmt.Errorf("%q: want AGE,NUMBER, as %s, or %s", text, DefaultKeep(), keepAll)
	}
	var d time.Duration
	if days, ok := strings.CutSuffix(strings.TrimSpace(age), "d"); ok {
		var whole int
		if whole, err = strconv.Atoi(days); whole > maxDays {
			return fmt.Errorf("%s: at most %d days; all operations are kept with %s", age, maxDays, keepAll)
		}
		d = time.Duration(whole) * day
	} else {
		d, err = time.ParseDuration(strings.TrimSpace(age))
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want an age above zero, as 90d or 12h", age)
	}
	*k = Keep{d, n}
	return nil
}

// maxDays is about a hundred years.
const maxDays = 36500

// String is what Set reads.
func (k Keep) String() string {
	switch {
	case k.Age <= 0:
		return keepAll
	case k.Age%day == 0:
		return fmt.Sprintf("%dd,%d", k.Age/day, k.PerInstance)
	}
	return fmt.Sprintf("%s,%d", k.Age, k.PerInstance)
}

// Type is what the help calls the value.
func (k Keep) Type() string { return "AGE,NUMBER" }

// pruneBatch is how many operations one Put removes at most, so that other writers wait for
// no more than that.
const pruneBatch = 100

// Prune removes ended operations, with their stories: those that ended longer than keep.Age
// ago and aren't among the newest of their instance. It never removes one that the
// instance's record names, which a successor or an outstanding commit may need. Of an
// instance that is forgotten, the age alone decides. It finds them in the index, and removes
// them in small Puts with pauses between, in which others write. To interrupt it is safe.
func (l *Log) Prune(ctx context.Context, keep Keep) (removed int, err error) {
	if keep.Age <= 0 {
		return 0, nil
	}
	before := l.now().Add(-keep.Age)
	var batch []OperationEntry
	flush := func() error {
		began := time.Now()
		n, err := l.remove(ctx, batch)
		removed += n
		batch = batch[:0]
		if err != nil {
			return err
		}
		select { // at most half of the store's time
		case <-time.After(time.Since(began)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, id := range l.index.ownerIDs() {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		for _, e := range l.index.prunable(id, keep.PerInstance, stamp(before)) {
			batch = append(batch, e)
			if len(batch) == pruneBatch {
				if err := flush(); err != nil {
					return removed, fmt.Errorf("prune operations: %w", err)
				}
			}
		}
	}
	if len(batch) > 0 {
		if err := flush(); err != nil {
			return removed, fmt.Errorf("prune operations: %w", err)
		}
	}
	return removed, nil
}

// ownerIDs returns the instances that have operations.
func (x *index) ownerIDs() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	ids := make([]string, 0, len(x.owners))
	for id := range x.owners {
		ids = append(ids, id)
	}
	return ids
}

// changesPackage says whether operations of the type may change an instance's package. Who
// follows versions learns from the newest of them what was tried in vain.
func changesPackage(t lcm.Type) bool { return t == lcm.ChangePackage || t == lcm.ModifyInfo }

// prunable returns the operations of an instance that ended before the stamp, but for the
// newest and those that its record names.
func (x *index) prunable(instance string, newest int, before int64) []OperationEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.owners[instance]
	if o == nil {
		return nil
	}
	inst, exists := x.instances.Get(instance)
	var out []OperationEntry
	packages := 0
	for n, c := range slices.Backward(o.operations) {
		kept := exists && len(o.operations)-n <= newest
		if exists && changesPackage(c.kind.typ) && packages < newest {
			packages++
			kept = true
		}
		if kept || !c.kind.state.Ended() || c.entered >= before {
			continue
		}
		if id := c.name(); !exists || !slices.Contains([]string{inst.Last, inst.Open, inst.Prepared, inst.Proposed, inst.OutstandingCommit}, id) {
			out = append(out, c.entry())
		}
	}
	slices.Reverse(out)
	return out
}

// remove removes ended operations, all in one Put. Where another writer is at the instance of
// one, it waits for that. It is repeated after a conflict.
func (l *Log) remove(ctx context.Context, entries []OperationEntry) (removed int, err error) {
	var held []string
	for _, e := range entries {
		held = append(held, e.Instance)
	}
	slices.Sort(held)
	var unlock []func()
	defer func() {
		for _, f := range unlock {
			f()
		}
	}()
	// No writer holds one instance while it waits for another, but for this.
	for _, id := range slices.Compact(held) {
		unlock = append(unlock, l.locks.lock(id))
	}
	var gone []store.Record
	err = retry(ctx, func() error {
		var recs []store.Record
		for _, e := range entries {
			for _, prefix := range []string{operationPrefix, historyPrefix} {
				rec, err := l.store.Get(ctx, prefix+e.ID)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				recs = append(recs, store.Record{Key: rec.Key, Version: rec.Version, Delete: true})
			}
		}
		gone = recs
		return l.put(ctx, recs)
	})
	for _, e := range entries {
		l.operations.drop(e.ID)
	}
	if err != nil {
		for _, e := range entries {
			l.reread(context.WithoutCancel(ctx), e)
		}
		return 0, err
	}
	l.shared.own(gone, gone)
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	for _, e := range entries {
		l.index.removeOperation(e)
	}
	return len(entries), nil
}
