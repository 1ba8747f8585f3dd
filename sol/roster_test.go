package sol_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

// TestFiltersFollowEveryChange compares what filters find, after each of many changes by
// people and by operations, with what single instances show.
func TestFiltersFollowEveryChange(t *testing.T) {
	e := setup(t, func(c *sol.Config) { c.PageSize = 3 })
	r := rand.New(rand.NewPCG(3, 4))
	const n = 8
	id := func(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
	names, vnfds, states := []string{"amf", "smf", "upf"}, []string{"vnfd-1", "vnfd-2"}, []string{"notInstantiated", "instantiated"}
	open := map[string]string{}
	for step := range 250 {
		it := id(r.IntN(n))
		switch k := r.IntN(6); {
		case k < 3: // a person writes the file
			e.repo.push(it, fmt.Sprintf("id: %s\nname: %s\nvnfdId: %s\nstate: %s\n", it, names[r.IntN(3)], vnfds[r.IntN(2)], states[r.IntN(2)]))
		case k == 3: // or removes it
			if _, there := e.repo.Lookup(it); there {
				e.repo.push(it, "")
			}
		case open[it] == "": // an operation begins
			rev, there := e.repo.Lookup(it)
			if !there {
				continue
			}
			record, err := e.oplog.Instance(t.Context(), it)
			if err != nil {
				t.Fatal(err)
			}
			op, err := e.oplog.Born(t.Context(), lcm.Operation{ID: fmt.Sprintf("op-%d", step), Instance: it, Type: lcm.Scale, Before: record.Operated, After: rev})
			if err != nil {
				t.Fatal(err)
			}
			open[it] = op.ID
		default: // and ends
			e.move(open[it], nil, lcm.Converged)
			delete(open, it)
		}
		shown := map[string]sol.VnfInstance{}
		for i := range n {
			if a := e.do("GET", api+"/vnf_instances/"+id(i), ""); a.StatusCode == 200 {
				var in sol.VnfInstance
				a.json(t, &in)
				shown[in.ID] = in
			}
		}
		for _, f := range []struct {
			text  string
			match func(in sol.VnfInstance) bool
		}{
			{"", func(sol.VnfInstance) bool { return true }},
			{"(eq,vnfInstanceName,amf)", func(in sol.VnfInstance) bool { return in.Name == "amf" }},
			{"(eq,vnfdId,vnfd-2)", func(in sol.VnfInstance) bool { return in.VnfdID == "vnfd-2" }},
			{"(eq,instantiationState,INSTANTIATED);(neq,vnfInstanceName,upf)", func(in sol.VnfInstance) bool { return in.InstantiationState == "INSTANTIATED" && in.Name != "upf" }},
			{"(in,id," + id(1) + "," + id(4) + ")", func(in sol.VnfInstance) bool { return in.ID == id(1) || in.ID == id(4) }},
			{"(eq,instantiationState,NOT_INSTANTIATED);(cont,jibe/directory,instances/)", func(in sol.VnfInstance) bool { return in.InstantiationState == "NOT_INSTANTIATED" }},
		} {
			want := []string{}
			for _, in := range shown {
				if f.match(in) {
					want = append(want, in.ID)
				}
			}
			slices.Sort(want)
			got := []string{}
			for next := api + "/vnf_instances?filter=" + url.QueryEscape(f.text); next != ""; {
				a := e.want(200, "GET", next, "")
				got = append(got, ids(t, a)...)
				next = nextPage(t, a)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("step %d, %q: %s", step, f.text, d)
			}
		}
	}
}

// TestAListIsSentAsItIsMade holds that a list of any length needs no more memory than what is
// sent at once, and that what is at head needs no file.
func TestAListIsSentAsItIsMade(t *testing.T) {
	c := newCrowd(t, 3000, 100, -1)
	for _, path := range []string{"/vnf_instances", "/vnf_instances?fields=vnfInstanceName", "/vnf_instances?filter=" + url.QueryEscape("(neq,vnfdVersion,9)")} {
		var w sink
		c.get(t, &w, path)
		if w.status != 200 || w.bytes < 1<<20 || w.largest > 80<<10 || w.writes < w.bytes/(80<<10) {
			t.Errorf("%s: %d, %d bytes in %d writes, the largest of %d", path, w.status, w.bytes, w.writes, w.largest)
		}
	}
	if c.repo.reads != 0 {
		t.Errorf("%d files were read", c.repo.reads)
	}
}
