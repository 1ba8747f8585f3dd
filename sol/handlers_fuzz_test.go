package sol_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
)

// FuzzHandlers holds that no request makes any handler answer 500 or panic, that every error
// is a ProblemDetails that tells no secret and no path of the server, and that who sends no
// token gets the same answer whatever there is.
func FuzzHandlers(f *testing.F) {
	for _, root := range []string{api, apiV1} {
		f.Add("GET", root+"/vnf_instances", "filter=(eq,id,1);(cont,metadata/a~1b,'x''y')&fields=vimConnectionInfo/vim1", "Version: 2.0.0", "")
		f.Add("GET", root+"/vnf_instances", "exclude_fields=instantiatedVnfInfo/vnfcInfo&nextpage_opaque_marker=eA", "Version: 1.3.0\nAccept: */*;q=0.1\nAccept-Encoding: gzip;q=1", "")
		f.Add("GET", root+"/vnf_lcm_op_occs", "filter=(gte,startTime,2020-01-01T00:00:00Z);(nin,operation,HEAL)&all_fields", "Version: 2.0.0-impl:x", "")
		f.Add("GET", root+"/vnf_lcm_op_occs", "nextpage_opaque_marker=bm90aGluZw", "Version: 2.0.0", "")
		f.Add("GET", root+"/vnf_lcm_op_occs/{op}", "", "If-None-Match: *", "")
		f.Add("GET", root+"/subscriptions", "filter=(eq,callbackUri,http~1x)", "", "")
		f.Add("POST", root+"/subscriptions", "", "", `{"callbackUri": "http://127.0.0.1:1/", "authentication": {"authType": ["BASIC"], "paramsBasic": {"userName": "u", "password": "very-secret"}}, "filter": {"operationTypes": ["x"]}}`)
		f.Add("POST", root+"/vnf_instances", "", "", `{"vnfdId": "vnfd-1", "vnfInstanceName": "a/../b\u0000", "metadata": {"VDU_VNFc_mapping": {"a": ["b", "b"]}}}`)
		f.Add("PATCH", root+"/vnf_instances/{id}", "", "If-Match: \"x\"\nContent-Type: application/merge-patch+json", `{"vnfInstanceName": null, "metadata": {"configmap_secret_paths": [1]}, "vimConnectionInfo": {"vim1": null}}`)
		f.Add("PATCH", root+"/vnf_instances/{id}", "", "", `{"vnfdId": "vnfd-2", "metadata": {"a": {"b": [null, 1e400]}}, "extensions": {"password": "very-secret"}}`)
		f.Add("DELETE", root+"/vnf_instances/{id}", "", "", "")
		for task, body := range map[string]string{
			"instantiate":     `{"flavourId": "simple", "vimConnectionInfo": {"v": {"vimType": "ETSINFV.KUBERNETES.V_1", "interfaceInfo": {"endpoint": "https://k"}, "accessInfo": {"bearer_token": "very-secret"}}}, "additionalParams": {"placement": {"VDU1": "v"}}}`,
			"scale":           `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": 99999999999999999999}`,
			"terminate":       `{"terminationType": "GRACEFUL", "gracefulTerminationTimeout": "-1"}`,
			"heal":            `{"vnfcInstanceId": ["a", "VDU1-vdu1-1"], "additionalParams": {"all": "yes"}, "cause": "a\nb: c"}`,
			"change_ext_conn": `{"extVirtualLinks": [{"id": "l", "resourceId": "n", "extCps": [{"cpdId": "CP1", "cpConfig": {"a": {"linkPortId": "p"}}}]}]}`,
			"change_vnfpkg":   `{"vnfdId": "vnfd-2", "additionalParams": {"upgrade_type": "RollingUpdate", "vdu_params": [{"vdu_id": "VDU1", "new_vnfc_param": {"cp_name": "c", "password": "very-secret"}}]}}`,
			"scale_to_level":  `{"instantiationLevelId": "x", "scaleInfo": [{"aspectId": "a", "scaleLevel": -1}]}`,
			"operate":         `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 1}`,
			"change_flavour":  `{"newFlavourId": "x"}`, "create_snapshot": `{}`, "": `{}`, "%2e%2e": `{}`, "instantiate/x": `{}`,
		} {
			f.Add("POST", root+"/vnf_instances/{id}/"+task, "", "Version: 2.0.0", body)
		}
		for _, task := range []string{"retry", "rollback", "fail", "cancel"} {
			f.Add("POST", root+"/vnf_lcm_op_occs/{op}/"+task, "", "", `{"cancelMode": "FORCEFUL"}`)
		}
		f.Add("OPTIONS", root, "", "Content-Type: text/plain", "")
		f.Add("CONNECT", root+"/vnf_instances/\x00\xff", "%zz", "Content-Encoding: gzip", "\x1f\x8b")
	}
	e := build(f)
	id := e.instantiated()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut))
	e.move(op, nil, lcm.Broke)
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		path = strings.ReplaceAll(strings.ReplaceAll(path, "{id}", id), "{op}", op)
		if !strings.HasPrefix(path, "/") {
			return // no server reads such a request
		}
		request := func(token string) *httptest.ResponseRecorder {
			r := &http.Request{Method: method, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Host: "vnfm.example",
				URL: &url.URL{Path: path, RawQuery: query}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), RequestURI: path}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Version", map[bool]string{true: "1.3.0", false: "2.0.0"}[strings.HasPrefix(path, apiV1)])
			for line := range strings.Lines(headers) {
				if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
					r.Header.Set(name, strings.TrimSpace(value))
				}
			}
			r.Header.Del("Authorization")
			r.Header.Del("X-Auth-Token")
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			e.handler.ServeHTTP(w, r)
			return w
		}
		w := request(operateToken)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%s %q?%q with %q %q: %d %s\n%s", method, path, query, headers, body, w.Code, w.Body, e.logged)
		}
		if w.Header().Get("Content-Encoding") == "" {
			for _, leak := range []string{"very-secret", "/tmp/", ".go:"} {
				if strings.Contains(w.Body.String(), leak) && !strings.Contains(query+body+path+method, leak) || leak == "very-secret" && strings.Contains(w.Body.String(), leak) {
					t.Fatalf("%s %q %q: %q leaks: %s", method, path, body, leak, w.Body)
				}
			}
			var p lcm.ProblemDetails
			if w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Status != w.Code || p.Detail == "") {
				t.Fatalf("%s %q: %d is no ProblemDetails: %s", method, path, w.Code, w.Body)
			}
		}
		if w := request(""); w.Code != http.StatusUnauthorized && !strings.HasSuffix(path, "/api_versions") && w.Code/100 != 3 {
			t.Fatalf("%s %q without a token: %d %s", method, path, w.Code, w.Body)
		}
	})
}
