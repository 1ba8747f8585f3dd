package browser_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestSecretsAreHiddenInEveryDifference(t *testing.T) {
	t.Parallel()
	// A forge takes what Jibe's own push hook refuses.
	s, _ := browser.Small(t, nil)
	s.PushPackages(t, []string{nextVnfd}, process.NextVersion(t, process.SmallPackage(), "declares", process.SmallVnfd, nextVnfd))
	vnf := func(mark, more string) string {
		return strings.Replace(browser.VNF(1, "web", more), "{namespace: n1}", "{namespace: n1, password: plain-"+mark+`-1, list: [{name: DB_TOKEN, value: plain-`+mark+`-2}]}`, 1)
	}
	manifest := func(mark string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData:\n  user: plain-" + mark + "-3\n" + strings.Repeat("  # far from its key\n", 9) + "  other: plain-" + mark + "-4\n"
	}
	configMap := func(mark string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata:\n  colour: shown-" + mark + "\n  api-key: |\n    plain-" + mark + "-5\n"
	}
	files := func(mark, more string) map[string]string {
		return map[string]string{"instances/a/web/vnf.yaml": vnf(mark, more), "instances/a/web/overlays/secret.yaml": manifest(mark), "instances/a/web/overlays/settings.yaml": configMap(mark)}
	}
	push := func(files map[string]string) string {
		s.PushFiles(t, files) // Jibe may commit a pin in between
		return gitOf(t, s, "log", "-1", "--format=%H", "--grep=Add what the test needs", "main")
	}
	begun, both := push(files("old", "")), push(files("new", ""))
	keeper, err := secret.Open(s.Data, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := keeper.For(secret.ForParams(desired.DefaultProject)).Encrypt("pa55")
	if err != nil {
		t.Fatal(err)
	}
	encrypted := push(map[string]string{"instances/a/web/vnf.yaml": strings.Replace(vnf("new", ""), "plain-new-1", sealed, 1)})
	browser.Pinned(t, s, "instances/a/web/vnf.yaml") // a branch from before it would conflict
	w := process.NewWorkTree(t, s.Desired())
	w.WriteFiles(files("branch", "suspend: true\n"))
	w.Commit("Change all once more")
	w.Git("push", "--quiet", "origin", "HEAD:refs/heads/change")

	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	hidden := func(where string, texts ...string) {
		t.Helper()
		if got := tab.Eval("document.documentElement.outerHTML"); strings.Contains(got, "plain-") {
			at := strings.Index(got, "plain-")
			t.Errorf("%s shows a secret: %s", where, got[max(0, at-200):min(len(got), at+50)])
		}
		for _, text := range append(texts, "(hidden)") {
			if got := tab.Text("main"); !strings.Contains(got, text) {
				t.Errorf("%s doesn't show %q: %s", where, text, got)
			}
		}
	}
	for commit, texts := range map[string][]string{begun: {"shown-old", "kind: Secret"}, both: {"shown-old", "shown-new", "stringData:"}, encrypted: {sealed}} {
		tab.Open("/ui/git/commits/" + commit)
		hidden("commit "+commit, texts...)
	}
	look(t, tab, "secrets")
	tab.Open("/ui/git/branches/change")
	hidden("the branch", "shown-branch", "suspend: true")
	tab.Open("/ui/instances/" + browser.ID(1))
	if got := tab.Eval("document.documentElement.outerHTML"); strings.Contains(got, "plain-") {
		t.Error("the instance shows a secret")
	}
	tab.Press("#do-suspend")
	if got := tab.Eval("document.documentElement.outerHTML"); strings.Contains(got, "plain-") {
		t.Error("the proposal shows a secret")
	}
	tab.Clean()
}

func TestABranchThatConflictsIsSaidToBe(t *testing.T) {
	testenv.Chaos(t, "Chromium")
	t.Parallel()
	const file = "instances/a/web/vnf.yaml"
	s, _ := browser.Small(t, map[string]string{file: browser.VNF(1, "web", "")})
	browser.Pinned(t, s, file)
	w := process.NewWorkTree(t, s.Desired())
	w.WriteFiles(map[string]string{file: browser.VNF(1, "this", "")})
	w.Commit("Name it this")
	w.Git("push", "--quiet", "origin", "HEAD:refs/heads/change")
	s.PushFiles(t, map[string]string{file: browser.VNF(1, "that", "")})

	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	tab.Expect("status of 409")
	if status := tab.Open("/ui/git/branches/change"); status != http.StatusConflict {
		t.Errorf("the page of a branch that conflicts is answered with %d", status)
	}
	if got := tab.Text("main"); !strings.Contains(got, "The branch conflicts") || !strings.Contains(got, "git pull --rebase origin refs/heads/main") {
		t.Errorf("the page of a branch that conflicts: %s", got)
	}
	tab.Clean()
}
