package sol_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// subscriptions is the real service beside the API.
func subscriptions(t *testing.T) func(*sol.Config) {
	t.Helper()
	st, err := bolt.Open(filepath.Join(t.TempDir(), "notify.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	keeper, err := secret.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := oplog.Open(t.Context(), st, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	service, err := notify.New(notify.Config{Oplog: log, Store: st, Secrets: keeper.For(secret.ForSubscriptions()), Egress: egress.Anywhere(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *sol.Config) { c.Subscriptions = service.Lifecycle("/vnflcm/v2") }
}

// subscriber answers callback tests with status, to those with the right password.
func subscriber(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, ok := r.BasicAuth(); ok && (user != "u" || pass != "pass-word") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestSubscriptionsAreMadeShownAndDeleted(t *testing.T) {
	e := setup(t, subscriptions(t))
	path := api + "/subscriptions"
	if a := e.want(200, "GET", path, ""); string(a.body) != "[]" {
		t.Errorf("%s", a.body)
	}
	a := e.want(201, "POST", path, `{"callbackUri": "`+subscriber(t, 204)+`/n", "verbosity": "SHORT", "filter": {"operationTypes": ["SCALE"]},
		"authentication": {"authType": ["BASIC"], "paramsBasic": {"userName": "u", "password": "pass-word"}}}`)
	made := a.object(t)
	id := made["id"].(string)
	if a.Header.Get("Location") != base+path+"/"+id || made["verbosity"] != "SHORT" || made["authentication"] != nil {
		t.Errorf("%v %s", a.Header, a.body)
	}
	if got := e.want(200, "GET", path+"/"+id, ""); string(got.body) != string(a.body) {
		t.Errorf("GET %s, POST %s", got.body, a.body)
	}
	e.want(201, "POST", path, `{"callbackUri": "`+subscriber(t, 204)+`"}`)
	if got := ids(t, e.want(200, "GET", path+"?filter=(eq,verbosity,SHORT)", "")); len(got) != 1 || got[0] != id {
		t.Errorf("%v", got)
	}
	e.want(204, "DELETE", path+"/"+id, "")
	e.want(404, "DELETE", path+"/"+id, "")
	e.want(404, "GET", path+"/"+id, "")
	if got := ids(t, e.want(200, "GET", path, "")); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestBadSubscriptionsAreRefused(t *testing.T) {
	e := setup(t, subscriptions(t))
	bad := subscriber(t, 500)
	for body, status := range map[string]int{
		`{}`: 400, `{"callbackUri": "ftp://x"}`: 400, `{"callbackUri": "http://x", "verbosity": "LOUD"}`: 400, `{"callbackUri": "http://x", "other": 1}`: 400,
		`{"callbackUri": "` + bad + `"}`: 422,
		`{"callbackUri": "` + bad + `", "authentication": {"authType": ["BASIC"], "paramsBasic": {"userName": "u", "password": "pass-wrong"}}}`: 422,
	} {
		a := e.do("POST", api+"/subscriptions", body)
		if a.StatusCode != status || strings.Contains(string(a.body), "pass-w") {
			t.Errorf("%s: %d %s, want %d", body, a.StatusCode, a.body, status)
		}
	}
	e.want(400, "GET", api+"/subscriptions?all_fields", "")
}
