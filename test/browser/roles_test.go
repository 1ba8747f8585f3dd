package browser_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// let adds a token to those of the server, and returns its text; more are its other keys.
func let(t *testing.T, s *process.Server, name, more string) string {
	t.Helper()
	token := name + "-token-of-24-characters"
	file := filepath.Join(s.Data, "tokens.yaml")
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(old, "- {name: "+name+", token: "+token+", "+more+"}\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// posts sends a form as a page of the caller's would, with its token, and returns the status.
func posts(tab *browser.Tab, path string, fields ...string) int {
	var status int
	pairs := ""
	for i := 0; i+1 < len(fields); i += 2 {
		pairs += fmt.Sprintf(`body.append(%s, %s);`, mustJSON(fields[i]), mustJSON(fields[i+1]))
	}
	tab.Into(`(async () => { const body = new URLSearchParams(); body.append("csrf", document.querySelector("input[name=csrf]").value); `+pairs+
		`return (await fetch(`+mustJSON(path)+`, {method: "POST", body, redirect: "manual"})).status })()`, &status)
	return status
}

func TestWhoMayPlanOrLookIsOfferedNoMoreAndIsRefusedByTheURLToo(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{
		"instances/east/web/vnf.yaml": browser.VNF(1, "web-east", ""), "instances/west/db/vnf.yaml": browser.VNF(2, "db-west", ""),
		"projects/east.yaml": "instances: [east]\nvims: ['*']\nrepositories: ['*']\n", "projects/west.yaml": "instances: [west]\nvims: ['*']\nrepositories: ['*']\n",
	})
	browser.Await(t, s, 1, "INSTANTIATED")
	browser.Await(t, s, 2, "INSTANTIATED")
	ops := map[int]string{}
	kit.Eventually(t, func() error {
		list, err := process.All[process.Operation](t.Context(), s, process.Operations)
		if err != nil {
			return err
		}
		for _, op := range list {
			if op.State != "COMPLETED" {
				return fmt.Errorf("%s is %s", op.ID, op.State)
			}
			for n := 1; n <= 2; n++ {
				if op.Instance == browser.ID(n) {
					ops[n] = op.ID
				}
			}
		}
		return nil
	})
	s.PushFiles(t, map[string]string{"instances/west/db/vnf.yaml": browser.VNF(2, "db-west", "description: only for the west\n")})
	browser.Pinned(t, s, "instances/west/db/vnf.yaml")
	west := gitOf(t, s, "log", "-1", "--format=%H", "--diff-filter=M", "--author=test", "main", "--", "instances/west/db")
	if west == "" {
		west = gitOf(t, s, "rev-parse", "main")
	}
	b := browser.New(t)
	for _, c := range []struct {
		name, more string
		plans      bool
	}{
		{"viewer", "roles: [{role: viewer, projects: [east]}]", false},
		{"planner", "roles: [{role: planner, projects: [east]}]", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := let(t, s, c.name, c.more)
			tab := b.Tab(t, s, browser.View{})
			tab.Expect("403")
			tab.Expect("404")
			tab.Expect("409")
			tab.Login(token)

			// The page shows what the API shows to the same caller.
			as := &process.Server{URL: s.URL, Token: token}
			list, err := process.All[struct{ ID string }](t.Context(), as, process.Instances)
			if err != nil || len(list) != 1 || list[0].ID != browser.ID(1) {
				t.Fatalf("the API shows %v (%v)", list, err)
			}
			if got := tab.Eval(`[...document.querySelectorAll("a.cell")].map(a => a.getAttribute("href"))`); got != `["/ui/instances/`+browser.ID(1)+`"]` {
				t.Errorf("the fleet shows %s", got)
			}
			for _, path := range []string{"/ui/instances/" + browser.ID(2), "/ui/operations/" + ops[2], "/ui/git/commits/" + west} {
				if status := tab.Open(path); status != http.StatusNotFound {
					t.Errorf("%s of another project is answered with %d", path, status)
				}
				if got := tab.Eval("document.documentElement.innerHTML"); strings.Contains(got, "db-west") || strings.Contains(got, "only for the west") {
					t.Errorf("%s tells of another project", path)
				}
			}
			tab.Open("/ui/git")
			if got := tab.Text("main"); strings.Contains(got, "west") || !strings.Contains(got, "east") && !strings.Contains(got, "isn't yours to see") {
				t.Errorf("the log says %s", got)
			}

			// No button leads where the caller may not go.
			tab.Open("/ui/operations/" + ops[1])
			if got := tab.Eval(`document.querySelectorAll("main button").length`); got != "0" || !strings.Contains(tab.Text("#may-not"), "operator") {
				t.Errorf("an operation has %s buttons, and says %s", got, tab.Text("main"))
			}
			tab.Accessible()
			tab.Open("/ui/instances/" + browser.ID(1))
			tab.Accessible()
			look(t, tab, "instance-"+c.name)
			was := gitOf(t, s, "rev-parse", "main")
			scale := []string{"action", "scale", "instance", browser.ID(1), "aspect", "front", "type", "SCALE_OUT", "steps", "1"}
			if !c.plans {
				if got := tab.Eval(`document.querySelectorAll("main button").length`); got != "0" || !strings.Contains(tab.Text("#may-not"), "planner") {
					t.Errorf("the instance has %s buttons, and says %s", got, tab.Text("main"))
				}
				if status := posts(tab, "/ui/propose", scale...); status != http.StatusForbidden {
					t.Errorf("to see a plan is answered with %d", status)
				}
				if status := tab.Open("/ui/git/branches/main"); status != http.StatusForbidden {
					t.Errorf("to plan a branch is answered with %d", status)
				}
				tab.Open("/ui/")
			} else {
				foreign := append([]string{"action", "scale", "instance", browser.ID(2)}, scale[4:]...)
				if status := posts(tab, "/ui/propose", foreign...); status != http.StatusNotFound {
					t.Errorf("to see a plan of another project is answered with %d", status)
				}
				tab.Press(`form:has(input[name=type][value=SCALE_OUT]) button`)
				if got := tab.Eval(`[!!document.getElementById("commit-now"), document.getElementById("commit-branch").disabled]`); got != "[false,false]" || !strings.Contains(tab.Text("#may-not"), "operator") {
					t.Errorf("whether there is a button to commit, and whether that for a branch is off: %s; it says %s", got, tab.Text("main"))
				}
				tab.Accessible()
				look(t, tab, "propose-planner")
			}
			var digest, head string
			tab.Into(`document.querySelector("input[name=digest]")?.value ?? "0"`, &digest)
			tab.Into(`document.querySelector("input[name=head]")?.value ?? `+mustJSON(was), &head)
			if status := posts(tab, "/ui/commit", append(scale, "digest", digest, "head", head)...); status != http.StatusForbidden {
				t.Errorf("to commit is answered with %d", status)
			}
			if status := posts(tab, "/ui/commit", "action", "suspend", "instance", browser.ID(1), "digest", digest, "head", head); status != http.StatusForbidden && status != http.StatusConflict {
				t.Errorf("to commit an edit is answered with %d", status)
			}
			if status := posts(tab, "/ui/commit", "action", "retry", "operation", ops[1], "etag", `"x"`); status != http.StatusForbidden {
				t.Errorf("to retry an operation is answered with %d", status)
			}
			if now := gitOf(t, s, "rev-parse", "main"); now != was {
				t.Error("something was committed")
			}
			if c.plans {
				tab.Press("#commit-branch")
				tab.Eventually(`location.pathname.startsWith("/ui/git/branches/ui/planner-")`, true)
				if now := gitOf(t, s, "rev-parse", "main"); now != was {
					t.Error("a branch has moved the one that runs")
				}
			}
			tab.Clean()
		})
	}
}

func TestASessionThatIsIdleEndsAndThePageSaysSo(t *testing.T) {
	t.Parallel()
	s := browser.Serve(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "state: notInstantiated\n")}, "--ui-idle", "10s")
	b := browser.New(t)
	tab, other := b.Tab(t, s, browser.View{}), b.Tab(t, s, browser.View{})
	other.Login(s.Token)
	tab.Expect("401")
	kit.Eventually(t, func() error { // a busy machine may take longer to open the page than a session lasts
		tab.Login(s.Token)
		tab.Open("/ui/instances/" + browser.ID(1))
		tab.Eventually(`location.pathname === "/ui/login" || ["live", "over"].includes(document.getElementById("live").dataset.state)`, true)
		if at := tab.Eval(`document.getElementById("live")?.dataset.state`); at != `"live"` {
			return fmt.Errorf("the session ended before the page was live: %s", at)
		}
		return nil
	})
	for _, p := range []*browser.Tab{tab, other} {
		p.Expect("401")
		p.Eventually(`document.getElementById("live").dataset.state`, "over") // though the page has kept itself live
		if got := p.Text("#live"); !strings.Contains(got, "The session has ended") {
			t.Errorf("the page says %q", got)
		}
	}
	// A button on the page of a session that has ended does nothing, and says so.
	was := gitOf(t, s, "rev-parse", "main")
	tab.Press("#do-suspend")
	if got := tab.Text("main"); !strings.Contains(got, "You are not logged in") || !strings.Contains(got, "Nothing was changed") {
		t.Errorf("the button says %s", got)
	}
	if now := gitOf(t, s, "rev-parse", "main"); now != was {
		t.Error("something was committed")
	}
	other.Open("/ui/instances/" + browser.ID(1))
	other.Eventually("location.pathname + location.search", "/ui/login?back=%2Fui%2Finstances%2F"+browser.ID(1))
	tab.Clean()
	other.Clean()
}

func TestALogoutEndsTheSessionInEachOfItsTabs(t *testing.T) {
	t.Parallel()
	s := browser.Serve(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "state: notInstantiated\n")})
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	second := tab.Another()
	second.Open("/ui/instances/" + browser.ID(1))
	second.Eventually(`document.getElementById("live").dataset.state`, "live")
	tab.Press("#logout")
	second.Eventually(`document.getElementById("live").dataset.state`, "over")
	// Nothing that comes later has it say anything else: what a page does by itself, it doesn't do any more.
	second.Eval(`document.dispatchEvent(new Event("visibilitychange")); 1`)
	kit.Stays(t, time.Second, func() error {
		if got := second.Eval(`document.getElementById("live").dataset.state`); got != `"over"` {
			return fmt.Errorf("the page says %s", got)
		}
		return nil
	})
	second.Expect("401")
	second.Press("#do-suspend")
	if got := second.Text("main"); !strings.Contains(got, "You are not logged in") {
		t.Errorf("the button says %s", got)
	}
	second.Open("/ui/")
	second.Eventually("location.pathname", "/ui/login")
	tab.Clean()
	second.Clean()
}

func TestThereMayBeNoPage(t *testing.T) {
	t.Parallel()
	s := process.Start(t, filepath.Join(t.TempDir(), "d"), "--no-ui")
	for _, path := range []string{"/ui", "/ui/", "/ui/login", "/ui/instances/" + browser.ID(1), "/ui/static/0/jibe.js"} {
		if a, err := s.Do(t.Context(), http.MethodGet, path, nil); err != nil || a.Status != http.StatusNotFound {
			t.Errorf("%s is answered with %d (%v)", path, a.Status, err)
		}
	}
	if a, err := s.Do(t.Context(), http.MethodGet, "/", nil, "Accept", "text/html"); err != nil || a.Status != http.StatusNotFound {
		t.Errorf("a browser at the root is led to %s with %d (%v)", a.Header.Get("Location"), a.Status, err)
	}
	if out, errs, code := s.CLI(t, "ui"); code == 0 || !strings.Contains(errs, "--no-ui") {
		t.Errorf("jibe ui says %q %q, and ends with %d", out, errs, code)
	}
}
