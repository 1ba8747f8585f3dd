package sol

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"sort"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/filter"
)

// marker is the URI parameter that asks for the next page (SOL013 clause 5.4.2.3).
const marker = "nextpage_opaque_marker"

// chunk is how many records are read at once while a page is put together.
const chunk = 256

// instanceShape and operationShape return the attributes that selectors may leave out
// (SOL003 clauses 5.4.2.3.2 and 5.4.12.3.2).
func instanceShape() filter.Shape {
	def := []string{"vnfConfigurableProperties", "vimConnectionInfo", "instantiatedVnfInfo", "metadata", "extensions"}
	return filter.Shape{Default: def, Optional: append([]string{"vnfInstanceName", "vnfInstanceDescription", "jibe"}, def...)}
}

func operationShape() filter.Shape {
	def := []string{"operationParams", "error", "resourceChanges", "changedInfo", "changedExtConnectivity"}
	return filter.Shape{Default: def, Optional: append([]string{"grantId", "cancelMode", "modificationsTriggeredByVnfPkgChange", "vnfSnapshotInfoId"}, def...)}
}

// query holds the URI parameters of a list.
type query struct {
	filter filter.Filter
	// wants says whether an attribute is shown or filtered by.
	wants func(attr string) bool
	// apply reduces an entry to what is shown.
	apply func(map[string]any) map[string]any
	after string
}

// parseQuery reads the URI parameters of a list. shape is nil where a list has no
// selectors.
func parseQuery(r *http.Request, shape *filter.Shape) (query, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, problem(http.StatusBadRequest, "the query of the URI can't be read: %v", err)
	}
	for name := range q {
		switch name {
		case "filter", marker:
		case "all_fields", "fields", "exclude_fields", "exclude_default":
			if shape == nil {
				return query{}, problem(http.StatusBadRequest, "the URI parameter %q is not supported here", name)
			}
		default:
			return query{}, problem(http.StatusBadRequest, "unknown URI parameter %q", name)
		}
	}
	if len(q["filter"]) > 1 {
		return query{}, problem(http.StatusBadRequest, "the URI parameter \"filter\" is given twice; expressions are joined by ';'")
	}
	f, err := filter.Parse(q.Get("filter"))
	if err != nil {
		return query{}, err
	}
	out := query{filter: f, after: q.Get(marker), wants: always, apply: func(m map[string]any) map[string]any { return m }}
	if shape == nil {
		return out, nil
	}
	s, err := filter.ParseSelector(q, *shape)
	if err != nil {
		return query{}, err
	}
	looked := f.Attributes()
	out.wants = func(attr string) bool { return s.Shows(attr) || slices.Contains(looked, attr) }
	out.apply = s.Apply
	return out, nil
}

// loader makes one entry of a list.
type loader func() (any, error)

// page answers with the entries that pass the filter, at most a page of them.
// Where there are more, Link names the next page.
func (a *api) page(w http.ResponseWriter, r *http.Request, q query, entries iter.Seq2[string, loader]) error {
	out := []map[string]any{}
	last := ""
	for id, load := range entries {
		v, err := load()
		if err != nil {
			return err
		}
		m, err := generic(v)
		if err != nil {
			return err
		}
		ok, err := q.filter.Match(m)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if a.PageSize > 0 && len(out) == a.PageSize {
			next := *r.URL
			values := next.Query()
			values.Set(marker, last)
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>;rel="next"`, a.BaseURL, next.Path, values.Encode()))
			break
		}
		out = append(out, q.apply(m))
		last = id
	}
	return reply(w, http.StatusOK, out)
}

// listInstances is GET vnf_instances (clause 5.4.2.3.2), by id.
func (a *api) listInstances(w http.ResponseWriter, r *http.Request) error {
	shape := instanceShape()
	q, err := parseQuery(r, &shape)
	if err != nil {
		return err
	}
	return a.page(w, r, q, func(yield func(string, loader) bool) {
		for k, err := range a.instances(r.Context(), q) {
			if !yield(k.id, func() (any, error) {
				if err != nil {
					return nil, err
				}
				return a.instanceBody(r.Context(), k, q.wants)
			}) {
				return
			}
		}
	})
}

// instances yields the instances that are in git or in the operation log, by id, after q's
// marker. It reads them in chunks, so that the cost of a page doesn't grow with the number
// of instances.
func (a *api) instances(ctx context.Context, q query) iter.Seq2[known, error] {
	return func(yield func(known, error) bool) {
		if id, ok := q.filter.Equals("id"); ok {
			k, err := a.find(ctx, id)
			if id > q.after && (err == nil || statusOf(err) != http.StatusNotFound) {
				yield(k, err)
			}
			return
		}
		heads := a.Repo.List()
		i := sort.Search(len(heads), func(i int) bool { return heads[i].Instance > q.after })
		heads = heads[i:]
		for after := q.after; ; {
			records, err := a.Operations.Instances(ctx, after, chunk)
			if err != nil {
				yield(known{}, err)
				return
			}
			more := len(records) == chunk
			if more {
				after = records[chunk-1].ID
			}
			for len(records) > 0 || len(heads) > 0 {
				k, ok := a.least(&heads, &records)
				if more && k.id > after {
					// A record of the next chunk may come before it.
					heads = append([]desired.Revision{k.head}, heads...)
					break
				}
				if ok && !yield(k, nil) {
					return
				}
				if more && len(records) == 0 && (len(heads) == 0 || heads[0].Instance > after) {
					break
				}
			}
			if !more {
				return
			}
		}
	}
}

// least removes and returns the entry with the least id of two lists that are sorted by
// id. An entry of both lists is removed from both.
func (a *api) least(heads *[]desired.Revision, records *[]*lcm.Instance) (known, bool) {
	h, rs := *heads, *records
	switch {
	case len(rs) == 0 || len(h) > 0 && h[0].Instance < rs[0].ID:
		*heads = h[1:]
		return known{id: h[0].Instance, record: &lcm.Instance{ID: h[0].Instance}, head: h[0], inHead: true}, true
	case len(h) == 0 || rs[0].ID < h[0].Instance:
		*records = rs[1:]
		return known{id: rs[0].ID, record: rs[0]}, rs[0].Open != "" || rs[0].OutstandingCommit != ""
	}
	*heads, *records = h[1:], rs[1:]
	return known{id: rs[0].ID, record: rs[0], head: h[0], inHead: true}, true
}

// listOperations is GET vnf_lcm_op_occs (clause 5.4.12.3.2), by id.
func (a *api) listOperations(w http.ResponseWriter, r *http.Request) error {
	shape := operationShape()
	q, err := parseQuery(r, &shape)
	if err != nil {
		return err
	}
	return a.page(w, r, q, func(yield func(string, loader) bool) {
		for after := q.after; ; {
			ops, err := a.Operations.Operations(r.Context(), after, chunk)
			if err != nil {
				yield("", func() (any, error) { return nil, err })
				return
			}
			for _, op := range ops {
				if !yield(op.ID, func() (any, error) { return a.operationBody(op), nil }) {
					return
				}
			}
			if len(ops) < chunk {
				return
			}
			after = ops[chunk-1].ID
		}
	})
}
