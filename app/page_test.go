package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/ui"
)

// ask makes a request of the web page, as a browser does that follows nothing by itself. header
// are names and values.
func ask(t *testing.T, s *process.Server, method, path string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestTokensInTheFormAreThrottledCountedAndAuditedAsThoseInAHeaderAre(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	// A token that was right before is let through, whatever comes from its address.
	s.Want(t, http.StatusOK, http.MethodGet, process.Instances, nil, nil)
	var last *http.Response
	for range 300 { // a slow machine is slower than the bound at first
		var body string
		if last, body = ask(t, s, "POST", "/ui/login", url.Values{"token": {"a-guess-that-is-wrong"}}); last.StatusCode == http.StatusTooManyRequests {
			if last.Header.Get("Retry-After") == "" || !strings.Contains(body, "try again in") {
				t.Errorf("who is to wait is told %v\n%s", last.Header, body)
			}
			break
		}
	}
	if last.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("after 300 wrong tokens the answer is %s", last.Status)
	}
	metrics(t, s, `jibe_login_failures_total{reason="throttled"} 1`, `jibe_login_failures_total{reason="wrong"} `)
	log, err := os.ReadFile(filepath.Join(s.Data, "audit.jsonl"))
	if err != nil || !strings.Contains(string(log), "wrong credentials for the web page") || !strings.Contains(string(log), "too many wrong") || strings.Contains(string(log), "a-guess") {
		t.Errorf("the audit log: %v\n%s", err, log)
	}
}

func TestALoginLinkOpensOneSessionAndNoneForAnotherSite(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	var link ui.Link
	s.Want(t, http.StatusCreated, http.MethodPost, "/jibe/v1/ui-links", nil, &link)
	if resp, body := ask(t, s, "GET", link.Path, nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); resp.StatusCode != http.StatusOK || len(resp.Cookies()) > 0 || !strings.Contains(body, "logs you in") {
		t.Errorf("another site that leads to the link: %s, %v", resp.Status, resp.Cookies())
	}
	resp, _ := ask(t, s, "GET", link.Path, nil, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate")
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
		t.Fatalf("the link: %s, %v", resp.Status, resp.Cookies())
	}
	if page, body := ask(t, s, "GET", "/ui/", nil, "Cookie", resp.Cookies()[0].String()); page.StatusCode != http.StatusOK || !strings.Contains(body, "admin") {
		t.Errorf("its session: %s", page.Status)
	}
	if again, _ := ask(t, s, "POST", "/ui/login", url.Values{"code": {strings.TrimPrefix(link.Path, "/ui/login?code=")}}); again.StatusCode != http.StatusUnauthorized {
		t.Errorf("the link, once more: %s", again.Status)
	}
	log, err := os.ReadFile(filepath.Join(s.Data, "audit.jsonl"))
	if err != nil || !strings.Contains(string(log), `"login"`) || strings.Contains(string(log), strings.TrimPrefix(link.Path, "/ui/login?code=")) {
		t.Errorf("the audit log: %v\n%s", err, log)
	}
	if strings.Contains(link.Path, s.Token) {
		t.Error("the link has the token in it")
	}
}

func TestFormsThatAnotherSiteSendsAreRefused(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	resp, _ := ask(t, s, "POST", "/ui/login", url.Values{"token": {s.Token}}, "Sec-Fetch-Site", "same-origin")
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("a login: %s", resp.Status)
	}
	cookie := strings.SplitN(resp.Header.Get("Set-Cookie"), ";", 2)[0]
	for name, header := range map[string][]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "another port": {"Sec-Fetch-Site", "same-site"}, "an origin of old browsers": {"Origin", "https://elsewhere.example"},
		"no token": {"Sec-Fetch-Site", "same-origin"},
	} {
		if resp, _ := ask(t, s, "POST", "/ui/logout", url.Values{"csrf": {"AAAA"}}, append(header, "Cookie", cookie)...); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	if resp, _ := ask(t, s, "GET", "/ui/", nil, "Cookie", cookie); resp.StatusCode != http.StatusOK {
		t.Errorf("the session has ended: %s", resp.Status)
	}
}

func TestPagesTellBrowsersWhatTheyMayDoAndFilesAreKept(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	resp, body := ask(t, s, "GET", "/ui/login", nil)
	for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
		if got := resp.Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, rest, _ := strings.Cut(body, `href="/ui/static/`)
	file, _, _ := strings.Cut(rest, `"`)
	resp, _ = ask(t, s, "GET", "/ui/static/"+file, nil, "Accept-Encoding", "gzip")
	if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") || resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("/ui/static/%s: %s, %v", file, resp.Status, resp.Header)
	}
	if again, _ := ask(t, s, "GET", "/ui/static/"+file, nil, "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("a file that the browser has: %s", again.Status)
	}
	if old, _ := ask(t, s, "GET", "/ui/static/0123456789abcdef/style.css", nil); old.StatusCode != http.StatusOK || strings.Contains(old.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("the file of a former version: %s, %v", old.Status, old.Header)
	}
	if resp, _ := ask(t, s, "GET", "/ui/", nil, "Authorization", "Bearer "+s.Token, "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a page isn't compressed: %v", resp.Header)
	}
	if resp, _ := ask(t, s, "GET", "/", nil, "Accept", "text/html"); resp.Header.Get("Location") != "/ui/" {
		t.Errorf("a browser that asks for / is answered %s", resp.Status)
	}
}

// listener reads the events of the page.
type listener struct {
	lines *bufio.Scanner
	end   context.CancelFunc
}

func events(t *testing.T, s *process.Server, token, after string) *listener {
	t.Helper()
	return eventsAt(t, s, "/ui/events", token, after)
}

func eventsAt(t *testing.T, s *process.Server, path, token, after string) *listener {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), kit.Patience)
	t.Cleanup(end)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("events: %s", resp.Status)
	}
	return &listener{bufio.NewScanner(resp.Body), end}
}

// next returns the next event's id, kind and data.
func (l *listener) next(t *testing.T) (id, kind, data string) {
	t.Helper()
	for l.lines.Scan() {
		key, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch key {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if kind != "" {
				return id, kind, data
			}
		}
	}
	t.Fatalf("no event came: %v", l.lines.Err())
	return "", "", ""
}

func TestEventsTellWhatIsTheCallersAndWhatTheyMissed(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	const east, west, north = "3a5c1f0e-0000-4000-8000-00000000000a", "3a5c1f0e-0000-4000-8000-00000000000b", "3a5c1f0e-0000-4000-8000-00000000000c"
	text := func(id, more string) string { return instance("id: " + id + "\nstate: notInstantiated\n" + more) }
	c := repository(t, s, map[string]string{"vims/cloud.yaml": "type: sim\ndefault: true\n", "projects/east.yaml": "instances: [east]\n",
		"instances/east/vnf.yaml": text(east, ""), "instances/west/vnf.yaml": text(west, ""),
		"instances/north/vnf.yaml": strings.Replace(text(north, ""), "namespace: a", "namespace: n", 1)})
	const confined = "a-token-of-24-characters"
	file := filepath.Join(s.Data, "tokens.yaml")
	tokens, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(tokens, "- {name: eve, token: "+confined+", roles: [{role: viewer, projects: [east]}]}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen struct{ ID string }
	kit.Eventually(t, func() error { return s.Get(t.Context(), "/vnflcm/v2/vnf_instances/"+west, &seen) })

	all, eve := events(t, s, s.Token, ""), events(t, s, confined, "")
	for _, l := range []*listener{all, eve} {
		if _, kind, _ := l.next(t); kind != "hello" {
			t.Fatalf("the first event is %s", kind)
		}
	}
	at := ""
	until := func(l *listener, id string) (said string) {
		for !strings.Contains(said, id) {
			var data string
			at, _, data = l.next(t)
			said += data
		}
		return said
	}
	change(c, map[string]string{"instances/west/vnf.yaml": text(west, "description: one\n")})
	until(all, west)
	// Its operation is told in as many events as there are looks meanwhile. What is told of another instance after its
	// end comes after them all.
	kit.Eventually(t, func() error {
		if op := lastOf(t, s, west); op.State != "COMPLETED" {
			return fmt.Errorf("the last operation is %+v", op)
		}
		return nil
	})
	change(c, map[string]string{"instances/north/vnf.yaml": strings.Replace(text(north, "description: one\n"), "namespace: a", "namespace: n", 1)})
	until(all, north)
	before := at
	change(c, map[string]string{"instances/east/vnf.yaml": text(east, "description: one\n")})
	until(all, east)
	if said := until(eve, east); strings.Contains(said, west) {
		t.Errorf("who sees the project east is told %s", said)
	}
	all.end()
	again := events(t, s, s.Token, before)
	again.next(t)
	if said := until(again, east); strings.Contains(said, west) || strings.Contains(said, `"all"`) {
		t.Errorf("who comes back is told %s, which isn't what they missed", said)
	}
	// What changes after a page was drawn, and before it listens, isn't on it.
	_, page := ask(t, s, "GET", "/ui/instances/"+west, nil, "Authorization", "Bearer "+s.Token)
	_, path, _ := strings.Cut(page, `data-events="`)
	path, _, _ = strings.Cut(path, `"`)
	change(c, map[string]string{"instances/west/vnf.yaml": text(west, "description: none\n")})
	until(again, west)
	late := eventsAt(t, s, path, s.Token, "")
	until(late, west)
	late.end()

	other := events(t, s, s.Token, "anotherprocess-1")
	other.next(t)
	eve.end()

	began := time.Now()
	stop() // which streams that are open don't hold up
	if took := time.Since(began); took > 8*time.Second {
		t.Logf("the server took %s to end", took)
	}
}

// rolledBackID is the instance whose instantiation is rolled back.
const rolledBackID = "3a5c1f0e-0000-4000-8000-00000000000b"

func TestThePageShowsWhyAnInstantiationWasRolledBack(t *testing.T) {
	t.Parallel()

	f := newFollowed(t, "")
	f.cloud.Refuse("Workload/b/vdu1", "no <room> in the rack")
	change(f.desired, map[string]string{"instances/b/vnf.yaml": strings.NewReplacer(followID, rolledBackID, "namespace: a", "namespace: b").Replace(f.file(""))})
	var got struct {
		Jibe struct {
			RolledBack struct{ ID string }
		}
	}
	kit.Eventually(t, func() error {
		if err := f.Get(t.Context(), process.Instances+"/"+rolledBackID, &got); err != nil {
			return err
		}
		if got.Jibe.RolledBack.ID == "" {
			return fmt.Errorf("no instantiation was rolled back: %+v", got)
		}
		return nil
	})

	login, _ := ask(t, f.Server, "POST", "/ui/login", url.Values{"token": {f.Token}}, "Sec-Fetch-Site", "same-origin")
	if login.StatusCode != http.StatusSeeOther {
		t.Fatalf("a login: %s", login.Status)
	}
	cookie := strings.SplitN(login.Header.Get("Set-Cookie"), ";", 2)[0]
	show := func(id string) string {
		t.Helper()
		page, body := ask(t, f.Server, "GET", "/ui/instances/"+id, nil, "Cookie", cookie)
		if page.StatusCode != http.StatusOK {
			t.Fatalf("the page of instance %s: %s", id, page.Status)
		}
		return body
	}
	body := show(rolledBackID)
	for _, want := range []string{`<span class="badge k-warn">INSTANTIATE rolled back</span>`, `href="/ui/operations/` + got.Jibe.RolledBack.ID + `">INSTANTIATE was rolled back</a>`, "no &lt;room&gt; in the rack"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if body := show(followID); strings.Contains(body, "rolled back") || strings.Contains(body, `id="waits-for"`) {
		t.Error("the page of another instance shows it, too, or that it waits")
	}

	frozen := fmt.Sprintf("freezes:\n- {from: %s, until: %s, reason: new year}\n", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	change(f.desired, map[string]string{"maintenance.yaml": frozen, "instances/a/vnf.yaml": f.file("levels: {front: 2}\n")})
	kit.Eventually(t, func() error {
		if body := show(followID); !strings.Contains(body, `id="waits-for"`) {
			return fmt.Errorf("the page doesn't show that the instance waits: %.200s", body)
		}
		return nil
	})
}
