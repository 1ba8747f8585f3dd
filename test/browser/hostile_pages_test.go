package browser_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// made finds on a page what a text would have to become before it can do anything: an attribute that
// is a handler, an address that is a script, an element that the templates don't have, or the mark
// that each hostile text sets where it is run.
const made = `[
	...(window.hit === undefined ? [] : ["run: " + window.hit]),
	...[...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => /^on/i.test(a.name) || /^[\s\x00-\x1f]*(javascript|data|vbscript):/i.test(a.value) && /^(href|src|action|formaction|xlink:href)$/i.test(a.name))).map(e => e.outerHTML.slice(0, 200)),
	...[...document.scripts].filter(s => !s.src.startsWith(location.origin + "/ui/static/")).map(s => s.outerHTML.slice(0, 200)),
	...[...document.images].filter(i => !i.src.startsWith(location.origin + "/ui/static/")).map(i => i.outerHTML.slice(0, 200)),
	...[...document.querySelectorAll("iframe, object, embed, svg, math, style, base, template, audio, video, meta[http-equiv], link:not([href^='/ui/static/']), form:not([action^='/ui/'])")].map(e => e.outerHTML.slice(0, 200)),
]`

// text is what a page shows, and says of itself: titles, what stands in fields, and what choices are.
const text = `document.title + "\n" + document.body.textContent + "\n" +
	[...document.querySelectorAll("*")].flatMap(e => [e.title, e.getAttribute("aria-label"), e.value, e.placeholder]).filter(v => typeof v === "string").join("\n")`

// inert fails the test where a page that shows an outsider's text made anything of it, and where it
// doesn't show all of these texts as they are. That no policy had to stop anything is for
// [browser.Tab.Clean] to see.
func inert(t *testing.T, tab *browser.Tab, where string, texts ...string) {
	t.Helper()
	var found []string
	tab.Into(made, &found)
	for _, what := range found {
		t.Errorf("%s: something of an outsider's was run, or could be: %s", where, what)
	}
	var shown string
	tab.Into(text, &shown)
	for _, x := range texts {
		if !strings.Contains(shown, x) {
			t.Errorf("%s doesn't show %s as it is:\n%.3000s", where, x, strings.Join(strings.Fields(shown), " "))
		}
	}
}

// evil is a hostile text that says for which field it is. It leaves an attribute in any quotes, an
// element and a script, and can stand in YAML without quotes.
func evil(field string) string {
	return "x" + field + `"><script>window.hit=1</script><img src=x onerror=window.hit=1 title=` + field + `>`
}

// attribute is one for what takes no angle brackets.
func attribute(field string) string {
	return `x` + field + `" autofocus onfocus="window.hit=1" onmouseover="window.hit=1`
}

// quoted is the text as it stands between the quotes of an error, or of JSON.
func quoted(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

func TestWhatOutsidersWriteIsTextOnThePagesOfInstancesOperationsAndGit(t *testing.T) {
	t.Parallel()
	s, cloud := browser.Empty(t)
	pkg := process.NextVersion(t, process.SmallPackage(), "small", "product_name: small", "product_name: "+evil("product"), "valid_values: [small]", "valid_values: ['"+evil("product")+"']",
		"default: small\n", "default: "+evil("product")+"\n", "Jibe Tests", evil("provider"), "'1.0'", "'1.0"+evil("version")+"'", "name: front", "name: "+evil("aspect"),
		"description: the smallest size", "description: "+evil("level"))
	next := process.NextVersion(t, pkg, "next", process.SmallVnfd, nextVnfd, "xproduct", "xnext")
	s.PushPackages(t, []string{process.SmallVnfd, nextVnfd}, pkg, next)
	vnf := func(n int, name, more string) string {
		return strings.Replace(browser.VNF(n, "NAME", more), "NAME", "'"+name+"'", 1)
	}
	cloud.Fail(browser.Object(1), evil("reason"))
	s.PushFiles(t, map[string]string{
		"vims/sim.yaml":                 "type: sim\ndefault: true\n",
		"instances/a/failing/vnf.yaml":  vnf(1, evil("name"), "description: '"+evil("description")+"'\n"),
		"instances/a/drifting/vnf.yaml": "id: " + browser.ID(2) + "\nname: drifting\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\ndrift: report\nparams: {namespace: n2, router: true}\n",
		"instances/a/problem/vnf.yaml":  vnf(3, "problem", "levels: {'"+evil("aspect-in-file")+"': 1}\n"),
		"instances/a/quiet/vnf.yaml":    vnf(4, "quiet", ""),
	})
	browser.Await(t, s, 2, "INSTANTIATED")
	browser.Await(t, s, 4, "INSTANTIATED")
	cloud.DriftBy(browser.Object(2), evil("manager"))
	cloud.SwitchTraffic("Router/n2/router", evil("content"))

	// What comes by the API: names and metadata, a cause, whatever a request has beside what is known.
	changed := s.Want(t, http.StatusAccepted, http.MethodPatch, process.Instances+"/"+browser.ID(4), map[string]any{
		"vnfInstanceDescription": evil("api-description"), "metadata": map[string]any{evil("key"): evil("value")}}, nil, "Content-Type", "application/merge-patch+json")
	s.Await(t, changed.ID(), "COMPLETED")
	healed := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+browser.ID(4)+"/heal", map[string]any{
		"cause": evil("cause"), "additionalParams": map[string]any{evil("param"): evil("param-value")}}, nil)
	s.Await(t, healed.ID(), "COMPLETED")

	// What comes by git: an author, a message, names of files and of a branch, and their content.
	w := process.NewWorkTree(t, s.Desired())
	w.Write("notes/"+strings.ReplaceAll(evil("file"), "/", "⁄")+".txt", evil("line")+"\n")
	w.Git("add", "-A")
	w.Git("commit", "--quiet", "--author", attribute("author")+" <a@b>", "-m", evil("subject")+"\n\n"+evil("body"))
	if out, err := w.TryPush(); err != nil { // Jibe's own commits may be faster
		t.Fatalf("push: %v\n%s", err, out)
	}
	sha := w.Git("rev-parse", "HEAD")
	branch := `x"><svg/onload=window.hit=1>`
	w.Write("instances/a/quiet/vnf.yaml", vnf(4, "quiet", "suspend: true\n# "+evil("comment")+"\n"))
	w.Commit(evil("branch-subject"))
	w.Git("push", "--quiet", "origin", "HEAD:refs/heads/"+branch)

	// The caller's own name, in which the token file takes no angle brackets.
	token := "a-token-of-24-characters"
	name := attribute("user")
	if err := os.WriteFile(filepath.Join(s.Data, "tokens.yaml"), fmt.Appendf(nil, "tokens: [{name: %q, role: admin, token: %s}]\n", name, token), 0o600); err != nil {
		t.Fatal(err)
	}
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(token)
	open := func(where, path string, texts ...string) {
		t.Helper()
		tab.Open(path)
		inert(t, tab, where, texts...)
	}
	kit.Eventually(t, func() error {
		tab.Open("/ui/")
		var states string
		tab.Into(`[...document.querySelectorAll(".cell")].map(c => c.className.replace("cell h-", "")).sort().join()`, &states)
		if states != "drifting,failed,problem,running" {
			return fmt.Errorf("the fleet is %s", states)
		}
		return nil
	})
	for _, by := range []string{"folder", "state", "package", "vim"} {
		open("the fleet by "+by, "/ui/?q=a&group="+by, evil("name"), evil("product"), evil("version"), name)
	}
	open("the failed instance", "/ui/instances/"+browser.ID(1), evil("name"), evil("description"), evil("provider"), evil("product"), "1.0"+evil("version"), evil("reason"))
	tab.Press("#open-operation")
	inert(t, tab, "the failed operation", evil("name"), evil("reason"))
	for _, decision := range []string{"retry", "rollback", "fail"} {
		tab.Press("#do-" + decision)
		inert(t, tab, decision, evil("name"))
		tab.Open("/ui/instances/" + browser.ID(1))
		tab.Press("#open-operation")
	}
	open("the drifting instance", "/ui/instances/"+browser.ID(2), evil("manager"), "switched to "+quoted(evil("content")), evil("aspect"), evil("level"), "xnext")
	open("the instance with a problem", "/ui/instances/"+browser.ID(3), quoted(evil("aspect-in-file")))
	open("the operation by the API", "/ui/operations/"+healed.ID(), quoted(evil("cause")), quoted(evil("param")), quoted(evil("param-value")))
	open("the change by the API", "/ui/operations/"+changed.ID())
	tab.Press("#commit")
	inert(t, tab, "the commit by the API", evil("key"), evil("value"), evil("api-description"))

	open("git", "/ui/git", evil("subject"), attribute("author"), branch)
	open("a directory's log", "/ui/git?dir="+url.QueryEscape("notes/"+strings.ReplaceAll(evil("file"), "/", "⁄")+".txt"), evil("subject"))
	open("the commit", "/ui/git/commits/"+sha, evil("subject"), evil("body"), attribute("author"), evil("line"), strings.ReplaceAll(evil("file"), "/", "⁄"))
	open("the branch", "/ui/git/branches/"+strings.ReplaceAll(url.PathEscape(branch), "%2F", "/"), branch, evil("branch-subject"), evil("comment"))

	// The caller's name in a commit's author and trailers, and what a form sends back.
	tab.Open("/ui/instances/" + browser.ID(4))
	tab.Type(`form:has(#do-heal) input[name=cause]`, evil("typed"))
	tab.Press("#do-heal")
	inert(t, tab, "the proposal", name, evil("typed"))
	tab.Press("#commit-branch")
	inert(t, tab, "the branch that the page made", name)
	tab.Open("/ui/instances/" + browser.ID(4))
	tab.Type(`form:has(#do-heal) input[name=cause]`, evil("typed"))
	tab.Press("#do-heal")
	tab.Press("#commit-now")
	inert(t, tab, "the operation", name, quoted(evil("typed")))
	tab.Press("#commit")
	inert(t, tab, "its commit", name)
	tab.Expect("400")
	tab.Expect("404")
	for where, path := range map[string]string{"a commit that isn't": "/ui/git/commits/", "a branch that isn't": "/ui/git/branches/", "an instance that isn't": "/ui/instances/", "an operation that isn't": "/ui/operations/"} {
		open(where, path+url.PathEscape(`x"><svg onload=window.hit=1>`))
	}
	tab.Clean()
}

// nextVnfd is the vnfdId of what an instance is upgraded to.
const nextVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc2"

func TestWhatEventsBringIsTextToo(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "state: notInstantiated\n")})
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Eval(`window.told = []; window.own = new EventSource("/ui/events"); own.addEventListener("changed", e => told.push(e.data)); 1`)
	tab.Eventually(`own.readyState`, 1) // of what was before, it isn't told
	tab.Eventually(`document.getElementById("live").dataset.state`, "live")
	name := evil("name")
	files := map[string]string{}
	for i, x := range append(hostile(), "x\u2028window.hit=1", "data: {\"all\":true}", "y</script><script>window.hit=1</script>") {
		files[fmt.Sprintf("instances/%s/%d/vnf.yaml", strings.ReplaceAll(x, "/", "⁄"), i)] = browser.VNF(10+i, fmt.Sprintf("%q", x+name), "state: notInstantiated\n")
	}
	s.PushFiles(t, files)
	tab.Eventually(`document.querySelectorAll(".cell").length`, len(files)+1) // swapped in, without a reload
	inert(t, tab, "the live fleet", name)
	tab.Eventually(`told.length > 0`, true)
	var told []string
	tab.Into(`told`, &told)
	for _, data := range told {
		if strings.ContainsAny(data, "<>\n") || strings.Contains(data, "hit") {
			t.Errorf("an event tells what somebody wrote: %s", data)
		}
	}
	tab.Clean()
}

func TestWhatHooksAndPushersSayIsText(t *testing.T) {
	t.Parallel()
	s := browser.Serve(t, nil, "--allow-hooks", "--unconfined-hooks")
	hooked := process.NextVersion(t, process.SmallPackage(), "hooked", process.SmallVnfd, nextVnfd, "        flavour_description: A front end (VDU1)\n",
		"        flavour_description: A front end (VDU1)\n      interfaces:\n        Vnflcm:\n          instantiate_start: {implementation: ../Scripts/fails.sh}\n")
	scripts := filepath.Join(hooked, "Scripts")
	if err := os.Mkdir(scripts, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\ncat >/dev/null\nprintf '%s\\n' '" + evil("output") + "'\nprintf '%s\\n' '" + evil("stderr") + "' >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(scripts, "fails.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.PushPackages(t, []string{nextVnfd}, hooked)

	// Whoever pushes is known by the name of their token.
	pusher, token := attribute("pusher"), "a-token-of-24-characters"
	if err := os.WriteFile(filepath.Join(s.Data, "tokens.yaml"), fmt.Appendf(nil, "tokens: [{name: %q, role: admin, token: %s}]\n", pusher, token), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Token = token
	w := process.NewWorkTree(t, s.DesiredURL())
	w.Write("repositories.yaml", "- name: packages\n  url: packages.git\n  branch: main\n  hooks: true\n")
	w.Write("instances/a/hooked/vnf.yaml", strings.Replace(browser.VNF(1, "hooked", ""), process.SmallVnfd, nextVnfd, 1))
	w.Commit("Add it")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", w.Dir(), "push", "--quiet", "origin", "HEAD:main").CombinedOutput(); err != nil {
		t.Fatalf("push: %v\n%s", err, out)
	}
	sha := w.Git("rev-parse", "HEAD")

	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(token)
	kit.Eventually(t, func() error {
		tab.Open("/ui/instances/" + browser.ID(1))
		if got := tab.Text("main"); !strings.Contains(got, "FAILED_TEMP") {
			return fmt.Errorf("its hook hasn't failed yet: %s", got)
		}
		return nil
	})
	inert(t, tab, "the instance", evil("stderr"))
	tab.Press("#open-operation")
	inert(t, tab, "the operation", evil("stderr"), pusher)
	tab.Open("/ui/git/commits/" + sha)
	inert(t, tab, "the commit", pusher)
	tab.Open("/ui/git")
	inert(t, tab, "git", pusher)
	tab.Clean()
}
