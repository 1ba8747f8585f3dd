package rest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/filter"
)

type item struct {
	ID   string            `json:"id"`
	Text string            `json:"text,omitempty"`
	Keys map[string]string `json:"keys,omitempty"`
}

var errOwn = errors.New("an error of the interface")

// shelf is an interface with a list of items.
func shelf(t *testing.T, i Interface, c Config, items ...item) *httptest.Server {
	t.Helper()
	c.Auth = auth.Anyone{}
	c.Log = slog.New(slog.DiscardHandler)
	i.Root = "/shelf/v1"
	i.Needs = func(string, string) (access.Need, bool) { return access.Need{Role: auth.Viewer}, true }
	i.Status = func(err error) int {
		if errors.Is(err, errOwn) {
			return http.StatusTeapot
		}
		return 0
	}
	a := New(c, i)
	shape := filter.Shape{Optional: []string{"text", "keys"}, Default: []string{"keys"}}
	a.Handle("/items", Methods{
		http.MethodGet: func(w http.ResponseWriter, r *http.Request) error {
			q, err := ParseQuery(r, Resource{Shape: &shape, Schema: filter.SchemaOf(item{}, nil)})
			if err != nil {
				return err
			}
			return List(a, w, r, &q, Listing[item]{
				All: func(yield func(item, error) bool) {
					for _, it := range items {
						if it.ID > q.After && !yield(it, nil) {
							return
						}
					}
				},
				Position: func(it item) string { return it.ID },
				Body:     func(it item) (any, error) { return it, nil },
			})
		},
		http.MethodPost: func(w http.ResponseWriter, r *http.Request) error {
			var it item
			if err := Read(w, r, &it); err != nil {
				return err
			}
			return Reply(w, r, http.StatusCreated, it)
		},
	})
	a.Handle("/broken", Methods{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) error {
		if _, err := io.WriteString(w, "half of"); err != nil {
			return err
		}
		return errors.New("the disk is gone")
	}})
	a.Handle("/own", Methods{http.MethodGet: func(http.ResponseWriter, *http.Request) error { return fmt.Errorf("wrapped: %w", errOwn) }})
	a.HandleMedia("/content", Media{Takes: []string{"application/zip", "multipart/*"}, Gives: []string{"application/zip"}}, Methods{
		http.MethodGet: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/zip")
			_, err := w.Write(bytes.Repeat([]byte("z"), 4*zipFrom))
			return err
		},
		http.MethodPut: func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusAccepted)
			return nil
		},
	})
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return s
}

// ask sends a request; headers are names and values.
func ask(t *testing.T, s *httptest.Server, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/shelf/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func TestAnswersAreCompressedForClientsThatTakeThatAndForNoOther(t *testing.T) {
	var many []item
	for i := range 500 {
		many = append(many, item{ID: fmt.Sprintf("%04d", i), Text: strings.Repeat("text ", 50)})
	}
	s := shelf(t, Interface{}, Config{PageSize: -1}, many...)
	_, plain := ask(t, s, "GET", "/items", "")
	for accept, zipped := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000": false, "identity": false, "": false} {
		res, body := ask(t, s, "GET", "/items", "", "Accept-Encoding", accept)
		if (res.Header.Get("Content-Encoding") == "gzip") != zipped || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v", accept, res.Header)
			continue
		}
		if zipped {
			z, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if len(body) > len(b)/5 {
				t.Errorf("%d bytes of %d", len(body), len(b))
			}
			body = string(b)
		}
		if body != plain {
			t.Errorf("%q: another body", accept)
		}
	}
	for _, path := range []string{"/content", "/items?filter=(eq,id,0001)"} { // no JSON; too short
		if res, _ := ask(t, s, "GET", path, "", "Accept-Encoding", "gzip"); res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
	if res, body := ask(t, s, "HEAD", "/items", "", "Accept-Encoding", "gzip"); res.StatusCode != 200 || body != "" || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %v %q", res, body)
	}
}

func TestBodiesThatAreCodedOrOfAnotherTypeAreRefused(t *testing.T) {
	s := shelf(t, Interface{}, Config{})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.Copy(z, io.LimitReader(zeros{}, 64<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, body, media, coding string
		status                            int
	}{
		{"POST", "/items", `{"id": "a"}`, "application/json", "", 201},
		{"POST", "/items", `{"id": "a"}`, "text/plain", "identity", 201},
		{"POST", "/items", bomb.String(), "application/json", "gzip", 415},
		{"POST", "/items", "x", "application/json", "br", 415},
		{"POST", "/items", "x", "application/zip", "", 415},
		{"PUT", "/content", "x", "application/zip", "", 202},
		{"PUT", "/content", "x", "multipart/form-data; boundary=x", "", 202},
		{"PUT", "/content", "x", "application/json", "", 415},
		{"PUT", "/content", bomb.String(), "application/zip", "gzip", 415},
	} {
		headers := []string{"Content-Type", tt.media}
		if tt.coding != "" {
			headers = append(headers, "Content-Encoding", tt.coding)
		}
		if res, body := ask(t, s, tt.method, tt.path, tt.body, headers...); res.StatusCode != tt.status {
			t.Errorf("%s %s as %s %s: %d %s", tt.method, tt.path, tt.coding, tt.media, res.StatusCode, body)
		}
	}
	if res, _ := ask(t, s, "GET", "/content", "", "Accept", "application/json"); res.StatusCode != 406 {
		t.Errorf("%d", res.StatusCode)
	}
	if res, _ := ask(t, s, "GET", "/content", "", "Accept", "application/*"); res.StatusCode != 200 {
		t.Errorf("%d", res.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBodiesAreBoundedInSizeAndDepthAndNameNothingTwice(t *testing.T) {
	s := shelf(t, Interface{}, Config{})
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{"id": "a", "keys": {"k": "v", "l": "v"}}`:                              {201, ""},
		`{"id": "a", "id": "b"}`:                                                 {400, `"id\" stands twice`},
		`{"id": "a", "keys": {"k": "v", "k": "w"}}`:                              {400, `"k\" stands twice`},
		strings.Repeat(`{"keys":`, 10_000) + "1" + strings.Repeat("}", 10_000):   {400, "more than 100 deep"},
		`{"keys":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000): {400, "more than 100 deep"},
		strings.Repeat("[", 500_000):                                             {400, ""},
		`{"text": "` + strings.Repeat("x", maxBody) + `"}`:                       {413, "more than"},
		`{"id": "a"} {"id": "b"}`:                                                {400, "goes on behind"},
		`{"id": "a", "other": 1}`:                                                {400, `unknown attribute \"other`},
		`{"id": 7}`:                                                              {400, "wrong type"},
		"\x00\xff":                                                               {400, "not JSON"},
		`[]`:                                                                     {400, "must be a JSON object"},
		``:                                                                       {400, "empty"},
	} {
		res, got := ask(t, s, "POST", "/items", body, "Content-Type", "application/json")
		if res.StatusCode != want.status || !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), strings.ReplaceAll(want.says, `\"`, `"`)) || len(got) > 2000 {
			t.Errorf("%.80q: %d %.300s, want %d %s", body, res.StatusCode, got, want.status, want.says)
		}
	}
}

func TestAnAnswerThatBreaksOffIsNotTakenForAWholeOne(t *testing.T) {
	s := shelf(t, Interface{}, Config{})
	res, err := http.Get(s.URL + "/shelf/v1/broken")
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("half an answer was whole")
	}
}

func TestAnInterfaceHasItsOwnVersionsAndErrors(t *testing.T) {
	none := shelf(t, Interface{}, Config{})
	if res, _ := ask(t, none, "GET", "/items", "", "Version", "7.7.7"); res.StatusCode != 200 || res.Header.Get("Version") != "" {
		t.Errorf("without versions: %v", res)
	}
	two := shelf(t, Interface{Versions: []string{"1.2.0", "1.3.0"}}, Config{})
	older := shelf(t, Interface{Versions: []string{"1.2.0", "1.3.0"}, VersionOptional: true}, Config{})
	for _, tt := range []struct {
		s           *httptest.Server
		asked, is   string
		status      int
		description string
	}{
		{two, "1.3.0", "1.3.0", 200, "the second"}, {two, "1.2.0-impl:x", "1.2.0", 200, "with a suffix"}, {two, "1.4.0", "1.2.0", 406, "another"}, {two, "", "1.2.0", 400, "none"},
		{older, "", "1.2.0", 200, "none, where that may be"}, {older, "1.3.0", "1.3.0", 200, "the second"}, {older, "x", "1.2.0", 400, "nonsense"},
	} {
		var headers []string
		if tt.asked != "" {
			headers = []string{"Version", tt.asked}
		}
		if res, _ := ask(t, tt.s, "GET", "/items", "", headers...); res.StatusCode != tt.status || res.Header.Get("Version") != tt.is {
			t.Errorf("%s: %d, %q", tt.description, res.StatusCode, res.Header.Get("Version"))
		}
	}
	if res, body := ask(t, none, "GET", "/own", ""); res.StatusCode != http.StatusTeapot || !strings.Contains(body, "wrapped") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, _ := ask(t, none, "DELETE", "/items", ""); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, POST" {
		t.Errorf("%v", res)
	}
}

func TestMarkersOfPagesStayGoodWhileEntriesComeAndGo(t *testing.T) {
	var items []item
	for i := range 20 {
		items = append(items, item{ID: fmt.Sprintf("%04d", 2*i)})
	}
	s := shelf(t, Interface{}, Config{BaseURL: "https://h", PageSize: 6}, items...)
	seen := map[string]int{}
	path := "/items?filter=(neq,id,0002)"
	for pages := 0; path != "" && pages < 9; pages++ {
		res, body := ask(t, s, "GET", path, "")
		for _, part := range strings.Split(body, `"id":"`)[1:] {
			seen[part[:4]]++
		}
		// The last one seen goes, and one comes before and behind it.
		for i, it := range items {
			if it.ID == "0012" {
				items[i].ID = "0011"
			}
		}
		next, _, _ := strings.Cut(strings.TrimPrefix(res.Header.Get("Link"), "<https://h/shelf/v1"), ">")
		path = next
	}
	for i := range 20 {
		if id := fmt.Sprintf("%04d", 2*i); (seen[id] != 1) != (id == "0002") {
			t.Errorf("%s was shown %d times: %v", id, seen[id], seen)
		}
	}
}

func TestSeveralSlashesAreOneAndRedirectNobody(t *testing.T) {
	got := ""
	h := SingleSlashes(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.EscapedPath() + " " + r.URL.Path }))
	for path, want := range map[string]string{
		"/a/b": "/a/b /a/b", "//a///b//": "/a/b/ /a/b/", "/a%2F%2Fb//c": "/a%2F%2Fb/c /a//b/c", "/a/%2e%2e/b": "/a/%2e%2e/b /a/../b",
	} {
		got = ""
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got != want || w.Code != 200 {
			t.Errorf("%s: %q, %d, want %q", path, got, w.Code, want)
		}
	}
	for _, path := range []string{"/a/../b", "/a/./b", "/.."} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 404 || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestNobodyIsLetInWithoutAnAuthenticator(t *testing.T) {
	w := httptest.NewRecorder()
	New(Config{Now: time.Now}, Interface{Name: "x", Root: "/x"}).ServeHTTP(w, httptest.NewRequest("GET", "/x/y", nil))
	if w.Code != 401 || w.Header().Get("WWW-Authenticate") != `Bearer realm="x"` {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
