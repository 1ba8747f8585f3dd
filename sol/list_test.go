package sol_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

func ids(t *testing.T, a answer) []string {
	t.Helper()
	var list []map[string]any
	a.json(t, &list)
	out := []string{}
	for _, v := range list {
		out = append(out, v["id"].(string))
	}
	return out
}

func TestAnEmptyListIsAnArray(t *testing.T) {
	e := setup(t)
	for _, path := range []string{"/vnf_instances", "/vnf_lcm_op_occs"} {
		if a := e.want(200, "GET", api+path, ""); string(a.body) != "[]" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

func TestListsShowWhatSelectorsAskFor(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	mandatory := []string{"_links", "id", "instantiationState", "vnfProductName", "vnfProvider", "vnfSoftwareVersion", "vnfdId", "vnfdVersion"}
	byDefault := append([]string{"vnfInstanceName"}, mandatory...)
	all := append([]string{"instantiatedVnfInfo", "metadata", "vimConnectionInfo", "vnfConfigurableProperties"}, byDefault...)
	for query, want := range map[string][]string{
		"":                                     byDefault,
		"?exclude_default":                     byDefault,
		"?all_fields":                          all,
		"?fields=vimConnectionInfo":            append([]string{"vimConnectionInfo"}, mandatory...),
		"?fields=instantiatedVnfInfo/vnfState": append([]string{"instantiatedVnfInfo"}, mandatory...),
		"?exclude_fields=instantiatedVnfInfo,metadata,vnfConfigurableProperties": append([]string{"vimConnectionInfo"}, byDefault...),
		"?fields=vimConnectionInfo&exclude_default":                              append([]string{"vimConnectionInfo"}, byDefault...),
	} {
		var list []map[string]any
		e.want(200, "GET", api+"/vnf_instances"+query, "").json(t, &list)
		if len(list) != 1 || list[0]["id"] != id {
			t.Fatalf("%s: %v", query, list)
		}
		if d := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(list[0]))); d != "" {
			t.Errorf("%s: (-want +got)\n%s", query, d)
		}
	}
	for _, query := range []string{"?all_fields&fields=id", "?fields=a&exclude_fields=b", "?filter=(x", "?filter=(eq,id/x,1)", "?nope=1", "?filter=(eq,id,1)&filter=(eq,id,2)", "?fields=%zz"} {
		e.want(400, "GET", api+"/vnf_instances"+query, "")
	}
	var ops []map[string]any
	e.want(200, "GET", api+"/vnf_lcm_op_occs", "").json(t, &ops)
	if _, ok := ops[0]["operationParams"]; ok || ops[0]["resourceChanges"] != nil || ops[0]["isCancelPending"] != false {
		t.Errorf("%v", ops[0])
	}
}

func TestFiltersReachWhatIsNotShown(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	e.create()
	for query, want := range map[string][]string{
		"(eq,id," + id + ")":                                    {id},
		"(eq,id,nope)":                                          {},
		"(eq,instantiationState,INSTANTIATED)":                  {id},
		"(eq,instantiatedVnfInfo/vnfcInfo/id,VDU1-vdu1-1)":      {id},
		"(eq,vimConnectionInfo/@key,vim1)":                      {id},
		"(eq,vnfInstanceDescription,1)":                         {},
		"(eq,metadata/whatever,1)":                              {},
		"(eq,instantiatedVnfInfo/localizationLanguage,en)":      {},
		"(cont,vnfInstanceName,amf);(eq,vnfProvider,'Company')": ids(t, e.do("GET", api+"/vnf_instances", "")),
	} {
		if d := cmp.Diff(want, ids(t, e.want(200, "GET", api+"/vnf_instances?filter="+url.QueryEscape(query), ""))); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
	for query, says := range map[string]string{
		"filter=(eq,nothing,1)":                              `there is no attribute "nothing"`,
		"filter=(eq,instantiatedVnfInfo/vnfcInfo/nothing,1)": `"instantiatedVnfInfo/vnfcInfo/nothing"`,
		"filter=(eq,instantiatedVnfInfo/vnfcInfo,1)":         "is a structure",
		"filter=(eq,vimConnectionInfo/vim1/nothing,1)":       `"vimConnectionInfo/vim1/nothing"`,
		"filter=(eq,vnfcInfo/id,1)":                          `"vnfcInfo"`,
		"fields=vnfInstanceName,nothing":                     `"nothing"`,
		"fields=vnfInstanceName/below":                       "below a simple value",
		"exclude_fields=instantiatedVnfInfo/nothing":         `"instantiatedVnfInfo/nothing"`,
	} {
		if a := e.want(400, "GET", api+"/vnf_instances?"+query, ""); !strings.Contains(a.detail(t), says) {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	for _, query := range []string{"fields=grantId,error/type", "exclude_fields=resourceChanges/affectedVnfcs/zoneId", "filter=(eq,operationParams/any/thing,1)"} {
		e.want(200, "GET", api+"/vnf_lcm_op_occs?"+query, "")
	}
	e.want(400, "GET", api+"/vnf_lcm_op_occs?fields=vnfdId", "")
	got := ids(t, e.want(200, "GET", api+"/vnf_lcm_op_occs?filter="+url.QueryEscape("(eq,vnfInstanceId,"+id+");(in,operationState,COMPLETED,FAILED)"), ""))
	if len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestPagesTogetherAreTheWholeList walks through pages of several sizes, over
// more entries than are read at once, of which some have no record and one has
// no directory any more.
func TestPagesTogetherAreTheWholeList(t *testing.T) {
	const n = 600
	want := []string{}
	for _, size := range []int{7, 256, 599, 600, -1} {
		e := setup(t, func(c *sol.Config) { c.PageSize = size })
		want = want[:0]
		for i := range n {
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
			rev := e.repo.push(id, "id: "+id+"\nvnfdId: vnfd-1\nstate: notInstantiated\n")
			if i%3 != 0 && i < 590 && size >= 255 || i == 5 {
				if err := e.oplog.Created(t.Context(), id, lcm.VNF{}, rev); err != nil {
					t.Fatal(err)
				}
			}
			if i == 5 {
				if _, err := e.oplog.Born(t.Context(), lcm.Operation{ID: "op", Instance: id, Type: lcm.Terminate, Before: rev, After: rev}); err != nil {
					t.Fatal(err)
				}
				e.repo.push(id, "")
			}
			want = append(want, id)
		}
		var got []string
		pages := 0
		for next := api + "/vnf_instances?filter=" + url.QueryEscape("(eq,vnfdId,vnfd-1)"); next != ""; pages++ {
			a := e.want(200, "GET", next, "")
			page := ids(t, a)
			if size > 0 && len(page) > size || len(page) == 0 {
				t.Fatalf("size %d: a page of %d", size, len(page))
			}
			got = append(got, page...)
			next = nextPage(t, a)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("size %d: %s", size, d)
		}
		if size > 0 && pages != (n+size-1)/size {
			t.Errorf("size %d: %d pages", size, pages)
		}
	}
}

func TestOperationsArePagedToo(t *testing.T) {
	e := setup(t, func(c *sol.Config) { c.PageSize = 2 })
	id := e.create()
	for i := range 5 {
		e.finish(e.begun(e.want(202, "PATCH", api+"/vnf_instances/"+id, fmt.Sprintf(`{"vnfInstanceName": "n%d"}`, i))))
	}
	started := map[string]string{}
	var seen []string
	for next := api + "/vnf_lcm_op_occs"; next != ""; {
		a := e.want(200, "GET", next, "")
		var page []sol.VnfLcmOpOcc
		a.json(t, &page)
		if len(page) > 2 {
			t.Fatalf("a page of %d", len(page))
		}
		for _, op := range page {
			seen, started[op.ID] = append(seen, op.ID), op.StartTime
		}
		next = nextPage(t, a)
	}
	if len(seen) != 5 || !slices.IsSortedFunc(seen, func(x, y string) int { return strings.Compare(started[x], started[y]) }) {
		t.Errorf("%v of %v", seen, started)
	}
	for _, bad := range []string{"nothing", "%25", "bm90aGluZw"} {
		e.want(400, "GET", api+"/vnf_lcm_op_occs?nextpage_opaque_marker="+bad, "")
	}
}

// nextPage is the path of the next page, "" on the last one.
func nextPage(t *testing.T, a answer) string {
	t.Helper()
	link := a.Header.Get("Link")
	if link == "" {
		return ""
	}
	target, ok := strings.CutSuffix(link, `>;rel="next"`)
	if !ok || !strings.HasPrefix(target, "<"+base) {
		t.Fatalf("Link %q", link)
	}
	return strings.TrimPrefix(target, "<"+base)
}

func TestOneLostObjectHidesNoOtherInstance(t *testing.T) {
	e := setup(t)
	lost, sound := e.instantiated(), e.create()
	record, err := e.oplog.Instance(t.Context(), lost)
	if err != nil {
		t.Fatal(err)
	}
	e.repo.mu.Lock()
	delete(e.repo.trees, record.Settled.Tree)
	e.repo.mu.Unlock()

	for _, query := range []string{"", "?exclude_default", "?all_fields", "?filter=(eq,vnfInstanceName,x)"} {
		e.want(200, "GET", api+"/vnf_instances"+query, "")
	}
	all := string(e.want(200, "GET", api+"/vnf_instances?all_fields", "").body)
	one := string(e.want(200, "GET", api+"/vnf_instances/"+lost, "").body)

	if !strings.Contains(all, lost) || !strings.Contains(all, sound) {
		t.Errorf("the list lacks an instance: %s", all)
	}
	for _, body := range []string{all, one} {
		if !strings.Contains(body, "git push origin "+record.Settled.Commit+":refs/heads/recovered") {
			t.Errorf("there is no remedy in %s", body)
		}
	}
}
