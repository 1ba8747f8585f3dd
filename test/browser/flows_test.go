package browser_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestEachStateOfHealthIsShownByColourLetterAndWords(t *testing.T) {
	t.Parallel()
	s := browser.Sample(t)
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	for name, want := range map[string]string{"amf-1": "failed", "smf-1": "running", "smf-2": "drifting", "nrf": "suspended", "upf-1": "operating", "upf-2": "absent", "upf-3": "held", "ausf": "problem", "pcf": "stopped"} {
		// Without a reload: the page is live.
		tab.Eventually(`[...document.querySelectorAll(".cell")].find(c => c.querySelector(".name").textContent === "`+name+`")?.className`, "cell h-"+want)
	}
	tab.Clean()
}

func TestALoginOpensASessionThatLogoutEnds(t *testing.T) {
	t.Parallel()
	s := browser.Serve(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "")})
	b := browser.New(t)
	tab := b.Tab(t, s, browser.View{})

	if status := tab.Open("/ui/?q=web"); status != http.StatusOK || !strings.Contains(tab.Eval("location.href"), "/ui/login?back=") {
		t.Fatalf("without a session: %d at %s", status, tab.Eval("location.href"))
	}
	tab.Expect("401")
	tab.Type("#token", "no-such-token-anywhere")
	tab.Press("main button.primary")
	if text := tab.Text("[role=alert]"); !strings.Contains(text, "isn't known here") {
		t.Errorf("a wrong token is answered with %q", text)
	}
	tab.Type("#token", s.Token)
	tab.Press("main button.primary")
	tab.Eventually(`location.pathname + location.search`, "/ui/?q=web") // it leads back
	for name, c := range tab.Cookies() {
		if strings.Contains(name, "session") && (!c.HTTPOnly || c.SameSite != "Strict" || c.Secure) {
			t.Errorf("the cookie of the session by plain HTTP: %+v", c)
		}
	}
	if held := tab.Eval(`document.cookie + localStorage.length + sessionStorage.length`); held != `"00"` {
		t.Errorf("scripts of the page can read %s", held)
	}
	tab.Press("#logout")
	tab.Eventually("location.pathname", "/ui/login")
	tab.Open("/ui/")
	tab.Eventually("location.pathname", "/ui/login")
	tab.Clean()

	audit, err := os.ReadFile(filepath.Join(s.Data, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"login"`, `"logout"`, "wrong credentials"} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the audit log has no %s:\n%s", want, audit)
		}
	}
	if strings.Contains(string(audit), s.Token) || strings.Contains(string(audit), "no-such-token-anywhere") || strings.Contains(s.Log(), s.Token) {
		t.Error("a token stands in the audit log, or in the log")
	}
}

func TestARevokedTokenEndsItsSessions(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, nil)
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Expect("/ui/events") // the page may learn of the end by its events, before it is opened again
	file := filepath.Join(s.Data, "tokens.yaml")
	if err := os.WriteFile(file, []byte("tokens: [{name: somebody, role: viewer, token: another-token-of-24-chars}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tab.Open("/ui/")
	tab.Eventually("location.pathname", "/ui/login")
	tab.Clean()
}

func TestThePageIsOfUseWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{
		"instances/a/web/vnf.yaml": browser.VNF(1, "web", "state: notInstantiated\n"), "instances/b/db/vnf.yaml": browser.VNF(2, "db", "state: notInstantiated\n"),
	})
	tab := browser.New(t).Tab(t, s, browser.View{NoScript: true})
	tab.Login(s.Token)
	tab.Type("#q", "db")
	tab.Press("#apply")
	if text := tab.Text("#found"); text != "1 of 2 instances" {
		t.Errorf("the filter finds %q", text)
	}
	tab.Press(".theme a[title^=Dark]")
	if got := tab.Eval("document.documentElement.dataset.theme + location.search"); got != `"dark?q=db"` {
		t.Errorf("after the switch to dark colours: %s", got)
	}
	tab.Press("#logout")
	tab.Eventually("location.pathname", "/ui/login")
	tab.Clean()
}

func TestAPushIsSeenWithoutAReload(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "state: notInstantiated\n")})
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Eventually(`document.getElementById("live").dataset.state`, "live")
	tab.Eval(`document.querySelector(".cell").focus(); window.mark = 1`)
	s.PushFiles(t, map[string]string{"instances/a/more/vnf.yaml": browser.VNF(2, "more", "state: notInstantiated\n")})
	tab.Eventually(`document.querySelectorAll(".cell").length`, 2)
	if got := tab.Eval(`[window.mark, document.activeElement.className]`); got != `[1,"cell h-absent"]` {
		t.Errorf("the page was loaded anew, or the focus was lost: %s", got)
	}
	tab.Clean()
}

func TestWhatAPersonHasFilledInStaysWhenThePageChanges(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "")})
	browser.Await(t, s, 1, "INSTANTIATED")
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Open("/ui/instances/" + browser.ID(1))
	tab.Eventually(`[document.getElementById("live").dataset.state, document.getElementById("do-heal").disabled]`, []any{"live", false})
	tab.Type("form:has(#do-heal) input[name=cause]", "it hangs")
	tab.Choose("type", "FORCEFUL")
	tab.Eval(`document.activeElement.blur(); window.mark = 1`)
	s.Ask(t, browser.ID(1), "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
	// The level that it has now is the server's to say: nobody has typed another.
	tab.Eventually(`[document.querySelectorAll(".box.unit.k-good").length, document.querySelector("form:has(#do-scale_to_level) input[name=to]").value, document.getElementById("do-heal").disabled]`, []any{2, "1", false})
	if got := tab.Eval(`[window.mark, document.querySelector("form:has(#do-heal) input[name=cause]").value, document.querySelector("select[name=type]").value]`); got != `[1,"it hangs","FORCEFUL"]` {
		t.Errorf("what was filled in: %s", got)
	}
	tab.Clean()
}

func TestTheKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for n := range 30 {
		files["instances/a/web-"+browser.ID(n)+"/vnf.yaml"] = browser.VNF(n, "web", "state: notInstantiated\n")
	}
	s, _ := browser.Small(t, files)
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Keys("\t")
	if got := tab.Eval(`document.activeElement.className`); got != `"skip"` {
		t.Errorf("the first thing that Tab reaches is %s, not the link to the content", got)
	}
	tab.Keys("/")
	if got := tab.Eval(`document.activeElement.id`); got != `"q"` {
		t.Errorf("/ leads to %s", got)
	}
	tab.Keys(kb.Escape)
	tab.Eval(`document.querySelector(".cell").focus()`)
	at := func() string {
		return tab.Eval(`[...document.querySelectorAll(".cell")].indexOf(document.activeElement)`)
	}
	tab.Keys(kb.ArrowRight)
	if got := at(); got != "1" {
		t.Errorf("the arrow to the right leads to cell %s", got)
	}
	tab.Keys(kb.ArrowDown)
	if got := at(); got == "1" || got == "-1" {
		t.Errorf("the arrow down leads to cell %s", got)
	}
	tab.Clean()
}

func TestOnlyWhatIsTheCallersIsShown(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{
		"instances/east/web/vnf.yaml": browser.VNF(1, "web-east", "state: notInstantiated\n"), "instances/west/db/vnf.yaml": browser.VNF(2, "db-west", "state: notInstantiated\n"),
		"projects/east.yaml": "instances: [east]\n",
	})
	token := func(name, more string) string {
		text := name + "-token-of-24-characters"
		file := filepath.Join(s.Data, "tokens.yaml")
		old, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, append(old, "- {name: "+name+", token: "+text+", "+more+"}\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	b := browser.New(t)
	tab := b.Tab(t, s, browser.View{})
	tab.Login(token("eve", "roles: [{role: viewer, projects: [east]}]"))
	if got := tab.Eval(`[...document.querySelectorAll(".cell .name")].map(e => e.textContent)`); got != `["web-east"]` {
		t.Errorf("who sees the project east is shown %s", got)
	}
	if got := tab.Text("#content") + tab.Eval("document.documentElement.innerHTML"); strings.Contains(got, "west") {
		t.Errorf("the page tells of what is in another project: %s", got)
	}
	tab.Clean()

	em := b.Tab(t, s, browser.View{})
	em.Expect("403")
	em.Open("/ui/login")
	em.Type("#token", token("em", "role: operator, interface: sol002"))
	em.Press("main button.primary")
	if text := em.Text("[role=alert]"); !strings.Contains(text, "element manager") {
		t.Errorf("the token of an element manager is answered with %q", text)
	}
	em.Clean()
}

// mustJSON is a text as a script's value is shown.
func mustJSON(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	b = bytes.ReplaceAll(b, []byte(`\u003c`), []byte("<"))
	b = bytes.ReplaceAll(b, []byte(`\u003e`), []byte(">"))
	return string(bytes.ReplaceAll(b, []byte(`\u0026`), []byte("&")))
}

func TestAnInstanceOfAnOlderVersionIsMarkedInTheFleet(t *testing.T) {
	testenv.Chaos(t, "Chromium")
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/a/old/vnf.yaml": browser.VNF(1, "old", ""), "instances/a/older/vnf.yaml": browser.VNF(2, "older", "")})
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Eventually(`document.querySelectorAll(".cell").length * 10 + document.querySelectorAll(".older, .older-link").length`, 20)
	s.PushPackages(t, []string{nextVnfd}, process.NextVersion(t, process.SmallPackage(), "next", process.SmallVnfd, nextVnfd, "'1.0'", "'2.0'"))
	s.PushFiles(t, map[string]string{"instances/b/new/vnf.yaml": strings.Replace(browser.VNF(3, "new", ""), process.SmallVnfd, nextVnfd, 1)})
	tab.Open("/ui/")
	tab.Eventually(`document.querySelectorAll(".cell").length * 10 + document.querySelectorAll(".cell .older").length`, 32)
	if got := tab.Text(".cells li:first-child"); !strings.Contains(got, "1.0") || !strings.Contains(got, "2.0 is newer") {
		t.Errorf("the cell says %q", got)
	}
	tab.Accessible()
	look(t, tab, "older")
	tab.Press(".older-link")
	tab.Eventually(`document.querySelectorAll(".cell").length * 10 + document.querySelectorAll(".older-link[aria-current=true]").length`, 21)
	tab.Accessible()
	tab.Clean()
}
