package vnfpkgm_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/sol/rest"
)

// No path, query, header or body is answered with 500, and none of them says where the server
// keeps anything.
func FuzzRequest(f *testing.F) {
	e := setup(f)
	path, a := e.onboard(zipped(f, sample(f, "amf-id")))
	if a.field("onboardingState") != "ONBOARDED" {
		f.Fatalf("%s", a.body)
	}
	empty := e.create()
	for _, s := range [][5]string{
		{"GET", "/vnf_packages", "filter=(eq,vnfdId,amf-id)", "", ""},
		{"GET", path + "/artifacts/Files/kubernetes/web.yaml", "include_signature", "", "bytes=0-3,5-9"},
		{"GET", path + "/artifacts/%2e%2e%2f%2e%2e/etc/passwd", "", "", ""},
		{"GET", path + "/package_content", "", "", "bytes=-1"},
		{"GET", "/onboarded_vnf_packages/amf-id/vnfd", "", "", ""},
		{"PATCH", path, "", `{"operationalState":"ENABLED","userDefinedData":{"a":[null,{"b":1e400}]}}`, ""},
		{"POST", "/vnf_packages", "", `{"userDefinedData":{"\u0000":"x"}}`, ""},
		{"POST", empty + "/package_content/upload_from_uri", "", `{"addressInformation":"ftp://x"}`, ""},
		{"DELETE", "/vnf_packages/none", "", "", ""},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4])
	}
	handler := rest.SingleSlashes(e.s)
	f.Fuzz(func(t *testing.T, method, path, query, body, ranges string) {
		u := &url.URL{Path: "/vnfpkgm/v2" + path, RawQuery: query}
		if raw, err := url.ParseRequestURI("/vnfpkgm/v2" + path); err == nil {
			u.Path, u.RawPath = raw.Path, raw.RawPath
		}
		if method == http.MethodPut || strings.HasSuffix(u.Path, "upload_from_uri") && strings.Contains(body, "http") {
			return // archives have a fuzz test of their own, and nothing is fetched here
		}
		r, err := http.NewRequest(method, "http://vnfm.example/", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL = u
		r.Header = http.Header{"Version": {"2.1.0"}, "Authorization": {"Bearer " + operateToken}, "Content-Type": {"application/json"}, "Range": {ranges}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError || strings.Contains(w.Body.String(), e.dir) {
			t.Errorf("%s %s: %d %s", method, u, w.Code, w.Body)
		}
	})
}
