package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
)

// trap is a page of another site, which a person with a session opens. It tries what a site can without the person.
const trap = `<!doctype html><title>You have won</title>
<iframe src="%[1]s/ui/"></iframe><iframe src="%[1]s/ui/login"></iframe><iframe src="%[1]s/ui/nothing"></iframe><iframe src="%[1]s/nothing"></iframe>
<script>
	window.got = {};
	const note = (what, p) => p.then(() => got[what] = "read", () => got[what] = "refused");
	note("page", fetch("%[1]s/ui/", {credentials: "include"}));
	note("api", fetch("%[1]s/jibe/v1/problems", {credentials: "include"}));
	note("image", new Promise((ok, no) => { const i = new Image(); i.onload = ok; i.onerror = no; i.src = "%[1]s/ui/"; }));
	note("script", new Promise((ok, no) => { const s = document.createElement("script"); s.onload = ok; s.onerror = no; s.src = "%[1]s/jibe/v1/problems"; document.head.append(s); }));
	note("events", new Promise((ok, no) => { const e = new EventSource("%[1]s/ui/events", {withCredentials: true}); e.onopen = ok; e.onerror = no; }));
	got.posted = "";
	fetch("%[1]s/ui/logout", {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({csrf: "x"})}).finally(() => got.posted = "sent");
</script>`

func TestAnotherSiteFramesReadsAndSendsNothing(t *testing.T) {
	t.Parallel()
	s := browser.Serve(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "state: notInstantiated\n")})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, fmt.Sprintf(trap, s.URL))
	}))
	t.Cleanup(site.Close)
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)

	victim := tab.Another()
	victim.Open(strings.Replace(site.URL, "127.0.0.1", "localhost", 1) + "/")
	victim.Eventually(`["page", "api", "image", "script", "events"].map(x => window.got[x] || "").join() + window.got.posted`, "refused,refused,refused,refused,refused"+"sent")
	victim.Hears("frame-ancestors 'none'")
	var frames string
	victim.Into(`[...document.querySelectorAll("iframe")].map(f => { try { return f.contentDocument === null } catch { return true } }).join()`, &frames)
	if frames != "true,true,true,true" {
		t.Errorf("frames can be read: %s", frames)
	}

	tab.Open("/ui/")
	tab.Eventually("location.pathname", "/ui/") // it is logged in still
	for name, c := range tab.Cookies() {
		if strings.Contains(name, "session") && (!c.HTTPOnly || string(c.SameSite) != "Strict") {
			t.Errorf("cookie %s: %+v", name, c)
		}
	}
	tab.Clean()
}
