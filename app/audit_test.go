package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// records are those in the audit log of a data directory.
func records(t *testing.T, data string) (all []audit.Record) {
	t.Helper()
	text, err := os.ReadFile(app.AuditFile(data))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, r)
	}
	return all
}

// send asks the server for something, with the header's credentials.
func send(t *testing.T, s *process.Server, method, path, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(path, "/vnflcm/v2") {
		r.Header.Set("Version", "2.0.0")
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestEachWriteRefusalAndFailedLoginIsOnRecordWhenItIsAnswered(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	data := t.TempDir()
	viewer := "viewers-token-0123456789"
	s, stop := start(t, data, &sim.Cloud{}, "")
	defer stop()
	stop()
	tokens := fmt.Sprintf("tokens:\n- {name: anna, role: admin, token: %s}\n- {name: otto, role: viewer, token: %s}\n", s.Token, viewer)
	if err := os.WriteFile(filepath.Join(data, "tokens.yaml"), []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	s, stop = start(t, data, &sim.Cloud{}, "")
	defer stop()
	anna, otto := "Bearer "+s.Token, "Bearer "+viewer
	const password = "hunter2-hunter2-hunter2"
	for _, c := range []struct {
		method, path, body, auth string
		status                   int
		want                     *audit.Record
	}{
		{"POST", "/vnflcm/v2/subscriptions", `{"callbackUri": "http://127.0.0.1:1/", "authentication": {"authType": ["BASIC"], "paramsBasic": {"userName": "u", "password": "` + password + `"}}}`, anna, 0,
			&audit.Record{Identity: "anna", Action: "POST"}},
		{"POST", "/vnflcm/v2/vnf_instances", `{"vnfdId": "none"}`, anna, 422, &audit.Record{Identity: "anna", Action: "POST", Outcome: audit.Refused}},
		{"POST", "/vnflcm/v2/vnf_instances", `{"vnfdId": "none"}`, otto, 403, &audit.Record{Identity: "otto", Action: "POST", Outcome: audit.Refused}},
		{"POST", "/vnfpkgm/v1/vnf_packages", `{}`, anna, 201, &audit.Record{Identity: "anna", Action: "POST", Outcome: audit.Done}},
		{"GET", "/vnflcm/v2/vnf_instances", "", otto, 200, nil},
		{"GET", "/vnflcm/v2/vnf_instances", "", "Bearer " + password, 401, &audit.Record{Action: "login", Outcome: audit.Refused}},
		{"DELETE", "/vnflcm/v2/subscriptions/x", "", "", 401, &audit.Record{Action: "DELETE", Outcome: audit.Refused}},
		{"GET", "/git/desired.git/info/refs?service=git-upload-pack", "", "", 401, nil},
		{"GET", "/git/desired.git/info/refs?service=git-receive-pack", "", otto, 403, &audit.Record{Identity: "otto", Action: "GET", Outcome: audit.Refused}},
		{"POST", "/jibe/v1/accept", "", otto, 403, &audit.Record{Identity: "otto", Action: "POST", Outcome: audit.Refused}},
		{"POST", "/webhook", "", "", 202, nil},
	} {
		before := len(records(t, data))
		header := []string{}
		if c.auth != "" {
			header = []string{"Authorization", c.auth}
		}
		res := send(t, s, c.method, c.path, c.body, header...)
		if c.status != 0 && res.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, res.StatusCode, c.status)
		}
		got := records(t, data)[before:]
		if c.want == nil {
			if len(got) > 0 {
				t.Errorf("%s %s: recorded %+v", c.method, c.path, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Identity != c.want.Identity || got[0].Action != c.want.Action || c.want.Outcome != "" && got[0].Outcome != c.want.Outcome ||
			got[0].Source != "127.0.0.1" || got[0].Status != res.StatusCode || got[0].Outcome != audit.Done && got[0].Reason == "" || (got[0].Identity != "") != (got[0].Issuer != "") {
			t.Errorf("%s %s: recorded %+v", c.method, c.path, got)
		}
		if location := res.Header.Get("Location"); location != "" && !strings.HasSuffix(location, got[0].Result) {
			t.Errorf("%s: %+v", location, got)
		}
	}
	text, err := os.ReadFile(app.AuditFile(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{password, s.Token, viewer} {
		if bytes.Contains(text, []byte(s)) {
			t.Errorf("a secret is in the audit log: %s", text)
		}
	}
	stop()
	all := records(t, data)
	if first, last := all[0], all[len(all)-1]; first.Action != "start" || last.Action != "stop" || !strings.HasPrefix(first.Identity, "local:") {
		t.Errorf("%+v … %+v", first, last)
	}
	key, err := app.AuditKey(data, secret.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := audit.ReadHead(app.AuditHead(data), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(audit.Check{Key: key, Ends: []audit.Head{end}}, app.AuditFile(data)); err != nil {
		t.Error(err)
	}
}

func TestAChangedTokenFileAndTheCommitOfAVIMAreOnRecord(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, stop := start(t, data, &sim.Cloud{}, "")
	defer stop()
	file := filepath.Join(data, "tokens.yaml")
	last := func() audit.Record { all := records(t, data); return all[len(all)-1] }
	tokens := fmt.Sprintf("tokens:\n- {name: anna, role: admin, token: %s}\n", s.Token)
	for _, c := range []struct {
		text    string
		outcome audit.Outcome
	}{{tokens, audit.Done}, {tokens + "- {name: short, role: admin, token: abc}\n", audit.Failed}, {tokens, audit.Done}} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		send(t, s, "GET", "/vnflcm/v2/vnf_instances", "", "Authorization", "Bearer "+s.Token)
		if r := last(); r.Action != "reload" || r.Object != "tokens.yaml" || r.Outcome != c.outcome {
			t.Errorf("recorded %+v", r)
		}
		before := len(records(t, data))
		send(t, s, "GET", "/vnflcm/v2/vnf_instances", "", "Authorization", "Bearer "+s.Token)
		if now := len(records(t, data)); now > before {
			t.Errorf("an unchanged file is on record %d times", now-before)
		}
	}
	body := `{"vim": {"name": "kube-z", "type": "kubernetes", "auth_url": "https://192.0.2.1:6443", "auth_cred": {"username": "", "bearer_token": "a-token-of-nobody"}, "vim_project": {"name": "default"}}}`
	res := send(t, s, "POST", "/v1.0/vims", body, "Authorization", "Bearer "+s.Token)
	if r := last(); res.StatusCode != 201 || r.Action != "POST" || len(r.Commit) != 40 {
		t.Errorf("%d, recorded %+v", res.StatusCode, r)
	}
}

func TestWhoGuessesIsSlowedDownAndNotWhoIsKnown(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), &sim.Cloud{}, "")
	defer stop()
	const path = "/vnflcm/v2/vnf_instances"
	known := []string{"Authorization", "Bearer " + s.Token}
	if res := send(t, s, "GET", path, "", known...); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	throttled := 0
	for i := range 40 {
		res := send(t, s, "GET", path, "", "Authorization", fmt.Sprintf("Bearer guess-%030d", i))
		switch res.StatusCode {
		case http.StatusTooManyRequests:
			throttled++
			if res.Header.Get("Retry-After") == "" || res.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%v", res.Header)
			}
		case http.StatusUnauthorized:
		default:
			t.Errorf("%s", res.Status)
		}
	}
	if throttled == 0 {
		t.Error("nobody was slowed down")
	}
	if res := send(t, s, "GET", path, "", known...); res.StatusCode != http.StatusOK {
		t.Errorf("who is known is refused for what others from his address do: %s", res.Status)
	}
	// git guesses by the same door.
	out, err := exec.CommandContext(t.Context(), "git", "-c", "credential.helper=", "ls-remote", strings.Replace(s.URL, "http://", "http://x:wrong@", 1)+"/git/desired.git").CombinedOutput()
	if err == nil {
		t.Errorf("%s", out)
	}
	res := send(t, s, "GET", "/metrics", "", known...)
	text := new(bytes.Buffer)
	if _, err := text.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`jibe_login_failures_total{reason="wrong"}`, `jibe_login_failures_total{reason="throttled"}`, "jibe_audit_writable 1", "jibe_audit_last_record"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%s isn't among the metrics", line)
		}
	}
}
