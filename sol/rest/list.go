package rest

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

// Marker is the URI parameter that asks for the next page (SOL013 clause 5.4.2.3).
const Marker = "nextpage_opaque_marker"

// Resource is what lists need to know of one type of resource.
type Resource struct {
	// Shape says what selectors may leave out; nil where a list has no selectors.
	Shape *filter.Shape
	// Schema says which attributes there can be; a filter or selector that names another is
	// refused. nil leaves that open.
	Schema *filter.Schema
	// Indexed says which attributes are known before the body of an entry is made, see
	// [filter.Filter.Split]; nil is none.
	Indexed func(path []string) int
}

// Query holds the URI parameters of a list.
type Query struct {
	// Decided is the part of the filter that is decided on what is indexed, Rest what needs the
	// body of an entry. Filter is both.
	Decided      filter.Decided
	Rest, Filter filter.Filter
	// Selector says what is shown; nil where a list has no selectors.
	Selector *filter.Selector
	// After is the position of the last entry seen, "" on the first page.
	After string
	// hidden are the optional attributes of which nothing is shown.
	hidden []string
	form   *Form
}

// ParseQuery reads the URI parameters of a list.
func ParseQuery(r *http.Request, of Resource) (Query, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Query{}, Problem(http.StatusBadRequest, "the query of the URI can't be read: %v", err)
	}
	for name := range q {
		switch name {
		case "filter", Marker:
			if len(q[name]) > 1 {
				return Query{}, Problem(http.StatusBadRequest, "the URI parameter %q is given twice; expressions of a filter are joined by ';'", name)
			}
		case "all_fields", "fields", "exclude_fields", "exclude_default":
			if of.Shape == nil {
				return Query{}, Problem(http.StatusBadRequest, "the URI parameter %q is not supported here", name)
			}
		default:
			return Query{}, Problem(http.StatusBadRequest, "unknown URI parameter %q", name)
		}
	}
	out := Query{form: formOf(r.Context())}
	if out.Filter, err = filter.Parse(q.Get("filter")); err != nil {
		return Query{}, err
	}
	schema := of.Schema
	if schema != nil && out.form != nil {
		schema = schema.Top() // what is below has another form for this client
	}
	if schema != nil {
		if err := out.Filter.Fits(schema); err != nil {
			return Query{}, err
		}
	}
	indexed := of.Indexed
	if indexed == nil {
		indexed = func([]string) int { return 0 }
	}
	out.Decided, out.Rest = out.Filter.Split(indexed)
	after, err := base64.RawURLEncoding.DecodeString(q.Get(Marker))
	if err != nil {
		return Query{}, Problem(http.StatusBadRequest, "the URI parameter %q is none that a list has named", Marker)
	}
	out.After = string(after)
	if of.Shape == nil {
		return out, nil
	}
	s, err := filter.ParseSelector(q, *of.Shape)
	if err != nil {
		return Query{}, err
	}
	if schema != nil {
		if err := s.Fits(schema); err != nil {
			return Query{}, err
		}
	}
	out.Selector = &s
	for _, attr := range of.Shape.Optional {
		if !s.Shows(attr) {
			out.hidden = append(out.hidden, attr)
		}
	}
	return out, nil
}

// Shows says whether anything of an attribute is shown.
func (q *Query) Shows(attr string) bool { return q.Selector == nil || q.Selector.Shows(attr) }

// Wants says whether an attribute is shown, or needed to decide what the index can't.
func (q *Query) Wants(attr string) bool {
	return q.Shows(attr) || slices.Contains(q.Rest.Attributes(), attr)
}

// Droppable is a body of which attributes can be left out. One that isn't Droppable is taken
// apart as JSON for that, which takes longer.
type Droppable interface {
	// Drop removes an attribute that is optional.
	Drop(attr string)
}

// encode returns the body of an entry as it is shown, or nil if the filter rejects it.
func (q *Query) encode(body any) ([]byte, error) {
	whole, droppable := body.(Droppable)
	inParts := q.Selector != nil && (q.Selector.InParts() || !droppable && len(q.hidden) > 0)
	if q.form != nil || inParts || !q.Rest.Empty() {
		m, err := Generic(body)
		if err != nil {
			return nil, err
		}
		if q.form != nil {
			q.form.Answer(m)
		}
		if ok, err := q.Rest.Match(m); err != nil || !ok {
			return nil, err
		}
		switch {
		case q.Selector != nil && (inParts || q.form != nil):
			return json.Marshal(q.Selector.Apply(m))
		case q.form != nil:
			return json.Marshal(m)
		}
	}
	for _, attr := range q.hidden {
		whole.Drop(attr)
	}
	return json.Marshal(body)
}

// Listing is what a list consists of.
type Listing[T any] struct {
	// All are those after the marker for which the index decides that they pass, in order.
	All iter.Seq2[T, error]
	// Position is where an entry stands in the order. It goes into the marker of the next page,
	// and MUST mean the same place whatever entries come and go.
	Position func(T) string
	// Body makes an entry; nil is one that has gone meanwhile.
	Body func(T) (any, error)
}

// List answers with the entries that pass the filter, at most a page of them. Where there
// are more, Link names the next page. Nothing is sent before the first entry is made, and no
// more than a page, or than what one flush takes, is held.
func List[T any](a *API, w http.ResponseWriter, r *http.Request, q *Query, list Listing[T]) error {
	all := list.All
	indexed := q.Rest.Empty()
	if a.config.PageSize > 0 && indexed {
		// What is on the page is known before the first entry is made.
		page, more, err := take(all, a.config.PageSize)
		if err != nil {
			return err
		}
		if more {
			a.linkNext(w, r, list.Position(page[len(page)-1]))
		}
		all = func(yield func(T, error) bool) {
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	out := arrayWriter{w: w, hold: a.config.PageSize > 0 && !indexed}
	last := ""
	for e, err := range all {
		if err != nil {
			return err
		}
		body, err := list.Body(e)
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
		if out.hold && out.entries == a.config.PageSize {
			a.linkNext(w, r, last)
			break
		}
		if err := out.add(text); err != nil {
			return gone(r, err)
		}
		last = list.Position(e)
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
func (a *API) linkNext(w http.ResponseWriter, r *http.Request, position string) {
	values := r.URL.Query()
	values.Set(Marker, base64.RawURLEncoding.EncodeToString([]byte(position)))
	w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>;rel="next"`, a.config.BaseURL, r.URL.EscapedPath(), values.Encode()))
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
