package published

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Answer is what a server answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Answer holds an answer to the request against all descriptions of the interface, where
// they are at hand: its status, its headers, and its body by the schema. path is the path
// below the interface's root. added are attributes that no edition knows and that may be
// there, such as "/instantiatedVnfInfo/metadata", with the reason. held says whether some
// edition describes the resource and all of the answer was held against it.
func (i Interface) Answer(path string, r *http.Request, a Answer, added map[string]string) (held bool, err error) {
	if strings.Contains(r.URL.RawQuery, "fields=") {
		return false, nil // parts of structures are asked for: no schema describes them
	}
	editions, err := i.Editions()
	if err != nil {
		return false, err
	}
	unknown := map[string]int{}
	for _, edition := range editions {
		ok, more, err := described(edition.T, path, r.Method, a)
		if err != nil {
			return false, fmt.Errorf("%s: %w", edition.Name, err)
		}
		held = held || ok
		slices.Sort(more)
		for _, name := range slices.Compact(more) {
			unknown[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		if _, known := added[name]; !known && unknown[name] == len(editions) {
			return false, fmt.Errorf("no edition knows the attribute %s, and it isn't one of those that are added", name)
		}
	}
	return held, nil
}

// Request holds a request's body, as JSON, against all descriptions of the interface. held
// says whether some edition describes such a body.
func (i Interface) Request(method, path string, body []byte) (held bool, err error) {
	editions, err := i.Editions()
	if err != nil {
		return false, err
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return false, fmt.Errorf("a body that isn't JSON: %w", err)
	}
	unknown := map[string]int{}
	describe := 0
	for _, edition := range editions {
		op := operationFor(edition.T, method, path)
		if op == nil || op.RequestBody == nil {
			continue // a file may forget one: v3.3.1 has no CancelMode
		}
		media := jsonOf(op.RequestBody.Value.Content)
		if media == nil {
			continue
		}
		describe++
		if err := Holds(media.Schema.Value, v, openapi3.DisablePatternValidation()); err != nil {
			return false, fmt.Errorf("%s: %w", edition.Name, err)
		}
		names := Unknown(media.Schema.Value, v)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			unknown[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		if unknown[name] == describe {
			return false, fmt.Errorf("no edition knows the attribute %s of the request", name)
		}
	}
	return describe > 0, nil
}

// Operations are the methods and paths that the first edition of the interface describes,
// as "GET /vnf_instances/{vnfInstanceId}", sorted; none where it isn't there.
func (i Interface) Operations() ([]string, error) {
	editions, err := i.Editions()
	if err != nil || len(editions) == 0 {
		return nil, err
	}
	var all []string
	for path, item := range editions[0].Paths.Map() {
		for method := range item.Operations() {
			all = append(all, method+" "+path)
		}
	}
	slices.Sort(all)
	return all, nil
}

// described holds an answer against one description. unknown are attributes that this
// doesn't name.
func described(doc *openapi3.T, path, method string, a Answer) (held bool, unknown []string, err error) {
	op := operationFor(doc, method, path)
	if op == nil {
		return false, nil, nil
	}
	ref := op.Responses.Status(a.Status)
	if ref == nil {
		switch a.Status {
		case http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return false, nil, nil // SOL013 clause 6.4 has them for every resource
		}
		return false, nil, fmt.Errorf("status %d isn't described", a.Status)
	}
	if h := ref.Value.Headers["Location"]; h != nil && a.Header.Get("Location") == "" {
		if a.Status < 300 && strings.Contains(path, "vnf_instances") || a.Status == http.StatusCreated {
			return false, nil, errors.New("the header Location is missing")
		}
	}
	if len(ref.Value.Content) == 0 {
		if len(a.Body) != 0 && a.Status < 300 {
			return false, nil, errors.New("a body is not described")
		}
		return true, nil, nil
	}
	if len(a.Body) == 0 {
		return a.Status == http.StatusAccepted || a.Status == http.StatusNoContent, nil, nil
	}
	given := strings.Split(a.Header.Get("Content-Type"), ";")[0]
	media := ref.Value.Content.Get(given)
	if media == nil && strings.HasSuffix(given, "json") {
		media = jsonOf(ref.Value.Content)
	}
	if media == nil || media.Schema == nil {
		return false, nil, nil
	}
	if !strings.HasSuffix(given, "json") {
		return true, nil, nil
	}
	var v any
	if err := json.Unmarshal(a.Body, &v); err != nil {
		return false, nil, err
	}
	values := []any{v}
	if list, ok := v.([]any); ok && !media.Schema.Value.Type.Is("array") {
		values = list
	}
	for _, v := range values {
		if err := Holds(media.Schema.Value, v, openapi3.DisablePatternValidation()); err != nil {
			return false, nil, err
		}
		unknown = append(unknown, Unknown(media.Schema.Value, v)...)
	}
	return true, unknown, nil
}

// jsonOf is the description of a body in JSON, by whichever name; nil is none.
func jsonOf(c openapi3.Content) *openapi3.MediaType {
	for _, name := range []string{"application/json", "application/merge-patch+json"} {
		if media := c.Get(name); media != nil && media.Schema != nil {
			return media
		}
	}
	return nil
}

// operationFor is the description of what the method does at the path; nil is none.
func operationFor(doc *openapi3.T, method, path string) *openapi3.Operation {
	parts := strings.Split(path, "/")
next:
	for pattern, item := range doc.Paths.Map() {
		want := strings.Split(pattern, "/")
		if len(want) != len(parts) {
			continue
		}
		for i, w := range want {
			if w != parts[i] && !strings.HasPrefix(w, "{") {
				continue next
			}
		}
		return item.GetOperation(method)
	}
	return nil
}
