package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/sim"
)

func TestEveryAnswerIsNoFrameNoScriptAndNotKept(t *testing.T) {
	t.Parallel()

	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	known := []string{"Authorization", "Bearer " + s.Token, "Accept", "text/html"}
	for name, c := range map[string]struct {
		method, path string
		form         url.Values
		header       []string
	}{
		"a page":                          {"GET", "/ui/", nil, known},
		"the login":                       {"GET", "/ui/login", nil, nil},
		"a wrong login":                   {"POST", "/ui/login", url.Values{"token": {"wrong"}}, []string{"Sec-Fetch-Site", "same-origin"}},
		"a form of another site":          {"POST", "/ui/login", url.Values{"token": {"wrong"}}, []string{"Sec-Fetch-Site", "cross-site"}},
		"no such page":                    {"GET", "/ui/nothing", nil, known},
		"a method that no page has":       {"PUT", "/ui/login", nil, known},
		"a path to be cleaned":            {"GET", "/ui/x/../../y", nil, known},
		"two slashes":                     {"GET", "/ui//login", nil, known},
		"the folder of the page":          {"GET", "/ui", nil, known},
		"the root for a browser":          {"GET", "/", nil, known},
		"nothing at all":                  {"GET", "/nothing", nil, known},
		"a resource that isn't there":     {"GET", "/vnflcm/v2/vnf_instances/x", nil, known},
		"a list":                          {"GET", "/jibe/v1/drift", nil, known},
		"a caller who isn't known":        {"GET", "/vnflcm/v2/vnf_instances", nil, nil},
		"git":                             {"GET", "/git/desired.git/info/refs?service=git-upload-pack", nil, known},
		"git of what isn't there":         {"GET", "/git/x", nil, known},
		"health":                          {"GET", "/healthz", nil, nil},
		"metrics":                         {"GET", "/metrics", nil, known},
		"a webhook":                       {"POST", "/webhook", url.Values{}, nil},
		"a URI that is too long":          {"GET", "/ui/" + strings.Repeat("x", 20<<10), nil, known},
		"a request that another site had": {"POST", "/vnflcm/v2/vnf_instances", url.Values{}, []string{"Sec-Fetch-Site", "cross-site"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, _ := ask(t, s, c.method, c.path, c.form, c.header...)
			h := resp.Header
			csp := h.Get("Content-Security-Policy")
			if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") || h.Get("X-Frame-Options") != "DENY" {
				t.Errorf("%s: Content-Security-Policy: %q, X-Frame-Options: %q", resp.Status, csp, h.Get("X-Frame-Options"))
			}
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %v", resp.Status, h)
			}
			if kept := h.Get("Cache-Control"); !strings.Contains(kept, "no-store") && !strings.Contains(kept, "no-cache") {
				t.Errorf("%s: Cache-Control: %q", resp.Status, kept)
			}
		})
	}
}

func TestAnotherSiteOpensNoStreamOfEvents(t *testing.T) {
	t.Parallel()

	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	for _, site := range []string{"cross-site", "same-site"} {
		resp, _ := ask(t, s, "GET", "/ui/events", nil, "Authorization", "Bearer "+s.Token, "Sec-Fetch-Site", site)
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", site, resp.Status)
		}
	}
}
