package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// files is a desired repository that counts how often it is read.
type files struct {
	of    map[string]*desired.Instance // by tree
	reads int
}

func (f *files) Read(_ context.Context, rev desired.Revision) (*desired.Instance, error) {
	f.reads++
	in, ok := f.of[rev.Tree]
	if !ok {
		return nil, errors.New("away")
	}
	return in, nil
}

func TestAScrapeReadsOnlyTheFilesThatChanged(t *testing.T) {
	repo := &files{of: map[string]*desired.Instance{
		"t1": {}, "t2": {Suspend: true}, "t3": {Held: "op1"}, "t4": {Held: "op1", Suspend: true}, "t5": {Held: "op2"},
	}}
	m := newExemptions(repo)
	look := func(trees ...string) (int, map[string]exemption) {
		var list []desired.Revision
		for i, tree := range trees {
			list = append(list, desired.Revision{Instance: string(rune('a' + i)), Tree: tree})
		}
		return m.read(t.Context(), list)
	}
	for range 3 {
		if suspended, held := look("t1", "t2", "t3"); suspended != 1 || len(held) != 1 || held["c"].held != "op1" {
			t.Fatalf("suspended %d, held %v", suspended, held)
		}
	}
	if repo.reads != 3 {
		t.Errorf("%d reads of 3 files that never changed", repo.reads)
	}
	first := m.of["c"].seen.Add(-time.Hour)
	c := m.of["c"]
	c.seen = first
	m.of["c"] = c
	if suspended, held := look("t1", "t1", "t4"); suspended != 1 || !held["c"].seen.Equal(first) || repo.reads != 5 {
		t.Errorf("suspended %d, held %v after %d reads: the same operation holds it still", suspended, held, repo.reads)
	}
	if _, held := look("t1", "t1", "t5"); held["c"].held != "op2" || held["c"].seen.Equal(first) {
		t.Errorf("held %v: another operation holds it now", held)
	}
	if _, held := look("t1", "t1", "lost"); held["c"].held != "op2" {
		t.Errorf("held %v: what can't be read is what it was", held)
	}
	if suspended, held := look("t2"); suspended != 1 || len(held) != 0 || len(m.of) != 1 {
		t.Errorf("suspended %d, held %v, remembered %v: two instances are gone", suspended, held, m.of)
	}
}
