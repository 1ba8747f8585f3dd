package sol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// bigRepo is a desired.Repo of many instances that are alike, which never change. Lists ask
// it for nothing else.
type bigRepo struct {
	desired.Repo
	heads   []desired.Head
	changes changed.Feed
	reads   int
}

func (r *bigRepo) at(id string) int {
	return sort.Search(len(r.heads), func(i int) bool { return r.heads[i].Instance >= id })
}

func (r *bigRepo) LookupHead(id string) (desired.Head, bool) {
	if i := r.at(id); i < len(r.heads) && r.heads[i].Instance == id {
		return r.heads[i], true
	}
	return desired.Head{}, false
}

func (r *bigRepo) Heads(after string) iter.Seq[desired.Head] {
	heads := r.heads[r.at(after):]
	if len(heads) > 0 && heads[0].Instance == after {
		heads = heads[1:]
	}
	return slices.Values(heads)
}

func (r *bigRepo) WatchHeads() changed.Take { return r.changes.Watch() }

func (r *bigRepo) Read(_ context.Context, rev desired.Revision) (*desired.Instance, error) {
	r.reads++
	h, ok := r.LookupHead(rev.Instance)
	if !ok {
		return nil, desired.ErrNotFound
	}
	return &desired.Instance{ID: h.Instance, Name: h.Name, VnfdID: h.VnfdID, Package: h.Package, State: h.State, Flavour: h.Flavour,
		Metadata: map[string]any{"site": h.Dir}}, nil
}

func (r *bigRepo) Settings() (*desired.Settings, error) {
	return &desired.Settings{VIMs: map[string]*desired.VIM{}}, nil
}

// records fills a store, many records at a time.
type records struct {
	tb      testing.TB
	to      store.Store
	pending []store.Record
}

func (r *records) put(key string, v any) {
	r.tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		r.tb.Fatal(err)
	}
	if r.pending = append(r.pending, store.Record{Key: key, Value: b}); len(r.pending) == 5000 {
		r.end()
	}
}

func (r *records) end() {
	r.tb.Helper()
	if _, err := r.to.Put(r.tb.Context(), r.pending...); err != nil {
		r.tb.Fatal(err)
	}
	r.pending = r.pending[:0]
}

// crowd is the API over instances of which every fifth runs, and operations of which every
// tenth instance has had many.
type crowd struct {
	handler   http.Handler
	repo      *bigRepo
	log       *oplog.Log
	ids       []string
	busy      string // has had the most operations
	operation string
}

func newCrowd(tb testing.TB, instances, operations, pageSize int) *crowd {
	tb.Helper()
	st, err := bolt.Open(filepath.Join(tb.TempDir(), "store.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	c := &crowd{repo: &bigRepo{}}
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	fill := records{tb: tb, to: st}
	for i := range instances {
		id := fmt.Sprintf("%08x-0000-4000-8000-%012d", uint32(i)*2654435761, i)
		c.ids = append(c.ids, id)
		h := desired.Head{Revision: desired.Revision{Instance: id, Dir: fmt.Sprintf("instances/site-%d/amf-%d", i%50, i), Commit: strings.Repeat("c", 40), Tree: fmt.Sprintf("%040d", i)},
			Name: fmt.Sprintf("amf-%d", i), VnfdID: "vnfd-1", Package: tree1, State: desired.NotInstantiated}
		record := lcm.Instance{ID: id, Seq: 1, VNF: lcm.VNF{Name: h.Name, VnfdID: h.VnfdID, Provider: "Company", ProductName: "Sample VNF", SoftwareVersion: "2.0", VnfdVersion: "1.0"}, Operated: h.Revision}
		if i%5 == 0 {
			h.State, h.Flavour = desired.Instantiated, "simple"
			record.Settled = h.Revision
		}
		c.repo.heads = append(c.repo.heads, h)
		fill.put("instance/"+id, record)
	}
	for i := range operations {
		op := lcm.Operation{ID: fmt.Sprintf("%08x-1111-4000-8000-%012d", uint32(i)*2654435761, i), Instance: c.ids[i%max(1, instances/10)], Type: lcm.Scale, State: lcm.Completed,
			Started: at.Add(time.Duration(i) * time.Second), StateEntered: at.Add(time.Duration(i)*time.Second + 500*time.Millisecond),
			Params: []byte(`{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`), UnitsBefore: nil, Attempt: 1}
		op.UnitsAfter = append(op.UnitsAfter, pod("a", "VDU1", "vdu1-1"), pod("b", "VDU2", "vdu2-1"))
		if i%1000 == 7 {
			op.State = lcm.Failed
		}
		c.busy, c.operation = op.Instance, op.ID
		fill.put("operation/"+op.ID, op)
	}
	fill.end()
	slices.SortFunc(c.repo.heads, func(x, y desired.Head) int { return strings.Compare(x.Instance, y.Instance) })
	log, err := oplog.Open(tb.Context(), st, time.Now)
	if err != nil {
		tb.Fatal(err)
	}
	c.log = log
	return c.paged(pageSize)
}

// paged is the same crowd with other pages.
func (c *crowd) paged(size int) *crowd {
	other := *c
	other.handler = sol.New(sol.Config{Config: rest.Config{Auth: auth.Anyone{}, BaseURL: base, PageSize: size}, Repo: c.repo, Operations: c.log, View: newView()})
	return &other
}

// get writes a list to w.
func (c *crowd) get(tb testing.TB, w http.ResponseWriter, path string) {
	r := httptest.NewRequest("GET", base+api+path, nil)
	r.Header.Set("Version", "2.0.0")
	c.handler.ServeHTTP(w, r)
}

// sink takes an answer, and remembers how it came.
type sink struct {
	header         http.Header
	status         int
	bytes, largest int
	writes         int
}

func (s *sink) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(b []byte) (int, error) {
	s.writes++
	s.bytes += len(b)
	s.largest = max(s.largest, len(b))
	return io.Discard.Write(b)
}

func BenchmarkLists(b *testing.B) {
	const instances, operations = 50_000, 63_000
	pages := newCrowd(b, instances, operations, 0)
	whole := pages.paged(-1)
	f := func(s string) string { return "filter=" + url.QueryEscape(s) }
	for _, bm := range []struct {
		name, path string
		of         *crowd
		entries    int
	}{
		{"one by name", "/vnf_instances?" + f("(eq,vnfInstanceName,amf-31337)"), pages, 1},
		{"nothing found", "/vnf_instances?" + f("(eq,vnfInstanceName,nobody)"), pages, 0},
		{"by id", "/vnf_instances?" + f("(eq,id,"+pages.ids[31337]+")"), pages, 1},
		{"a folder", "/vnf_instances?" + f("(cont,jibe/directory,instances/site-7/)"), pages, 1000},
		{"a product", "/vnf_instances?" + f("(eq,vnfProductName,nothing)"), pages, 0},
		{"page by state", "/vnf_instances?" + f("(eq,instantiationState,INSTANTIATED)"), pages, 1000},
		{"page", "/vnf_instances", pages, 1000},
		{"page fields=vnfInstanceName", "/vnf_instances?fields=vnfInstanceName", pages, 1000},
		{"page fields=metadata", "/vnf_instances?fields=metadata", pages, 1000},
		{"page all_fields", "/vnf_instances?all_fields", pages, 1000},
		{"whole list", "/vnf_instances", whole, instances},
		{"operations of one instance", "/vnf_lcm_op_occs?" + f("(eq,vnfInstanceId,"+pages.busy+")"), pages, 12},
		{"operations of one state", "/vnf_lcm_op_occs?" + f("(eq,operationState,FAILED)"), pages, 63},
		{"operations since", "/vnf_lcm_op_occs?" + f("(gt,startTime,2026-11-01T17:29:50Z)"), pages, 9},
		{"operation by id", "/vnf_lcm_op_occs?" + f("(eq,id,"+pages.operation+")"), pages, 1},
		{"page of operations", "/vnf_lcm_op_occs", pages, 1000},
		{"whole list of operations", "/vnf_lcm_op_occs", whole, operations},
	} {
		bm.of.get(b, &sink{}, bm.path) // the first one makes what all use
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var w sink
				bm.of.get(b, &w, bm.path)
				if w.status != 200 {
					b.Fatalf("%s: %d", bm.path, w.status)
				}
			}
			if bm.entries > 100 {
				b.ReportMetric(float64(bm.entries)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			}
		})
	}
}
