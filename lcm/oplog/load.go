package oplog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

const (
	// loadPage is how many records are read at once, so that a start needs little memory.
	loadPage = 1000
	// fillingKey exists while histories are missing in a store that a former version wrote.
	fillingKey = "filling-history"
)

// instanceHead and operationHead are the parts of records that the index needs.
type (
	instanceHead struct {
		ID                string           `json:"id"`
		Seq               uint64           `json:"seq"`
		Open              string           `json:"open"`
		Prepared          string           `json:"prepared"`
		Proposed          string           `json:"proposed"`
		Withdraw          []string         `json:"withdraw"`
		Operated          desired.Revision `json:"operated"`
		Settled           desired.Revision `json:"settled"`
		OutstandingCommit string           `json:"owed"`
		Last              string           `json:"last"`
		LastState         lcm.State        `json:"lastState"`
		VNF               lcm.VNF          `json:"vnf"`
	}
	operationHead struct {
		ID           string    `json:"id"`
		Instance     string    `json:"instance"`
		Type         lcm.Type  `json:"type"`
		State        lcm.State `json:"state"`
		StateEntered time.Time `json:"stateEntered"`
		Started      time.Time `json:"started"`
		Automatic    bool      `json:"automatic"`
		Contended    bool      `json:"fight"`
	}
)

func (h *instanceHead) instance() *lcm.Instance {
	return &lcm.Instance{ID: h.ID, Seq: h.Seq, Open: h.Open, Prepared: h.Prepared, Proposed: h.Proposed, Withdraw: h.Withdraw, Operated: h.Operated, Settled: h.Settled,
		OutstandingCommit: h.OutstandingCommit, Last: h.Last, LastState: h.LastState, VNF: h.VNF}
}

func (h *operationHead) entry() OperationEntry {
	return OperationEntry{ID: h.ID, Instance: h.Instance, Type: h.Type, State: h.State, Automatic: h.Automatic, Contended: h.Contended,
		Started: h.Started, StateEntered: h.StateEntered}
}

// load reads an index from the store: the instances' records, and the histories of
// operations. Only operations that haven't ended are read themselves.
func (l *Log) load(ctx context.Context, x *index) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	named, err := l.loadInstances(ctx, x)
	if err != nil {
		return err
	}
	if err := l.loadOperations(ctx, x, named); err != nil {
		return err
	}
	missing := len(named) > 0
	if !missing {
		if missing, err = l.historyMissing(ctx, x); err != nil {
			return err
		}
	}
	if !missing {
		return nil
	}
	return l.fillHistory(ctx, x)
}

// pages calls f with each page of the records under prefix.
func (l *Log) pages(ctx context.Context, prefix string, f func([]store.Record) error) error {
	for after := ""; ; {
		recs, err := l.store.List(ctx, prefix, after, loadPage)
		if err != nil {
			return fmt.Errorf("list %ss: %w", strings.TrimSuffix(prefix, "/"), err)
		}
		if len(recs) == 0 {
			return nil
		}
		if err := f(recs); err != nil {
			return err
		}
		after = recs[len(recs)-1].Key
	}
}

// putEach is put where other processes may be about to write the same: what they have written
// already is passed over.
func (l *Log) putEach(ctx context.Context, recs []store.Record) error {
	err := l.put(ctx, recs)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	for _, rec := range recs {
		if err := l.put(ctx, []store.Record{rec}); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// put puts what there is.
func (l *Log) put(ctx context.Context, recs []store.Record) error {
	if len(recs) == 0 {
		return nil
	}
	_, err := l.store.Put(ctx, recs...)
	return err
}

// loadInstances returns the operations that the instances name as open or last.
func (l *Log) loadInstances(ctx context.Context, x *index) (named map[string]bool, err error) {
	named = map[string]bool{}
	err = l.pages(ctx, instancePrefix, func(recs []store.Record) error {
		for _, rec := range recs {
			var head instanceHead
			if err := json.Unmarshal(rec.Value, &head); err != nil {
				return fmt.Errorf("instance %s: the record in the store can't be read: %w", strings.TrimPrefix(rec.Key, instancePrefix), err)
			}
			x.putInstance(head.instance())
			for _, id := range []string{head.Open, head.Proposed, head.Last} {
				if id != "" {
					named[id] = true
				}
			}
		}
		return nil
	})
	return named, err
}

// loadOperations takes the operations that have a history out of named.
func (l *Log) loadOperations(ctx context.Context, x *index, named map[string]bool) error {
	var all []*compact
	err := l.pages(ctx, historyPrefix, func(recs []store.Record) error {
		var ends []store.Record
		for _, rec := range recs {
			id := strings.TrimPrefix(rec.Key, historyPrefix)
			e, err := parseLine(id, rec.Value)
			if err != nil {
				return err
			}
			if !e.State.Ended() {
				if e, err = l.readEntry(ctx, id); errors.Is(err, store.ErrNotFound) {
					continue
				} else if err != nil {
					return err
				}
				if e.State.Ended() { // a former version wrote its end
					ends = append(ends, store.Record{Key: rec.Key, Version: rec.Version, Value: e.line()})
				}
			}
			delete(named, id)
			all = append(all, x.compact(e))
		}
		return l.putEach(ctx, ends)
	})
	x.fill(all)
	return err
}

// readEntry reads the entry of an operation from its record.
func (l *Log) readEntry(ctx context.Context, id string) (OperationEntry, error) {
	rec, err := l.store.Get(ctx, operationPrefix+id)
	if err != nil {
		return OperationEntry{}, fmt.Errorf("operation %s: %w", id, err)
	}
	var head operationHead
	if err := json.Unmarshal(rec.Value, &head); err != nil {
		return OperationEntry{}, fmt.Errorf("operation %s: the record in the store can't be read: %w", id, err)
	}
	return head.entry(), nil
}

// historyMissing says whether a former version wrote the store, and this one hasn't yet
// filled it.
func (l *Log) historyMissing(ctx context.Context, x *index) (bool, error) {
	switch _, err := l.store.Get(ctx, fillingKey); {
	case err == nil:
		return true, nil
	case !errors.Is(err, store.ErrNotFound):
		return false, err
	}
	if x.total > 0 {
		return false, nil
	}
	first, err := l.store.List(ctx, operationPrefix, "", 1)
	return len(first) > 0, err
}

// fillHistory writes the histories that a former version didn't write. It may be
// interrupted at any point, and goes on at the next start.
func (l *Log) fillHistory(ctx context.Context, x *index) error {
	l.log.InfoContext(ctx, "operations of a former version get their entries for lists, once; this may take a minute for a million of them")
	began, filled := false, 0
	if _, err := l.store.Get(ctx, fillingKey); err == nil {
		began = true
	}
	err := l.pages(ctx, operationPrefix, func(recs []store.Record) error {
		var put []store.Record
		var entries []OperationEntry
		for _, rec := range recs {
			var head operationHead
			if err := json.Unmarshal(rec.Value, &head); err != nil {
				l.log.WarnContext(ctx, "an operation is left out of lists: its record in the store can't be read", "operation", strings.TrimPrefix(rec.Key, operationPrefix), "error", err)
				continue
			}
			e := head.entry()
			if x.has(e) {
				continue
			}
			entries = append(entries, e)
			put = append(put, store.Record{Key: historyPrefix + e.ID, Value: e.line()})
		}
		if len(put) > 0 && !began {
			began = true
			put = append(put, store.Record{Key: fillingKey, Value: []byte("true")})
		}
		if err := l.putEach(ctx, put); err != nil {
			return err
		}
		for _, e := range entries {
			x.putOperation(e)
		}
		filled += len(entries)
		return nil
	})
	if err != nil {
		return err
	}
	if rec, err := l.store.Get(ctx, fillingKey); err == nil {
		if err := l.putEach(ctx, []store.Record{{Key: fillingKey, Version: rec.Version, Delete: true}}); err != nil {
			return err
		}
	}
	l.log.InfoContext(ctx, "operations of a former version have got their entries for lists", "operations", filled)
	return nil
}

// apply takes a batch that is durable over into the index, and then lets readers see it, as it is stored.
func (l *Log) apply(b *batch, stored []store.Record) {
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	for _, inst := range b.instances {
		l.index.putInstance(inst)
	}
	for _, id := range b.forgotten {
		l.index.removeInstance(id)
	}
	for _, op := range b.operations {
		l.index.putOperation(entryOfOperation(op))
	}

	l.shown.Lock()
	defer l.shown.Unlock()
	for _, f := range b.kept {
		f(stored)
	}
}

// reindex reads what became of a batch of which that isn't known. What can't be read stays
// as it was in the index.
func (l *Log) reindex(ctx context.Context, b *batch) {
	for _, f := range b.dropped {
		f()
	}
	ids := b.forgotten
	for _, inst := range b.instances {
		ids = append(ids, inst.ID)
	}
	for _, id := range ids {
		inst, err := l.instances.get(ctx, id)
		l.index.mu.Lock()
		switch {
		case err == nil:
			l.index.putInstance(inst)
		case errors.Is(err, store.ErrNotFound):
			l.index.removeInstance(id)
		}
		l.index.mu.Unlock()
	}
	for _, op := range b.operations {
		l.reread(ctx, entryOfOperation(op))
	}
}

// reread reads what became of an operation.
func (l *Log) reread(ctx context.Context, e OperationEntry) {
	is, err := l.readEntry(ctx, e.ID)
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	switch {
	case err == nil:
		l.index.putOperation(is)
	case errors.Is(err, store.ErrNotFound):
		l.index.removeOperation(e)
	}
}
