package sol

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/jibe-vnfm/jibe/sol/filter"
)

// marker is the URI parameter that asks for the next page (SOL013 clause 5.4.2.3).
const marker = "nextpage_opaque_marker"

// query holds the URI parameters of a list.
type query struct {
	// decided is the part of the filter that the index answers, rest what needs the body of
	// an entry.
	decided filter.Decided
	rest    filter.Filter
	filter  filter.Filter // both
	// selector says what is shown; nil where a list has no selectors.
	selector *filter.Selector
	// hidden are the optional attributes of which nothing is shown.
	hidden []string
	// after is the position of the last entry seen, "" on the first page.
	after string
}

// parseQuery reads the URI parameters of a list. shape is nil where a list has no
// selectors. known says which attributes the index has, see [filter.Filter.Split].
func parseQuery(r *http.Request, shape *filter.Shape, known func(path []string) int) (query, error) {
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
	var out query
	if out.filter, err = filter.Parse(q.Get("filter")); err != nil {
		return query{}, err
	}
	out.decided, out.rest = out.filter.Split(known)
	after, err := base64.RawURLEncoding.DecodeString(q.Get(marker))
	if err != nil {
		return query{}, problem(http.StatusBadRequest, "the URI parameter %q is none that a list has named", marker)
	}
	out.after = string(after)
	if shape == nil {
		return out, nil
	}
	s, err := filter.ParseSelector(q, *shape)
	if err != nil {
		return query{}, err
	}
	out.selector = &s
	for _, attr := range shape.Optional {
		if !s.Shows(attr) {
			out.hidden = append(out.hidden, attr)
		}
	}
	return out, nil
}

// shows says whether anything of an attribute is shown.
func (q *query) shows(attr string) bool { return q.selector == nil || q.selector.Shows(attr) }

// wants says whether an attribute is shown, or needed to decide what the index can't.
func (q *query) wants(attr string) bool {
	return q.shows(attr) || slices.Contains(q.rest.Attributes(), attr)
}

// droppable is a body of which attributes can be left out.
type droppable interface {
	// drop removes an attribute that is optional.
	drop(attr string)
}

// encode returns the body of an entry as it is shown, or nil if the filter rejects it.
func (q *query) encode(body any) ([]byte, error) {
	inParts := q.selector != nil && q.selector.InParts()
	if !inParts && q.rest.Empty() {
		return q.marshal(body)
	}
	m, err := generic(body)
	if err != nil {
		return nil, err
	}
	if ok, err := q.rest.Match(m); err != nil || !ok {
		return nil, err
	}
	if inParts {
		return json.Marshal(q.selector.Apply(m))
	}
	return q.marshal(body)
}

// marshal encodes a body of which whole attributes may be left out.
func (q *query) marshal(body any) ([]byte, error) {
	if v, ok := body.(droppable); ok {
		for _, attr := range q.hidden {
			v.drop(attr)
		}
	}
	return json.Marshal(body)
}

// listing is what a list consists of.
type listing[T any] struct {
	// all are those after the marker for which the index decides that they pass, in order.
	all iter.Seq2[T, error]
	// position is where an entry stands in the order.
	position func(T) string
	// body makes an entry; nil is one that has gone meanwhile.
	body func(T) (any, error)
}

// respond answers with the entries that pass the filter, at most a page of them. Where there
// are more, Link names the next page. Nothing is sent before the first entry is made, and no
// more than a page, or than what one flush takes, is held.
func respond[T any](a *api, w http.ResponseWriter, r *http.Request, q *query, list listing[T]) error {
	all := list.all
	indexed := q.rest.Empty()
	if a.PageSize > 0 && indexed {
		// What is on the page is known before the first entry is made.
		page, more, err := take(all, a.PageSize)
		if err != nil {
			return err
		}
		if more {
			a.linkNext(w, r, list.position(page[len(page)-1]))
		}
		all = func(yield func(T, error) bool) {
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	out := arrayWriter{w: w, hold: a.PageSize > 0 && !indexed}
	last := ""
	for e, err := range all {
		if err != nil {
			return err
		}
		body, err := list.body(e)
		if err != nil {
			return err
		}
		if body == nil {
			continue
		}
		text, err := q.encode(body)
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		if out.hold && out.entries == a.PageSize {
			a.linkNext(w, r, last)
			break
		}
		if err := out.add(text); err != nil {
			return gone(r, err)
		}
		last = list.position(e)
	}
	return gone(r, out.end())
}

// take returns the first n entries, and whether there are more.
func take[T any](all iter.Seq2[T, error], n int) (page []T, more bool, err error) {
	for e, err := range all {
		if err != nil {
			return nil, false, err
		}
		if len(page) == n {
			return page, true, nil
		}
		page = append(page, e)
	}
	return page, false, nil
}

// linkNext names the page that begins after a position.
func (a *api) linkNext(w http.ResponseWriter, r *http.Request, position string) {
	values := r.URL.Query()
	values.Set(marker, base64.RawURLEncoding.EncodeToString([]byte(position)))
	w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>;rel="next"`, a.BaseURL, r.URL.Path, values.Encode()))
}

// gone returns nil instead of the error of a client that has hung up.
func gone(r *http.Request, err error) error {
	if err != nil && r.Context().Err() != nil {
		return nil
	}
	return err
}

// flushAt is how many bytes of a list are gathered before they are sent.
const flushAt = 64 << 10

// arrayWriter writes a JSON array of which it holds no more than what one flush takes.
type arrayWriter struct {
	w http.ResponseWriter
	// hold keeps everything back until the end: headers may still be added.
	hold    bool
	entries int
	buf     []byte
	sent    bool // the header, and what came before buf
}

// add adds an entry.
func (o *arrayWriter) add(text []byte) error {
	if o.entries == 0 {
		o.buf = append(o.buf, '[')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, text...)
	o.entries++
	if o.hold || len(o.buf) < flushAt {
		return nil
	}
	return o.flush()
}

// end completes the array.
func (o *arrayWriter) end() error {
	if o.entries == 0 {
		o.buf = append(o.buf, '[')
	}
	o.buf = append(o.buf, ']')
	return o.flush()
}

func (o *arrayWriter) flush() error {
	if !o.sent {
		o.w.Header().Set("Content-Type", "application/json")
		o.w.WriteHeader(http.StatusOK)
		o.sent = true
	}
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}
