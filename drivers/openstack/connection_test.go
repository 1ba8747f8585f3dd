package openstack_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
)

const secret = "s3cret-pa55word"

// keystone is a Keystone, Heat and Nova that have nothing; answer may take a request over.
func keystone(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) *httptest.Server {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer != nil && answer(w, r) {
			return
		}
		reply := func(status int, v any) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(v); err != nil {
				t.Error(err)
			}
		}
		switch r.URL.Path {
		case "/v3/auth/tokens":
			catalogue := []any{}
			for _, kind := range []string{"orchestration", "compute", "network", "image"} {
				catalogue = append(catalogue, map[string]any{"type": kind, "name": kind, "endpoints": []any{
					map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": server.URL + "/" + kind},
				}})
			}
			w.Header().Set("X-Subject-Token", uuid.NewString())
			reply(http.StatusCreated, map[string]any{"token": map[string]any{"expires_at": time.Now().Add(time.Hour).Format(time.RFC3339), "catalog": catalogue}})
		case "/orchestration/stacks":
			reply(http.StatusOK, map[string]any{"stacks": []any{}})
		case "/compute/v2.1/servers/detail":
			reply(http.StatusOK, map[string]any{"servers": []any{}})
		default:
			reply(http.StatusNotFound, map[string]any{"error": map[string]any{"message": "there is no " + r.URL.Path}})
		}
	}))
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func vimOf(url string) drivers.VIM {
	return drivers.VIM{Name: "test", Type: openstack.Type, Endpoint: url + "/v3", Region: "RegionOne",
		Username: "jibe", Password: secret, Project: "nfv", ProjectDomain: "Default", UserDomain: "Default"}
}

func observe(t *testing.T, d *openstack.Driver) error {
	t.Helper()
	_, err := d.Observe(t.Context(), drivers.Absent(&desired.Instance{ID: uuid.NewString()}))
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error holds the password: %v", err)
	}
	return err
}

func TestWhatIsNoConnectionIsRefusedAtOnce(t *testing.T) {
	t.Parallel()

	good := vimOf("https://keystone.example")
	for name, spoil := range map[string]func(v *drivers.VIM){
		"no endpoint":                 func(v *drivers.VIM) { v.Endpoint = "" },
		"endpoint without a scheme":   func(v *drivers.VIM) { v.Endpoint = "keystone.example:5000" },
		"no password":                 func(v *drivers.VIM) { v.Password = "" },
		"no project":                  func(v *drivers.VIM) { v.Project = "" },
		"CA that is no certificate":   func(v *drivers.VIM) { v.CACert = []byte("no PEM") },
		"application without secret":  func(v *drivers.VIM) { v.ApplicationCredential = "4711" },
		"neither user nor credential": func(v *drivers.VIM) { v.Username, v.Password = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			v := good
			spoil(&v)
			if _, err := openstack.New(v, openstack.Options{}); err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("New = %v", err)
			}
		})
	}
}

func TestEachAnswerOfAServiceIsUnavailability(t *testing.T) {
	t.Parallel()

	for _, status := range []int{401, 403, 408, 409, 429, 500, 502, 503, 504} {
		for _, path := range []string{"/v3/auth/tokens", "/orchestration/stacks", "/compute/v2.1/servers/detail"} {
			t.Run(http.StatusText(status)+" of "+path, func(t *testing.T) {
				s := keystone(t, func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != path {
						return false
					}
					w.Header().Set("Retry-After", "3600")
					w.WriteHeader(status)
					_, _ = w.Write([]byte(`{"error": {"message": "no, ` + secret + `"}}`))
					return true
				})
				d := connect(t, vimOf(s.URL), openstack.Options{Busy: 10 * time.Millisecond})
				if err := observe(t, d); !errors.Is(err, drivers.ErrUnavailable) {
					t.Errorf("Observe = %v, want ErrUnavailable", err)
				}
			})
		}
	}
}

func TestATokenThatEndsIsRenewed(t *testing.T) {
	t.Parallel()

	var refused atomic.Bool
	s := keystone(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/orchestration/stacks" || refused.Swap(true) {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	if err := observe(t, connect(t, vimOf(s.URL), openstack.Options{})); err != nil {
		t.Errorf("Observe = %v", err)
	}
}

func TestAServiceThatAsksForAPauseIsAskedAgain(t *testing.T) {
	t.Parallel()

	var asked atomic.Int32
	s := keystone(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/compute/v2.1/servers/detail" {
			return false
		}
		if asked.Add(1) > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	if err := observe(t, connect(t, vimOf(s.URL), openstack.Options{})); err != nil || asked.Load() < 2 {
		t.Errorf("Observe = %v after %d requests", err, asked.Load())
	}
}

func TestTheNextPageOfServersIsAskedForAtTheAddressInTheCatalogue(t *testing.T) {
	t.Parallel()

	var markers []string // of one look after the other
	var mu sync.Mutex
	s := keystone(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/compute/v2.1/servers/detail" {
			return false
		}
		marker := r.URL.Query().Get("marker")
		mu.Lock()
		markers = append(markers, marker)
		mu.Unlock()
		// The second server's cell is down: Nova knows little of it.
		answers := map[string]string{
			"": `{"servers": [{"id": "one", "status": "ACTIVE", "image": "", "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
				"OS-SRV-USG:launched_at": "2026-01-01T00:00:07.000000", "OS-EXT-STS:task_state": null}],
				"servers_links": [{"rel": "next", "href": "http://nova.behind-the-proxy.invalid/v2.1/servers/detail?marker=one"}]}`,
			"one": `{"servers": [{"id": "two", "status": "UNKNOWN", "created": "2026-01-01T00:00:00Z", "tenant_id": "p", "links": []}], "servers_links": []}`,
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answers[marker]))
		return true
	})
	if err := observe(t, connect(t, vimOf(s.URL), openstack.Options{Rest: time.Hour, Busy: time.Hour})); err != nil {
		t.Errorf("Observe = %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	// Another look may have begun.
	if want := []string{"", "one"}; len(markers) < 2 || !slices.Equal(markers[:2], want) {
		t.Errorf("pages are asked for by %q, want %q first", markers, want)
	}
}

func TestAnAnswerWithoutItsListIsNoEmptiness(t *testing.T) {
	t.Parallel()

	for _, body := range []string{`{}`, `{"servers": "none"}`, `<html>`, ``} {
		s := keystone(t, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/compute/v2.1/servers/detail" {
				_, _ = w.Write([]byte(body))
			}
			return r.URL.Path == "/compute/v2.1/servers/detail"
		})
		if err := observe(t, connect(t, vimOf(s.URL), openstack.Options{})); !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("after %q Observe = %v, want ErrUnavailable", body, err)
		}
	}
}

func TestAPrivateCAIsBelievedAndNothingElse(t *testing.T) {
	t.Parallel()

	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	plain := keystone(t, nil)
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { plain.Config.Handler.ServeHTTP(w, r) }))
	front.StartTLS()
	t.Cleanup(front.Close)
	vim := vimOf(front.URL)
	err := observe(t, connect(t, vim, openstack.Options{}))
	if refused, ok := errors.AsType[*drivers.RefusedError](err); !ok || !errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(refused.Reason, "caCert") {
		t.Errorf("with the system's roots Observe = %v, want a refusal with what to do", err)
	}
	vim.CACert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := observe(t, connect(t, vim, openstack.Options{})); err != nil {
		t.Errorf("with its own CA Observe = %v", err)
	}
	vim.CACert, vim.Insecure = nil, true
	if err := observe(t, connect(t, vim, openstack.Options{})); err != nil {
		t.Errorf("without a check Observe = %v", err)
	}
}

func TestARegionThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()

	vim := vimOf(keystone(t, nil).URL)
	vim.Region = "RegionTwo"
	if err := observe(t, connect(t, vim, openstack.Options{})); !errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(err.Error(), "RegionTwo") {
		t.Errorf("Observe = %v", err)
	}
}

func TestRequestsAtRestDoNotGrowWithInstances(t *testing.T) {
	t.Parallel()

	var asked atomic.Int32
	s := keystone(t, func(_ http.ResponseWriter, _ *http.Request) bool { asked.Add(1); return false })
	d := connect(t, vimOf(s.URL), openstack.Options{Rest: time.Hour})
	for range 100 {
		if err := observe(t, d); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n > 10 { // a token, and stacks and servers in each of a few looks
		t.Errorf("%d requests for 100 instances", n)
	}
}

func TestHooksGetAWayToTheVIM(t *testing.T) {
	t.Parallel()

	vim := vimOf("https://keystone.example")
	vim.CACert = nil
	d := connect(t, vim, openstack.Options{})
	files, err := d.Access()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Clouds map[string]struct {
			Auth   map[string]string `json:"auth"`
			Region string            `json:"region_name"`
		} `json:"clouds"`
	}
	if err := json.Unmarshal(files["OS_CLIENT_CONFIG_FILE"], &got); err != nil {
		t.Fatal(err)
	}
	c := got.Clouds["openstack"]
	if c.Auth["password"] != secret || c.Auth["project_name"] != "nfv" || c.Auth["project_domain_name"] != "Default" || c.Region != "RegionOne" {
		t.Errorf("clouds.yaml has %+v", got)
	}
}
