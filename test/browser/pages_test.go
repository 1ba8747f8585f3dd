package browser_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// gitOf is what git says of the server's desired repository.
func gitOf(t *testing.T, s *process.Server, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir", filepath.Join(s.Data, "desired.git")}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// look keeps a picture for people where JIBE_TEST_PICTURES names a folder.
func look(t *testing.T, tab *browser.Tab, name string) {
	t.Helper()
	if dir := os.Getenv("JIBE_TEST_PICTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), tab.Screenshot(true), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFromAFailingVNFCToCommitAndPersonItTakesAtMostThreeClicks(t *testing.T) {
	t.Parallel()
	s := browser.Sample(t)
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	clicks := 0
	click := func(selector string) {
		tab.Press(selector)
		clicks++
	}
	tab.Open("/ui/?q=amf-1")
	tab.Eventually(`document.querySelector("a.cell").className`, "cell h-failed")
	click("a.cell")
	tab.Eventually(`document.querySelectorAll(".box.unit.k-bad .cause a").length > 0`, true)
	if text := tab.Text(".box.unit.k-bad"); !strings.Contains(text, "failing") || !strings.Contains(text, "VIM sim") || !strings.Contains(text, "small:1") {
		t.Errorf("the failing VNFC says: %s", text)
	}
	tab.Accessible()
	look(t, tab, "instance")
	click(".box.unit.k-bad .cause a")
	if text := tab.Text("main"); !strings.Contains(text, "INSTANTIATE") || !strings.Contains(text, "FAILED_TEMP") || !strings.Contains(text, "What to do") {
		t.Errorf("the operation says: %s", text)
	}
	person := tab.Text("#person")
	tab.Accessible()
	look(t, tab, "operation")
	click("#commit")
	if clicks > 3 {
		t.Errorf("it took %d clicks", clicks)
	}
	if got := tab.Text("#person"); got != person || got == "" {
		t.Errorf("the commit is of %q, the operation of %q", got, person)
	}
	if text := tab.Text("main"); !strings.Contains(text, "instances/berlin/core/amf-1/vnf.yaml") || !strings.Contains(text, gitOf(t, s, "log", "-1", "--format=%H", "--diff-filter=A", "--", "instances/berlin/core/amf-1")) {
		t.Errorf("the commit says: %s", text)
	}
	tab.Accessible()
	look(t, tab, "commit")
	tab.Clean()
}

func TestTheButtonsShowTheCommitAndThePlanAndThenMakeJustThat(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/berlin/core/smf-1/vnf.yaml": browser.VNF(2, "smf-1", "")})
	browser.Await(t, s, 2, "INSTANTIATED")
	browser.Pinned(t, s, "instances/berlin/core/smf-1/vnf.yaml")
	tab := browser.New(t).Tab(t, s, browser.View{NoScript: true})
	tab.Login(s.Token)
	before := gitOf(t, s, "rev-parse", "main")
	tab.Open("/ui/instances/" + browser.ID(2))
	tab.Press(`form:has(input[name=type][value=SCALE_OUT]) button`)
	message, diff := tab.Text("#message"), tab.Text(".diff")
	if !strings.HasPrefix(message, "SCALE instances/berlin/core/smf-1") || !strings.Contains(message, "Requested-By: ") {
		t.Errorf("the message: %s", message)
	}
	if !strings.Contains(diff, "levels") {
		t.Errorf("the diff: %s", diff)
	}
	if text := tab.Text(".preview"); !strings.Contains(text, "scale ") || !strings.Contains(text, "->") {
		t.Errorf("the plan: %s", text)
	}
	if now := gitOf(t, s, "rev-parse", "main"); now != before {
		t.Fatalf("the preview made a commit")
	}

	// Somebody is faster: nothing is committed, and what it would be now is shown.
	s.PushFiles(t, map[string]string{"instances/berlin/core/smf-1/vnf.yaml": browser.VNF(2, "smf-1", "description: another\n")})
	pushed := gitOf(t, s, "rev-parse", "main")
	tab.Expect("409")
	tab.Press("#commit-now")
	if text := tab.Text("#moved"); !strings.Contains(text, "Nothing was committed") {
		t.Errorf("after another commit: %s", text)
	}
	// Jibe itself may have pinned the package of what was pushed.
	if made := gitOf(t, s, "log", "--format=%s", pushed+"..main"); strings.Contains(made, "SCALE") {
		t.Fatalf("it was committed although the file had changed: %s", made)
	}
	// The push's own operation goes first, and what Jibe fills in before it: neither is to come between what is shown
	// and the button.
	browser.Pinned(t, s, "instances/berlin/core/smf-1/vnf.yaml")
	kit.Eventually(t, func() error {
		list, err := process.All[process.Operation](t.Context(), s, process.Operations)
		if err == nil && !slices.ContainsFunc(list, func(op process.Operation) bool {
			return op.Instance == browser.ID(2) && op.Type == "MODIFY_INFO" && op.State == "COMPLETED"
		}) {
			err = fmt.Errorf("the push's own operation isn't done: %+v", list)
		}
		return err
	})
	kit.Eventually(t, func() error {
		tab.Open("/ui/instances/" + browser.ID(2))
		if tab.Eval(`document.querySelector("form:has(input[name=type][value=SCALE_OUT]) button").disabled`) == "true" {
			return fmt.Errorf("no scaling yet: %s", tab.Text("main"))
		}
		return nil
	})
	shown := gitOf(t, s, "rev-parse", "main")
	tab.Press(`form:has(input[name=type][value=SCALE_OUT]) button`)
	message = tab.Text("#message")
	tab.Press("#commit-now")
	if at := tab.Eval("location.pathname"); !strings.HasPrefix(at, `"/ui/operations/`) {
		t.Fatalf("after the commit at %s: %s", at, tab.Text("main"))
	}
	commit := gitOf(t, s, "log", "-1", "--format=%H", "--author=@jibe.invalid", "main")
	made := gitOf(t, s, "show", "--format=%B", commit)
	for line := range strings.Lines(message) {
		if !strings.Contains(made, strings.TrimSpace(line)) {
			t.Errorf("the commit lacks %q:\n%s", line, made)
		}
	}
	if parent := gitOf(t, s, "rev-parse", commit+"^"); parent != shown {
		t.Errorf("the commit stands on %s, not on what was shown, %s", parent, shown)
	}
	kit.Eventually(t, func() error {
		tab.Open("/ui/instances/" + browser.ID(2))
		if text := tab.Text("main"); strings.Count(text, "gets traffic") < 2 && strings.Count(text, "READY") < 2 && !strings.Contains(text, "2 of 2 ready") {
			return fmt.Errorf("not scaled yet: %s", text)
		}
		return nil
	})
	tab.Clean()
	if audit, err := os.ReadFile(filepath.Join(s.Data, "audit.jsonl")); err != nil || !strings.Contains(string(audit), `"scale"`) || !strings.Contains(string(audit), commit) {
		t.Errorf("the audit log doesn't say who scaled: %v", err)
	}
}

func TestAChangeIsProposedAsABranchAndReviewed(t *testing.T) {
	t.Parallel()
	s := browser.Sample(t)
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	before := gitOf(t, s, "rev-parse", "main")
	tab.Open("/ui/instances/" + browser.ID(9))
	tab.Press("#do-suspend")
	if text := tab.Text("#message"); !strings.HasPrefix(text, "Suspend instances/paris/lab/udm") {
		t.Errorf("the message: %s", text)
	}
	tab.Accessible() // with JavaScript, which axe needs
	look(t, tab, "propose")
	tab.Press("#commit-branch")
	tab.Eventually(`location.pathname.startsWith("/ui/git/branches/ui/")`, true)
	var path string
	if err := json.Unmarshal([]byte(tab.Eval("location.pathname")), &path); err != nil {
		t.Fatal(err)
	}
	branch := strings.TrimPrefix(path, "/ui/git/branches/")
	if now := gitOf(t, s, "rev-parse", "main"); now != before {
		t.Error("the branch that runs has moved")
	}
	if text := gitOf(t, s, "show", branch+":instances/paris/lab/udm-with-a-name-that-is-long/vnf.yaml"); !strings.Contains(text, "suspend: true") {
		t.Errorf("the branch has %s", text)
	}
	if text := tab.Text("main"); !strings.Contains(text, "suspend: true") || !strings.Contains(text, "git merge refs/remotes/origin/"+branch) {
		t.Errorf("the branch's page: %s", text)
	}
	tab.Accessible()
	look(t, tab, "branch")
	tab.Open("/ui/git")
	if text := tab.Text(".branches"); !strings.Contains(text, branch) {
		t.Errorf("branches: %s", text)
	}
	tab.Accessible()
	look(t, tab, "git")
	tab.Open("/ui/instances/" + browser.ID(3))
	tab.Eventually(`!!document.querySelector("#h-drift")`, true)
	tab.Accessible()
	look(t, tab, "drift")
	tab.Clean()
}
