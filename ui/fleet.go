package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/natural"
)

// perPage is how many cells a page of the fleet has.
const perPage = 240

// mostChoices is how many values a field of the filter offers.
const mostChoices = 300

// The ways to group the fleet's cells.
const (
	groupFolder  = "folder"
	groupState   = "state"
	groupPackage = "package"
	groupVIM     = "vim"
)

// fleetFilter picks cells. A field that is empty picks all.
type fleetFilter struct {
	// Text is looked for in all that is known of an instance: each word must be there. A word
	// "name:amf" is looked for in that field alone.
	Text string
	// Folder is a folder of sites, or one above them.
	Folder, State, Package, Version, VIM string
	// Older picks those that run an older version of their package than others do.
	Older bool
	Group string
	Page  int
}

func filterOf(q url.Values) fleetFilter {
	f := fleetFilter{Text: strings.TrimSpace(q.Get("q")), Folder: strings.Trim(strings.TrimSpace(q.Get("folder")), "/"), State: q.Get("state"),
		Package: strings.TrimSpace(q.Get("package")), Version: strings.TrimSpace(q.Get("version")), VIM: strings.TrimSpace(q.Get("vim")), Older: q.Get("older") != "", Group: q.Get("group")}
	if !slices.Contains([]string{groupState, groupPackage, groupVIM}, f.Group) {
		f.Group = groupFolder
	}
	f.Page, _ = strconv.Atoi(q.Get("page"))
	f.Page = max(f.Page, 1)
	return f
}

// query is the filter as it stands behind "?" of a link.
func (f fleetFilter) query() string {
	q := url.Values{}
	for key, value := range map[string]string{"q": f.Text, "folder": f.Folder, "state": f.State, "package": f.Package, "version": f.Version, "vim": f.VIM} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.Older {
		q.Set("older", "1")
	}
	if f.Group != groupFolder {
		q.Set("group", f.Group)
	}
	if f.Page > 1 {
		q.Set("page", strconv.Itoa(f.Page))
	}
	return q.Encode()
}

// link is the fleet with the filter.
func (f fleetFilter) link() string {
	if q := f.query(); q != "" {
		return Root + "/?" + q
	}
	return Root + "/"
}

// match says whether the filter picks a cell whatever its state. words are those of Text.
func (f *fleetFilter) match(c *cell, words []string) bool {
	if f.Folder != "" && c.Site != f.Folder && !strings.HasPrefix(c.Site, f.Folder+"/") ||
		f.Package != "" && c.Package != f.Package && c.VnfdID != f.Package ||
		f.Version != "" && c.Version != f.Version || f.VIM != "" && c.VIM != f.VIM {
		return false
	}
	for _, word := range words {
		if !c.has(word) {
			return false
		}
	}
	return true
}

// has says whether a word of a search is in the cell.
func (c *cell) has(word string) bool {
	field, rest, ok := strings.Cut(word, ":")
	if ok && rest != "" {
		in, known := "", true
		switch field {
		case "name":
			in = c.Name
		case "folder", "dir":
			in = c.Dir
		case "id":
			in = c.ID
		case "state":
			in = string(c.Health)
		case "package":
			in = c.Package + " " + c.VnfdID
		case "version":
			in = c.Version
		case "vim":
			in = c.VIM
		case "description":
			in = c.Description
		default:
			known = false
		}
		if known {
			return strings.Contains(strings.ToLower(in), rest)
		}
	}
	return strings.Contains(c.text, word)
}

// group is cells that stand together under one heading.
type group struct {
	Name string
	// All are the instances of the group on all pages, by health.
	All   int
	Marks []mark
	Cells []*cell
	// Link leads to the group alone.
	Link string
}

// mark is how many instances have a health.
type mark struct {
	Health Health
	Count  int
	Link   string
	On     bool
}

// fleetPage is what the fleet's template shows.
type fleetPage struct {
	Filter fleetFilter
	// All are the instances that the caller sees, and Found those that the filter picks.
	All, Found int
	Marks      []mark
	// Older is how many of those that the filter picks otherwise run an older version of their package than
	// others do, and OlderLink leads to them, or back to all.
	Older       int
	OlderLink   string
	outdated    map[versionOf]string
	Groups      []group
	First, Last int // of the cells on the page, from 1
	Pages       int
	Previous    string
	Next        string
	// Folders, Packages, Versions and VIMs are what the filter's fields offer.
	Folders, Packages, Versions, VIMs []string
	Cleared                           string
	// Problems are those of no instance, as many as the page has room for, and MoreProblems how many others there are; only
	// for who sees all instances.
	Problems     []desired.Problem
	MoreProblems int
}

// mostProblems is how many problems of no instance the page shows.
const mostProblems = 3

// States are all states, for the filter.
func (fleetPage) States() []Health { return healths() }

// showFleet shows the instances that the caller sees.
func (s *Service) showFleet(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r)
	if err != nil {
		return err
	}
	cells := s.fleet.now()
	if !scope.Everything() {
		cells = slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool { return !scope.Sees(c.place()) })
	}
	f := filterOf(r.URL.Query())
	if r.Header.Get(liveHeader) == "" && r.URL.Query().Has("group") && f.query() != r.URL.RawQuery {
		// What a form has sent, with all its empty fields: an address that can be kept is shorter.
		http.Redirect(w, r, f.link(), http.StatusSeeOther)
		return nil
	}
	page := pageOf(cells, f)
	if scope.Everything() {
		page.Problems = s.fleet.ofNone()
		page.MoreProblems = max(0, len(page.Problems)-mostProblems)
		page.Problems = page.Problems[:min(len(page.Problems), mostProblems)]
	}
	return s.render(w, r, "fleet", page)
}

// pageOf picks a page of the cells, which are in the order of [byPlace].
func pageOf(cells []*cell, f fleetFilter) *fleetPage {
	p := &fleetPage{Filter: f, All: len(cells), Cleared: fleetFilter{Group: f.Group}.link(), outdated: outdated(cells)}
	words := strings.Fields(strings.ToLower(f.Text))
	counts := map[Health]int{}
	var found []*cell
	for _, c := range cells {
		if !f.match(c, words) {
			continue
		}
		older := p.NewerThan(c) != ""
		if older && (f.State == "" || string(c.Health) == f.State) {
			p.Older++
		}
		if f.Older && !older {
			continue
		}
		counts[c.Health]++
		if f.State == "" || string(c.Health) == f.State {
			found = append(found, c)
		}
	}
	for _, h := range healths() {
		with := f
		with.State, with.Page = string(h), 1
		on := f.State == string(h)
		if on {
			with.State = ""
		}
		if counts[h] > 0 || on {
			p.Marks = append(p.Marks, mark{h, counts[h], with.link(), on})
		}
	}
	with := f
	with.Older, with.Page = !f.Older, 1
	p.OlderLink = with.link()
	if f.Group != groupFolder {
		slices.SortStableFunc(found, func(a, b *cell) int { return natural.Compare(f.groupOf(a), f.groupOf(b)) })
	}
	p.Found = len(found)
	p.Pages = max(1, (len(found)+perPage-1)/perPage)
	p.Filter.Page = min(f.Page, p.Pages)
	begin := (p.Filter.Page - 1) * perPage
	end := min(begin+perPage, len(found))
	p.First, p.Last = min(begin+1, end), end
	if at := p.Filter; at.Page > 1 {
		at.Page--
		p.Previous = at.link()
	}
	if at := p.Filter; at.Page < p.Pages {
		at.Page++
		p.Next = at.link()
	}
	p.Groups = groups(found, begin, end, f)
	p.offer(cells)
	return p
}

// groupOf is what a cell is grouped by, so that groups stand in the order of their keys.
func (f *fleetFilter) groupOf(c *cell) string {
	switch f.Group {
	case groupState:
		return strconv.Itoa(slices.Index(healths(), c.Health))
	case groupPackage:
		return cmp.Or(c.Package, "no package") + " " + c.Version
	case groupVIM:
		return cmp.Or(c.VIM, "default VIM")
	}
	return c.Site
}

// groups are those of the cells on a page, from begin to before end of all that were found.
func groups(found []*cell, begin, end int, f fleetFilter) []group {
	var list []group
	for at := begin; at < end; {
		key := f.groupOf(found[at])
		from, to := at, at+1
		for to < len(found) && f.groupOf(found[to]) == key {
			to++
		}
		for from > 0 && f.groupOf(found[from-1]) == key { // what of it is on earlier pages
			from--
		}
		g := group{Name: key, All: to - from, Cells: found[at:min(to, end)]}
		with := f
		with.Page = 1
		switch f.Group {
		case groupState:
			h := found[at].Health
			g.Name, with.State = h.Words(), string(h)
		case groupPackage:
			with.Package, with.Version = found[at].Package, found[at].Version
		case groupVIM:
			with.VIM = found[at].VIM
		default:
			with.Folder = strings.Trim(key, "/")
		}
		g.Link = with.link()
		if f.Group != groupState {
			counts := map[Health]int{}
			for _, c := range found[from:to] {
				counts[c.Health]++
			}
			for _, h := range healths() {
				if counts[h] > 0 {
					g.Marks = append(g.Marks, mark{Health: h, Count: counts[h]})
				}
			}
		}
		list = append(list, g)
		at = to
	}
	return list
}

// offer gathers what the filter's fields offer.
func (p *fleetPage) offer(cells []*cell) {
	folders, packages, versions, vims := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range cells {
		folders[c.Site], packages[c.Package], versions[c.Version], vims[c.VIM] = true, true, true, true
	}
	p.Folders, p.Packages, p.Versions, p.VIMs = choices(folders), choices(packages), choices(versions), choices(vims)
}

func choices(set map[string]bool) []string {
	delete(set, "")
	list := make([]string, 0, len(set))
	for v := range set {
		list = append(list, v)
	}
	slices.SortFunc(list, natural.Compare)
	return list[:min(len(list), mostChoices)]
}
