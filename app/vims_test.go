package app_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/process"
)

const vimSecret = "pa55-of-the-vim"

// registry is the registry of VIMs of a process.
type registry struct {
	*testing.T
	*process.Server
}

// ask makes a request that must be answered with status.
func (r *registry) ask(status int, method, path string, body any) map[string]any {
	r.Helper()
	a, err := r.Do(r.Context(), method, "/v1.0/vims"+path, body)
	if err != nil {
		r.Fatal(err)
	}
	if a.Status != status || strings.Contains(string(a.Body), vimSecret) || strings.Contains(string(a.Body), "age:") {
		r.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	out := map[string]any{}
	if len(a.Body) > 0 {
		if err := json.Unmarshal(a.Body, &out); err != nil {
			r.Fatalf("%s %s: %v: %s", method, path, err, a.Body)
		}
	}
	return out
}

// names are those that a list shows.
func (r *registry) names(query string) (names []string) {
	r.Helper()
	for _, v := range r.ask(http.StatusOK, http.MethodGet, query, nil)["vims"].([]any) {
		names = append(names, fmt.Sprint(v.(map[string]any)["name"]))
	}
	return names
}

// file is the VIM's file at head.
func (r *registry) file(name string) string {
	r.Helper()
	out, err := process.Git(r.Context(), r.Desired(), "show", "main:vims/"+name+".yaml")
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// kube and stack are what the client sends to register one of each type.
func kube(name, url, ca string) map[string]any {
	return map[string]any{"name": name, "type": "kubernetes", "auth_url": url, "is_default": false,
		"vim_project": map[string]any{"name": "default"}, "auth_cred": map[string]any{"bearer_token": vimSecret, "ssl_ca_cert": ca}}
}

func stack(name, url string) map[string]any {
	return map[string]any{"name": name, "type": "openstack", "auth_url": url, "description": "the " + name, "is_default": false,
		"vim_project": map[string]any{"name": "nfv", "project_domain_name": "Default"},
		"auth_cred":   map[string]any{"username": "nfv_user", "password": vimSecret, "user_domain_name": "Default", "cert_verify": "True"}}
}

func TestVIMsAreRegisteredShownChangedAndRemovedByTheAPI(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "")
	r := &registry{t, f.Server}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	cluster := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials were sent to see whether the VIM is there")
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	cluster.Config.ErrorLog = quiet
	cluster.StartTLS()
	t.Cleanup(cluster.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw}))
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	made := r.ask(http.StatusCreated, http.MethodPost, ".json", map[string]any{"vim": kube("core", cluster.URL, ca)})["vim"].(map[string]any)
	id := fmt.Sprint(made["id"])
	cred := made["auth_cred"].(map[string]any)
	if made["name"] != "core" || made["type"] != "kubernetes" || made["auth_url"] != cluster.URL || made["status"] != "REACHABLE" || cred["bearer_token"] != "***" || cred["ssl_ca_cert"] != ca {
		t.Errorf("registered as %v", made)
	}
	if text := r.file("core"); !strings.Contains(text, "token: age:") || !strings.Contains(text, "id: "+id+"\n") || strings.Contains(text, vimSecret) {
		t.Errorf("the file is\n%s", text)
	}
	if by, err := process.Git(t.Context(), r.Desired(), "log", "-1", "--format=%s%n%b", "main"); err != nil || !strings.Contains(by, "Register VIM core") || !strings.Contains(by, "Requested-By:") {
		t.Errorf("%v: %s", err, by)
	}
	r.ask(http.StatusConflict, http.MethodPost, "", map[string]any{"vim": kube("core", cluster.URL, ca)})
	second := stack("edge", gone.URL+"/v3")
	second["is_default"] = true
	if said := r.ask(http.StatusConflict, http.MethodPost, "", map[string]any{"vim": second})["detail"]; !strings.Contains(fmt.Sprint(said), `"cloud" is the default already`) {
		t.Error(said)
	}
	second["is_default"] = false
	other := r.ask(http.StatusCreated, http.MethodPost, "", map[string]any{"vim": second})["vim"].(map[string]any)
	if cred := other["auth_cred"].(map[string]any); other["status"] != "UNREACHABLE" || cred["username"] != "nfv_user" || cred["password"] != "***" || cred["cert_verify"] != "True" ||
		other["vim_project"].(map[string]any)["name"] != "nfv" || other["description"] != "the edge" {
		t.Errorf("registered as %v", other)
	}

	// What was pushed is there too, and the client finds each by name and by id.
	if got := fmt.Sprint(r.names("")); got != "[cloud core edge]" {
		t.Errorf("listed %s", got)
	}
	for query, want := range map[string]string{".json?name=core": "[core]", "?id=" + id + "&name=edge": "[]", "?is_default=True": "[cloud]", "?type=openstack": "[edge]", "?status=REACHABLE": "[cloud core]"} {
		if got := fmt.Sprint(r.names(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if got := r.ask(http.StatusOK, http.MethodGet, ".json?name=core&fields=id", nil); fmt.Sprint(got) != fmt.Sprint(map[string]any{"vims": []any{map[string]any{"id": id}}}) {
		t.Errorf("with fields: %v", got)
	}
	r.ask(http.StatusBadRequest, http.MethodGet, "?colour=red", nil)
	if got := r.ask(http.StatusOK, http.MethodGet, "/"+id+".json", nil)["vim"].(map[string]any); got["name"] != "core" {
		t.Errorf("shown %v", got)
	}
	r.ask(http.StatusNotFound, http.MethodGet, "/none.json", nil)

	// A change keeps what it doesn't have, and the comments of a person.
	before := r.file("core")
	change(f.desired, map[string]string{"vims/core.yaml": "# Ours, in Hall 3.\n" + before + "\n"})
	got := r.ask(http.StatusOK, http.MethodPut, "/"+id+".json", map[string]any{"vim": map[string]any{"description": "in Hall 3"}})["vim"].(map[string]any)
	after := r.file("core")
	if got["description"] != "in Hall 3" || !strings.HasPrefix(after, "# Ours, in Hall 3.\n") || strings.Replace(after, "\ndescription: in Hall 3", "", 1) != "# Ours, in Hall 3.\n"+before {
		t.Errorf("changed to %v\n%s\nfrom\n%s", got, after, before)
	}
	change2 := map[string]any{"auth_cred": map[string]any{"username": "", "password": vimSecret + "2", "user_domain_name": "", "cert_verify": "False"},
		"vim_project": map[string]any{"name": "nfv", "project_domain_name": ""}}
	r.ask(http.StatusOK, http.MethodPut, fmt.Sprint("/", other["id"]), map[string]any{"vim": change2})
	if text := r.file("edge"); !strings.Contains(text, "insecure: true") || !strings.Contains(text, "username: nfv_user") || !strings.Contains(text, "userDomain: Default") {
		t.Errorf("the file is\n%s", text)
	}
	r.ask(http.StatusBadRequest, http.MethodPut, "/"+id, map[string]any{"vim": map[string]any{"name": "other"}})
	r.ask(http.StatusBadRequest, http.MethodPut, "/"+id, map[string]any{"vim": map[string]any{"type": "openstack"}})

	// One that instances use stays, whoever asks for its end.
	if said := r.ask(http.StatusConflict, http.MethodDelete, "/cloud.json", nil)["detail"]; !strings.Contains(fmt.Sprint(said), "runs at VIM cloud") {
		t.Error(said)
	}
	r.ask(http.StatusNoContent, http.MethodDelete, "/"+id+".json", nil)
	r.ask(http.StatusNotFound, http.MethodDelete, "/"+id+".json", nil)
	if got := fmt.Sprint(r.names("")); got != "[cloud edge]" {
		t.Errorf("listed %s", got)
	}
}

func TestVIMsThatCanNotBeAreRefusedWhole(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	r := &registry{t, s}
	with := func(base map[string]any, attribute string, value any) map[string]any {
		if outer, inner, deeper := strings.Cut(attribute, "."); deeper {
			base[outer].(map[string]any)[inner] = value
		} else if value == nil {
			delete(base, attribute)
		} else {
			base[attribute] = value
		}
		return base
	}
	k := func() map[string]any { return kube("x", "https://192.0.2.1:6443", "") }
	o := func() map[string]any { return stack("x", "https://192.0.2.1:5000/v3") }
	for _, c := range []struct {
		says string
		vim  any
	}{
		{"vim is missing", nil},
		{"name is missing", with(k(), "name", nil)},
		{"type is missing", with(k(), "type", nil)},
		{"auth_url is missing", with(k(), "auth_url", nil)},
		{"auth_cred is missing", with(k(), "auth_cred", nil)},
		{"vim_project is missing", with(k(), "vim_project", nil)},
		{"can't name a VIM", with(k(), "name", "../../x")},
		{"can't name a VIM", with(k(), "name", "x/y")},
		{"can't name a VIM", with(k(), "name", strings.Repeat("x", 300))},
		{"openstack or kubernetes", with(k(), "type", "vmware")},
		{"openstack or kubernetes", with(k(), "type", "sim")},
		{"http(s) URL", with(k(), "auth_url", "file:///etc/passwd")},
		{"holds credentials", with(k(), "auth_url", "https://u:"+vimSecret+"@192.0.2.1/")},
		{"is a reference", with(k(), "auth_cred.bearer_token", "file:/etc/shadow")},
		{"is a reference", with(o(), "auth_cred.password", "env:HOME")},
		{"stands for it", with(o(), "auth_cred.password", "***")},
		{"PEM", with(k(), "auth_cred.ssl_ca_cert", "file:/etc/ssl/cert.pem")},
		{"PEM", with(k(), "auth_cred.ssl_ca_cert", "no certificate")},
		{"True or False", with(o(), "auth_cred.cert_verify", "perhaps")},
		{"True or False", with(o(), "auth_cred.cert_verify", 7)},
		{"oidc_token_url", with(k(), "auth_cred.oidc_token_url", "https://192.0.2.1/")},
		{"write default", with(k(), "vim_project.name", "kube-system")},
		{"for OpenStack only", with(k(), "vim_project.project_domain_name", "x")},
		{"project", with(o(), "vim_project.name", "")},
		{"belong together", with(o(), "auth_cred.username", "")},
		{"extra", with(k(), "extra", map[string]any{"use_helm": true})},
		{"colour", with(k(), "colour", "red")},
		{"fingerprint", with(k(), "auth_cred.fingerprint", "red")},
	} {
		if said := r.ask(http.StatusBadRequest, http.MethodPost, "", map[string]any{"vim": c.vim})["detail"]; !strings.Contains(fmt.Sprint(said), c.says) {
			t.Errorf("want %q: %v", c.says, said)
		}
	}
	for _, body := range []any{json.RawMessage(`[]`), json.RawMessage(`{"vim": {`), json.RawMessage(`{"vim": {"name": 1}}`)} {
		if a, err := s.Do(t.Context(), http.MethodPost, "/v1.0/vims", body); err == nil && a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	r.ask(http.StatusMethodNotAllowed, http.MethodPatch, "", nil)
	r.ask(http.StatusNotFound, http.MethodGet, "/x/y", nil)
	if got := r.names(""); len(got) != 0 {
		t.Errorf("registered: %v", got)
	}
	s.Token = "wrong"
	r.ask(http.StatusUnauthorized, http.MethodGet, "", nil)
	r.ask(http.StatusUnauthorized, http.MethodGet, "/none", nil)
}
