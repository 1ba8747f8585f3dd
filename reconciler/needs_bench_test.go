package reconciler

import (
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// manyHeads are instances at head, which change one by one.
type manyHeads struct {
	desired.Repo
	byID, byDir map[string]desired.Head
	changes     changed.Feed
}

func (r *manyHeads) put(h desired.Head) {
	r.byID[h.Instance], r.byDir[h.Dir] = h, h
	r.changes.Note(h.Instance)
}

func (r *manyHeads) InDir(dir string) (desired.Head, bool) { h, ok := r.byDir[dir]; return h, ok }

func (r *manyHeads) LookupHead(id string) (desired.Head, bool) { h, ok := r.byID[id]; return h, ok }

func (r *manyHeads) Lookup(id string) (desired.Revision, bool) {
	h, ok := r.byID[id]
	return h.Revision, ok
}

func (r *manyHeads) Heads(string) iter.Seq[desired.Head] {
	return maps.Values(r.byID)
}

func (r *manyHeads) WatchHeads() changed.Take { return r.changes.Watch() }

// BenchmarkAdmissionOfNeeds is what needs add to the admission of one change, and of one removal, in fleets of
// different size: sites of ten instances, each of which needs the one before, and all of them a core.
func BenchmarkAdmissionOfNeeds(b *testing.B) {
	for _, sites := range []int{10, 1000, 10_000} {
		r := &manyHeads{byID: map[string]desired.Head{}, byDir: map[string]desired.Head{}}
		head := func(dir string, needs ...string) desired.Head {
			h := desired.Head{Revision: desired.Revision{Instance: desired.DeriveID(dir), Dir: dir}, State: desired.Instantiated}
			for _, n := range needs {
				h.Needs = append(h.Needs, desired.Need{Instance: n})
			}
			return h
		}
		r.put(head("instances/core"))
		dir := func(site, n int) string { return fmt.Sprintf("instances/site-%d/vnf-%d", site, n) }
		for site := range sites {
			r.put(head(dir(site, 0), "instances/core"))
			for n := 1; n < 10; n++ {
				r.put(head(dir(site, n), "instances/core", dir(site, n-1)))
			}
		}
		db, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"))
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		log, err := oplog.Open(b.Context(), db, time.Now)
		if err != nil {
			b.Fatal(err)
		}
		settings := &desired.Settings{}
		check := &needsCheck{repo: r, dependents: newDependents(r, log)}
		if _, err := check.dependents.needing(b.Context(), "instances/core"); err != nil {
			b.Fatal(err)
		}
		at := func(h desired.Head) *desired.Instance {
			return &desired.Instance{ID: h.Instance, Dir: h.Dir, State: h.State, Needs: h.Needs}
		}
		b.Run(fmt.Sprintf("change/%d", 10*sites), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h := head(dir(3, 9), dir(3, 8))
				r.put(h)
				after := at(h)
				if err := check.with(map[string]*desired.Instance{after.ID: after}).check(b.Context(), settings, nil, after); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("removal/%d", 10*sites), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				before := at(r.byDir[dir(3, 8)])
				r.put(head(dir(4, 9), dir(4, 8)))
				if err := check.with(map[string]*desired.Instance{before.ID: nil}).check(b.Context(), settings, before, nil); err == nil {
					b.Fatal("it isn't refused, although another needs it")
				}
			}
		})
	}
}
