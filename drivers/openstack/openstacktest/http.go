package openstacktest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Request is one that a service got.
type Request struct {
	Service Service
	Method  string
	Path    string // without the query
	Status  int    // of the answer; 0 where the connection was cut
}

// call is a request as handlers see it.
type call struct {
	method string
	path   []string // below the endpoint in the catalogue
	query  url.Values
	header http.Header
	body   []byte
}

func (c *call) is(method string, path ...string) bool {
	if c.method != method || len(c.path) != len(path) {
		return false
	}
	for i, p := range path {
		if p != "*" && p != c.path[i] {
			return false
		}
	}
	return true
}

// answer is what a handler returns. A nil body is none at all.
type answer struct {
	status int
	body   any
	header map[string]string
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

// null is a body that is the word null.
var null = json.RawMessage("null")

func (c *Cloud) handler(s Service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		c.mu.Lock()
		a, cut := c.serve(s, r, body)
		c.counts[s]++
		status := a.status
		if cut {
			status = 0
		}
		c.seen = append(c.seen, Request{Service: s, Method: r.Method, Path: r.URL.Path, Status: status})
		if len(c.seen) > 20000 {
			c.seen = c.seen[10000:]
		}
		var data []byte
		if a.body != nil {
			data, err = json.Marshal(a.body)
		}
		c.mu.Unlock()
		if cut || err != nil {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		if data != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		id := requestID()
		w.Header().Set("X-Openstack-Request-Id", id)
		if s == Nova {
			w.Header().Set("X-Compute-Request-Id", id)
		}
		for k, v := range a.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(data) // the client's affair
	})
}

// serve answers one request; cut means that the connection breaks instead.
func (c *Cloud) serve(s Service, r *http.Request, body []byte) (a answer, cut bool) {
	f := c.fault(s, r.Method, r.URL.Path)
	switch {
	case f == nil:
		return c.reply(s, r, body), false
	case f.Lost:
		c.reply(s, r, body)
		return answer{}, true
	case f.Status == 0:
		return answer{}, true
	}
	return c.faulty(s, f), false
}

func (c *Cloud) reply(s Service, r *http.Request, body []byte) answer {
	c.advance(time.Now())
	in := &call{method: r.Method, query: r.URL.Query(), header: r.Header, body: body}
	path := strings.Trim(r.URL.Path, "/")
	under := strings.Trim(strings.TrimPrefix(c.endpoint(s), c.URL(s)), "/")
	if s == Keystone {
		return c.keystone(in, path)
	}
	if path == "" || path == strings.Split(under, "/")[0] && s != Glance {
		return c.versions(s, path)
	}
	if !c.authorized(r.Header.Get("X-Auth-Token")) {
		return c.unauthorized(s)
	}
	if path != under && !strings.HasPrefix(path, strings.TrimPrefix(under+"/", "/")) {
		return unrouted()
	}
	in.path = append(in.path, strings.Split(strings.Trim(strings.TrimPrefix(path, under), "/"), "/")...)
	switch s {
	case Heat:
		return c.heat(in)
	case Nova:
		return c.compute(in)
	case Neutron:
		return c.network(in)
	case Glance:
		return c.image(in)
	}
	return c.cinder(in)
}

// versions is what a service shows at its root, without a token.
func (c *Cloud) versions(s Service, path string) answer {
	link := func(at string) []any { return []any{object{"rel": "self", "href": c.URL(s) + at}} }
	switch {
	case s == Heat:
		return answer{status: http.StatusMultipleChoices, body: object{"versions": []any{object{"id": "v1.0", "status": "CURRENT", "links": link("/v1/")}}}}
	case s == Nova && path != "":
		return ok(object{"version": object{
			"id": "v2.1", "status": "CURRENT", "version": "2." + strconv.Itoa(maxMicroversion), "min_version": "2.1",
			"updated": "2013-07-23T11:33:21Z", "links": link("/v2.1/"), "media-types": []any{},
		}})
	case s == Cinder:
		return answer{status: http.StatusMultipleChoices, body: object{"versions": []any{object{
			"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "updated": "2022-08-31T00:00:00Z",
			"links": link("/v3/"), "media-types": []any{},
		}}}}
	case s == Glance:
		return answer{status: http.StatusMultipleChoices, body: object{"versions": []any{object{"id": "v2.15", "status": "CURRENT", "links": link("/v2/")}}}}
	case s == Neutron:
		return ok(object{"versions": []any{object{"id": "v2.0", "status": "CURRENT", "links": link("/v2.0/")}}})
	}
	return ok(object{"versions": []any{object{"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "links": link("/v2.1/")}}})
}

type object = map[string]any

func (c *Cloud) unauthorized(s Service) answer {
	a := answer{status: http.StatusUnauthorized, header: map[string]string{"Www-Authenticate": `Keystone uri="` + c.URL(Keystone) + `/v3"`}}
	if s == Glance {
		a.body = object{"message": "This server could not verify that you are authorized to access the document you requested.<br /><br />\n\n\n", "code": "401 Unauthorized", "title": "Unauthorized"}
		return a
	}
	a.body = object{"error": object{"code": http.StatusUnauthorized, "title": "Unauthorized", "message": "The request you have made requires authentication."}}
	return a
}

// fail is an error in the service's own wrapping. kind is its type where the service
// has one.
func fail(s Service, status int, kind, message string) answer {
	title := http.StatusText(status)
	a := answer{status: status}
	switch s {
	case Heat:
		a.body = object{
			"code": status, "title": title, "explanation": explanation(status),
			"error": object{"type": kind, "traceback": nil, "message": message},
		}
	case Neutron:
		a.body = object{"NeutronError": object{"type": kind, "message": message, "detail": ""}}
	case Glance:
		a.body = object{"message": message + "<br /><br />\n\n\n", "code": strconv.Itoa(status) + " " + title, "title": title}
	case Keystone:
		a.body = object{"error": object{"code": status, "message": message, "title": title}}
	default:
		a.body = object{novaKind(status): object{"code": status, "message": message}}
	}
	return a
}

func explanation(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "The server could not comply with the request since it is either malformed or otherwise incorrect."
	case http.StatusForbidden:
		return "Access was denied to this resource."
	case http.StatusNotFound:
		return "The resource could not be found."
	case http.StatusConflict:
		return "There was a conflict when trying to complete your request."
	case http.StatusServiceUnavailable:
		return "The server is currently unavailable. Please try again at a later time."
	}
	return "The server has either erred or is incapable of performing the requested operation."
}

func novaKind(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusTooManyRequests:
		return "overLimit"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	}
	return "computeFault"
}

// page cuts a list as limit and marker ask, and says whether there is more.
func page[T any](list []T, id func(T) string, q url.Values, most int) ([]T, bool) {
	if m := q.Get("marker"); m != "" {
		for i, x := range list {
			if id(x) == m {
				list = list[i+1:]
				break
			}
		}
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n <= 0 || most > 0 && n > most {
		n = most
	}
	if n > 0 && len(list) > n {
		return list[:n], true
	}
	return list, false
}
