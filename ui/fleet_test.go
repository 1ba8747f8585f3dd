package ui

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// many are cells in sites of 50, each state of health among them.
func many(n int) []*cell {
	list := make([]*cell, n)
	for i := range list {
		h := HealthRunning
		if i%17 == 0 {
			h = healths()[i/17%len(healths())]
		}
		c := &cell{ID: fmt.Sprintf("3a5c1f0e-0000-4000-8000-%012x", i), Name: fmt.Sprintf("upf-%05d", i), Site: fmt.Sprintf("region-%02d/site-%04d", i/1000, i/50), Health: h,
			Package: "UPF", Version: fmt.Sprintf("1.%d", i%3), VnfdID: "b1bb0ce7", VIM: fmt.Sprintf("k8s-%d", i/500)}
		c.Dir = "instances/" + c.Site + "/" + c.Name
		c.text = strings.ToLower(c.Name + "\x00" + c.Dir + "\x00" + c.Package + "\x00" + c.Version + "\x00" + c.VIM)
		list[i] = c
	}
	return list
}

func TestTheFilterPicksByEachField(t *testing.T) {
	cells := many(1000)
	for query, want := range map[string]int{
		"":                               1000,
		"q=upf-00012":                    1,
		"q=UPF-0001+site-0000":           10,
		"q=name:upf-0001":                10,
		"q=folder:site-0003":             50,
		"q=version:1.0+folder:site-0000": 17,
		"q=nothing:here":                 0,
		"folder=region-00":               1000,
		"folder=region-00/site-0001/":    50,
		"folder=region-0":                0, // no folder, though the beginning of one's name
		"version=1.1":                    333,
		"vim=k8s-1":                      500,
		"package=UPF&vim=k8s-0":          500,
		"package=AMF":                    0,
		"state=failed":                   7,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if p := pageOf(cells, filterOf(q)); p.Found != want || p.All != 1000 {
			t.Errorf("%q finds %d of %d, want %d", query, p.Found, p.All, want)
		}
	}
}

func TestInstancesOfAnOlderVersionThanOthersOfTheirPackageAreMarkedAndFound(t *testing.T) {
	of := func(id, pkg, version string) *cell {
		return &cell{ID: id, Name: id, Site: "a", Package: pkg, Version: version, Health: HealthRunning}
	}
	cells := []*cell{of("1", "amf", "1.10"), of("2", "amf", "1.9"), of("3", "amf", "1.10.0"), of("4", "upf", "2.0.0-rc.1"), of("5", "upf", "2.0.0"),
		of("6", "dns", "bookworm-9"), of("7", "dns", "bookworm-11"), of("8", "old", "0.1"), of("9", "", "3"), of("10", "", "4"), of("11", "amf", "")}
	p := pageOf(cells, filterOf(url.Values{}))
	got := map[string]string{}
	for _, c := range cells {
		if by := p.NewerThan(c); by != "" {
			got[c.ID] = by
		}
	}
	if want := map[string]string{"2": "1.10", "4": "2.0.0", "6": "bookworm-11"}; !maps.Equal(got, want) {
		t.Errorf("older are %v, want %v", got, want)
	}
	q, err := url.ParseQuery(strings.TrimPrefix(p.OlderLink, Root+"/?"))
	if err != nil {
		t.Fatal(err)
	}
	if older := pageOf(cells, filterOf(q)); p.Older != 3 || older.Found != 3 || older.Older != 3 || older.OlderLink != Root+"/" {
		t.Errorf("%d are older; %q finds %d, and leads back to %q", p.Older, p.OlderLink, older.Found, older.OlderLink)
	}
	if one := pageOf(cells, filterOf(url.Values{"package": {"amf"}, "version": {"1.9"}})); one.Older != 1 {
		t.Errorf("of those that the filter picks %d are older, though the newer one isn't picked, want 1", one.Older)
	}
}

func TestPagesHaveEachInstanceOnce(t *testing.T) {
	cells := many(2*perPage + 37)
	for _, by := range []string{groupFolder, groupState, groupPackage, groupVIM} {
		seen := map[string]int{}
		for n := 1; ; n++ {
			p := pageOf(cells, filterOf(url.Values{"page": {fmt.Sprint(n)}, "group": {by}}))
			shown := 0
			for _, g := range p.Groups {
				shown += len(g.Cells)
				for _, c := range g.Cells {
					seen[c.ID]++
				}
				if g.All < len(g.Cells) {
					t.Errorf("by %s: group %s has %d instances, and shows %d", by, g.Name, g.All, len(g.Cells))
				}
			}
			if shown != p.Last-p.First+1 || shown > perPage {
				t.Errorf("by %s: page %d shows %d cells, and says %d to %d", by, n, shown, p.First, p.Last)
			}
			if p.Next == "" {
				if n != p.Pages || n != 3 {
					t.Errorf("by %s: there are %d pages, and it says %d", by, n, p.Pages)
				}
				break
			}
		}
		if len(seen) != len(cells) {
			t.Errorf("by %s: %d of %d instances are on the pages", by, len(seen), len(cells))
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("by %s: %s is shown %d times", by, id, times)
			}
		}
	}
	p := pageOf(cells, filterOf(url.Values{"page": {"9999"}}))
	if p.Filter.Page != 3 || p.Found == 0 {
		t.Errorf("behind the last page is page %d", p.Filter.Page)
	}
}

func TestLinksOfTheFilterLeadToWhatTheyCount(t *testing.T) {
	cells := many(1000)
	p := pageOf(cells, filterOf(url.Values{"vim": {"k8s-1"}}))
	for _, m := range p.Marks {
		_, query, _ := strings.Cut(m.Link, "?")
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := pageOf(cells, filterOf(q)); got.Found != m.Count {
			t.Errorf("%s says %d, and leads to %d", m.Health, m.Count, got.Found)
		}
	}
	for _, g := range p.Groups {
		_, query, _ := strings.Cut(g.Link, "?")
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := pageOf(cells, filterOf(q)); got.Found != g.All {
			t.Errorf("%s says %d, and leads to %d", g.Name, g.All, got.Found)
		}
	}
}

// drawn is a service that can draw pages, and no more.
func drawn(t testing.TB) *Service {
	t.Helper()
	s := &Service{sessions: newSessions(time.Hour, time.Hour, time.Now)}
	var err error
	if s.static, err = newStatic(); err != nil {
		t.Fatal(err)
	}
	if s.pages, err = s.parse(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEachPageTellsTheBrowserWhatItMayDo(t *testing.T) {
	for name, page := range drawn(t).pages {
		var text strings.Builder
		for _, part := range page.Templates() {
			if part.Tree != nil {
				text.WriteString(part.Tree.Root.String())
			}
		}
		for _, inline := range []string{"style=", "onclick=", "<style", "onload=", "javascript:"} {
			if strings.Contains(text.String(), inline) {
				t.Errorf("%s.html has %q, which the policy forbids", name, inline)
			}
		}
		if strings.Count(text.String(), "<script") != 1 {
			t.Errorf("%s.html has another script than the page's own", name)
		}
	}
}

// BenchmarkFleet is what the server works for one page of a fleet of 10,000 instances.
func BenchmarkFleet(b *testing.B) {
	s, cells := drawn(b), many(10_000)
	for name, query := range map[string]string{"first page": "", "search": "q=site-0100", "by state": "group=state"} {
		b.Run(name, func(b *testing.B) {
			q, err := url.ParseQuery(query)
			if err != nil {
				b.Fatal(err)
			}
			size := 0
			for b.Loop() {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(b.Context(), "GET", "/ui/?"+query, nil)
				if err := s.render(w, r, "fleet", pageOf(cells, filterOf(q))); err != nil {
					b.Fatal(err)
				}
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}

func TestAFewChangedCellsAreFoundInTheirPlaces(t *testing.T) {
	f := &fleet{cells: map[string]*cell{}}
	for _, c := range many(500) {
		f.cells[c.ID] = c
		f.ordered = append(f.ordered, c)
	}
	slices.SortFunc(f.ordered, byPlace)
	was := slices.Clone(f.ordered)
	read := f.ordered // by a page that is being drawn
	ids := []string{f.ordered[3].ID, f.ordered[77].ID, f.ordered[499].ID, "a-new-one"}
	renamed, moved := *f.cells[ids[0]], *f.cells[ids[1]]
	renamed.Name, moved.Site = "upf-9", "region-00/site-2"
	f.cells[ids[0]], f.cells[ids[1]] = &renamed, &moved
	delete(f.cells, ids[2])
	f.cells[ids[3]] = &cell{ID: ids[3], Name: "upf-10", Site: "region-00/site-2"}
	f.reorder(ids)
	want := slices.SortedFunc(maps.Values(f.cells), byPlace)
	if !slices.Equal(f.ordered, want) {
		t.Error("cells that have changed don't stand where sorting all would have them")
	}
	if !slices.Equal(read, was) {
		t.Error("the order that a page reads was altered")
	}
}

func TestCellsAndChoicesStandAsPeopleCount(t *testing.T) {
	var cells []*cell
	for _, site := range []string{"edge-11", "edge-2"} {
		for _, n := range []int{11, 2, 101, 1} {
			cells = append(cells, &cell{ID: fmt.Sprint(site, n), Name: fmt.Sprintf("upf-%d", n), Site: site, Version: fmt.Sprintf("1.%d", n), Package: "UPF", VIM: fmt.Sprintf("k8s-%d", n)})
		}
	}
	slices.SortFunc(cells, byPlace)
	p := pageOf(cells, filterOf(nil))
	var names []string
	for _, g := range p.Groups {
		for _, c := range g.Cells {
			names = append(names, g.Name+"/"+c.Name)
		}
	}
	want := "edge-2/upf-1 edge-2/upf-2 edge-2/upf-11 edge-2/upf-101 edge-11/upf-1 edge-11/upf-2 edge-11/upf-11 edge-11/upf-101"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the cells stand as\n%s, want\n%s", got, want)
	}
	if got := strings.Join(p.Versions, " ") + "; " + strings.Join(p.Folders, " ") + "; " + strings.Join(p.VIMs, " "); got != "1.1 1.2 1.11 1.101; edge-2 edge-11; k8s-1 k8s-2 k8s-11 k8s-101" {
		t.Errorf("the filter offers %s", got)
	}
	for by, want := range map[string]string{groupVIM: "k8s-1 k8s-2 k8s-11 k8s-101", groupPackage: "UPF 1.1 UPF 1.2 UPF 1.11 UPF 1.101"} {
		var got []string
		for _, g := range pageOf(cells, filterOf(url.Values{"group": {by}})).Groups {
			got = append(got, g.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("groups by %s stand as %s, want %s", by, strings.Join(got, " "), want)
		}
	}
}
