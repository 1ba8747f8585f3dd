package browser_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
)

// hostile are texts that a careless page would run. Each sets window.hit, or opens a dialog.
func hostile() []string {
	return []string{
		`<script>window.hit=1;alert(1)</script>`,
		`"><img src=x onerror="window.hit=1;alert(2)">`,
		`' autofocus onfocus='window.hit=1`,
		`javascript:window.hit=1`,
		`</title></textarea></style><svg onload=window.hit=1>`,
		`{{.Data}}${window.hit=1}`,
	}
}

func TestWhatOutsidersWriteIsShownAsItIsAndNeverRun(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i, text := range hostile() {
		quoted := fmt.Sprintf("%q", text)
		// Its name, description and metadata, and its error: there is no such level.
		files[fmt.Sprintf("instances/x%d/a/vnf.yaml", i)] = strings.Replace(browser.VNF(100+i, "x", ""), "name: x\n", "name: "+quoted+"\ndescription: "+quoted+"\n", 1) +
			"state: notInstantiated\nmetadata: {" + quoted + ": " + quoted + "}\n"
		files["instances/"+strings.ReplaceAll(text, "/", "⁄")+"/b/vnf.yaml"] = browser.VNF(200+i, "b", "state: notInstantiated\n")
	}
	s, _ := browser.Small(t, files)
	// Somebody's name, too, in which the token file takes no angle brackets.
	name, token := `" autofocus onfocus="window.hit=1`, "a-token-of-24-characters"
	file := filepath.Join(s.Data, "tokens.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "tokens: [{name: %q, role: admin, token: %s}]\n", name, token), 0o600); err != nil {
		t.Fatal(err)
	}
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(token)
	if got := tab.Text(".who .name"); got != name {
		t.Errorf("the caller's name is shown as %q", got)
	}
	shown := func() string {
		return tab.Eval(`document.body.innerText + [...document.querySelectorAll("[title]")].map(e => e.title).join(" ")`)
	}
	untouched := func(where string) {
		t.Helper()
		inert(t, tab, where)
	}
	text := shown()
	for i, x := range hostile() {
		if !strings.Contains(text, strings.Trim(mustJSON(x), `"`)) {
			t.Errorf("the fleet doesn't show %q literally", x)
		}
		untouched(fmt.Sprintf("fleet, text %d", i))
	}
	tab.Expect("404")
	tab.Expect("401")
	for _, x := range hostile() {
		for _, path := range []string{"/ui/?q=", "/ui/?folder=", "/ui/?package=", "/ui/?state=", "/ui/?group=", "/ui/?page=", "/ui/login?back=", "/ui/login?code=", "/ui/theme?set=dark&back=", "/ui/"} {
			tab.Open(path + url.QueryEscape(x))
			untouched(path + x)
			if got := tab.Eval("location.origin"); got != mustJSON(s.URL) {
				t.Fatalf("%s led to %s", path+x, got)
			}
		}
	}
	for _, away := range []string{"https://elsewhere.example/", "//elsewhere.example/", `/\elsewhere.example/`, "/ui/../../elsewhere", "javascript:alert(1)"} {
		tab.Open("/ui/theme?set=dark&back=" + url.QueryEscape(away))
		if got := tab.Eval("location.origin"); got != mustJSON(s.URL) {
			t.Errorf("the page leads to %s, by way of %s", got, away)
		}
	}
	tab.Clean()
}
