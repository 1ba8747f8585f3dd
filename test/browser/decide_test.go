package browser_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// asksFor has the API begin a task on the n-th instance, and returns the operation.
func asksFor(t *testing.T, s *process.Server, n int, task string, body any) string {
	t.Helper()
	return s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+browser.ID(n)+"/"+task, body, nil).ID()
}

// changed are the lines that a page's differences add and take away, each with its sign.
func changed(tab *browser.Tab) []string {
	var lines []string
	tab.Into(`[...document.querySelectorAll("tr.added, tr.removed")].map(r => (r.className === "added" ? "+" : "-") + r.querySelector(".text").textContent)`, &lines)
	slices.Sort(lines)
	return lines
}

// committed is what [changed] should show of a commit.
func committed(t *testing.T, s *process.Server, commit string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(gitOf(t, s, "show", "--format=", "--unified=0", commit)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && strings.ContainsRune("+-", rune(line[0])) && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "---") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

func TestAFailedOperationIsDecidedByButtonsThatSayWhatTheyCommit(t *testing.T) {
	t.Parallel()
	s, cloud := browser.Small(t, map[string]string{
		"instances/a/retried/vnf.yaml": browser.VNF(1, "retried", "state: notInstantiated\n"), "instances/a/rolled-back/vnf.yaml": browser.VNF(2, "rolled-back", "state: notInstantiated\n"),
		"instances/a/failed/vnf.yaml": browser.VNF(3, "failed", "state: notInstantiated\n"), "instances/a/cancelled/vnf.yaml": browser.VNF(4, "cancelled", ""),
	})
	ops := map[int]string{}
	for n := 1; n <= 3; n++ {
		cloud.Fail(browser.Object(n), "its image isn't there")
		ops[n] = asksFor(t, s, n, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": fmt.Sprintf("n%d", n)}})
	}
	browser.Await(t, s, 4, "INSTANTIATED")
	cloud.SetLatency(time.Hour)      // of the VNFC that it is scaled by: its operation stays under way
	kit.Eventually(t, func() error { // when its first operation has ended
		a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+browser.ID(4)+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
		if err != nil || a.Status != http.StatusAccepted {
			return fmt.Errorf("it can't be scaled: %d %s (%w)", a.Status, a.Body, err)
		}
		ops[4] = a.ID()
		return nil
	})
	kit.Until(t, "it is scaled", func() bool { return cloud.Calls().Scales > 0 })
	cloud.SetLatency(0)
	for n := 1; n <= 3; n++ {
		s.Await(t, ops[n], "FAILED_TEMP")
	}
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)

	for _, c := range []struct {
		n                  int
		action, says, ends string
		commits            bool
		before             func()
	}{
		{1, "retry", "No commit is made", "COMPLETED", false, func() { cloud.Fail(browser.Object(1), "") }},
		{2, "rollback", "Then Jibe commits the directory as it was before the operation", "ROLLED_BACK", true, func() {}},
		{3, "fail", "Jibe commits that the VNF isn't to run, with held: ", "FAILED", true, func() {}},
	} {
		t.Run(c.action, func(t *testing.T) {
			tab := tab.For(t)
			was := gitOf(t, s, "rev-parse", "main")
			tab.Open("/ui/operations/" + ops[c.n])
			if got := tab.Eval(`["retry", "rollback", "fail", "cancel"].filter(a => !document.getElementById("do-" + a).disabled).join()`); got != map[bool]string{false: `"retry,rollback,fail"`, true: `"cancel"`}[c.n == 4] {
				t.Errorf("the buttons that can be pressed are %s", got)
			}
			tab.Press("#do-" + c.action)
			if got := tab.Text("#effect"); !strings.Contains(got, c.says) {
				t.Errorf("it says %q", got)
			}
			shown := changed(tab)
			if (len(shown) > 0) != c.commits {
				t.Errorf("it shows the difference %q", shown)
			}
			tab.Accessible()
			look(t, tab, "decide-"+c.action)
			if now := gitOf(t, s, "rev-parse", "main"); now != was {
				t.Fatal("to look at it has made a commit")
			}
			c.before()
			tab.Press("#commit-now")
			if at := tab.Eval("location.pathname"); at != mustJSON("/ui/operations/"+ops[c.n]) {
				t.Errorf("it leads to %s", at)
			}
			kit.Eventually(t, func() error {
				tab.Open("/ui/operations/" + ops[c.n])
				if got := tab.Eval(`document.getElementById("state").textContent`); got != mustJSON(c.ends) {
					return fmt.Errorf("it is %s, want %s", got, c.ends)
				}
				return nil
			})
			made := strings.Fields(gitOf(t, s, "rev-list", "--reverse", was+"..main"))
			if !c.commits {
				if len(made) > 0 {
					t.Errorf("it has made commits: %s", made)
				}
				return
			}
			kit.Eventually(t, func() error { // an outstanding commit follows the record
				if made = strings.Fields(gitOf(t, s, "rev-list", "--reverse", was+"..main")); len(made) == 0 {
					return fmt.Errorf("no commit yet")
				}
				return nil
			})
			// What was shown, but for the line that says so of itself.
			got := slices.DeleteFunc(committed(t, s, made[0]), func(line string) bool { return line == "+held: "+ops[c.n] })
			if len(made) != 1 || !slices.Equal(got, shown) {
				t.Errorf("the commits %s make %q, and %q was shown", made, got, shown)
			}
			if file := gitOf(t, s, "show", "main:instances/a/"+map[int]string{2: "rolled-back", 3: "failed"}[c.n]+"/vnf.yaml"); strings.Contains(file, "held: "+ops[c.n]) != (c.action == "fail") {
				t.Errorf("after %s the file is\n%s", c.action, file)
			}
		})
	}
	kit.Eventually(t, func() error { // the commit is in git a moment before the page knows of it
		tab.Open("/ui/instances/" + browser.ID(3))
		if got := tab.Text("main"); !strings.Contains(got, "Held since") {
			return fmt.Errorf("an instance whose operation was failed says %s", got)
		}
		return nil
	})
	tab.Open("/ui/operations/" + ops[1])
	if got := tab.Text("main"); strings.Count(got, "the operation has ended: COMPLETED") != 4 {
		t.Errorf("an operation that has ended can still be decided: %s", got)
	}
	tab.Clean()
}

// generations are the VNFCs on an instance's page that get traffic, by their ids, and the sentence about
// generations, "" for none.
func generations(tab *browser.Tab) (sentence string, traffic []string) {
	tab.Into(`[...document.querySelectorAll("#h-picture ~ p")].map(p => p.textContent).filter(x => x.startsWith("Generations")).join()`, &sentence)
	tab.Into(`[...document.querySelectorAll(".box.unit")].filter(u => u.textContent.includes("gets traffic")).map(u => u.querySelector("input[name=vnfc]").value).sort()`, &traffic)
	return sentence, traffic
}

// reached are the VNFCs at which traffic arrives at the cloud, by their ids on the page.
func reached(cloud *sim.Cloud, n int) []string {
	ids, _ := cloud.Endpoints(browser.ID(n))
	slices.Sort(ids)
	return ids
}

func TestABlueGreenUpgradeShowsItsGenerationsAndWhereTrafficGoes(t *testing.T) {
	t.Parallel()
	s, cloud := browser.Small(t, map[string]string{
		"instances/a/web/vnf.yaml": "id: " + browser.ID(1) + "\nname: web\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nlevels: {front: 1}\nparams: {namespace: n1, router: true}\n",
	})
	s.PushPackages(t, []string{nextVnfd}, process.NextVersion(t, process.SmallPackage(), "next", process.SmallVnfd, nextVnfd, "'1.0'", "'2.0'"))
	browser.Await(t, s, 1, "INSTANTIATED")
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	kit.Eventually(t, func() error {
		tab.Open("/ui/instances/" + browser.ID(1))
		if sentence, traffic := generations(tab); sentence != "" || len(traffic) != 2 || !slices.Equal(traffic, reached(cloud, 1)) || tab.Eval(`document.getElementById("do-change_vnfpkg").disabled`) == "true" {
			return fmt.Errorf("it isn't at rest: %q, %q get traffic, which reaches %q", sentence, traffic, reached(cloud, 1))
		}
		return nil
	})
	_, blue := generations(tab)

	was := gitOf(t, s, "rev-parse", "main")
	tab.Choose("vnfdId", nextVnfd)
	tab.Choose("strategy", "blue-green")
	tab.Press("#do-change_vnfpkg")
	diff := tab.Text(".diff") + "\n" + tab.Text("#h-plan ~ *")
	found := regexp.MustCompile(`generation: "?([0-9A-Za-z]+)`).FindStringSubmatch(tab.Text("main"))
	if !strings.Contains(diff, nextVnfd) || len(found) == 0 {
		t.Fatalf("the proposal names no generation: %s", tab.Text("main"))
	}
	green := found[1]
	if now := gitOf(t, s, "rev-parse", "main"); now != was {
		t.Fatal("the preview has made a commit")
	}
	cloud.SetLatency(time.Hour) // of the new generation's VNFCs
	tab.Press("#commit-now")
	if got := gitOf(t, s, "show", "main:instances/a/web/vnf.yaml"); !strings.Contains(got, nextVnfd) {
		t.Errorf("the file at head is\n%s", got)
	}
	see := func(what, generation string) (traffic []string) {
		t.Helper()
		tab.Open("/ui/instances/" + browser.ID(1))
		kit.Eventually(t, func() error { // live, without a reload
			sentence, now := generations(tab)
			want := "Generations 0, " + green + " stand side by side; traffic goes to generation " + generation + "."
			if reaches := reached(cloud, 1); sentence != want || len(now) != 2 || !slices.Equal(now, reaches) {
				return fmt.Errorf("%s: it says %q, %q get traffic, which reaches %q; want %q", what, sentence, now, reaches, want)
			}
			if got := tab.Text(".routes"); !strings.Contains(got, "generation "+generation) {
				return fmt.Errorf("%s: the router says %q", what, got)
			}
			traffic = now
			return nil
		})
		tab.Accessible()
		look(t, tab, "blue-green-"+generation)
		return traffic
	}
	if now := see("while the new generation isn't ready", "0"); !slices.Equal(now, blue) {
		t.Errorf("traffic goes to %q, and went to %q", now, blue)
	}
	cloud.SetLatency(0)
	var starting []string
	tab.Into(`[...document.querySelectorAll(".box.unit.k-busy input[name=vnfc]")].map(i => i.value)`, &starting)
	for _, id := range starting {
		if !cloud.Kill(id) { // its successor starts at once
			t.Errorf("no VNFC %s is starting", id)
		}
	}
	kit.Eventually(t, func() error {
		tab.Open("/ui/instances/" + browser.ID(1))
		sentence, traffic := generations(tab)
		former := slices.ContainsFunc(traffic, func(id string) bool { return slices.Contains(blue, id) })
		if sentence != "" || former || len(traffic) != 2 || !slices.Equal(traffic, reached(cloud, 1)) {
			return fmt.Errorf("at its end it says %q, and %q get traffic", sentence, traffic)
		}
		if got := tab.Text(".routes"); !strings.Contains(got, "generation "+green) {
			return fmt.Errorf("at its end the router says %q", got)
		}
		return nil
	})
	tab.Clean()
}

func TestAnInstanceIsScaledToALevelByAButtonThatShowsItsCommit(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/a/web/vnf.yaml": browser.VNF(1, "web", "")})
	browser.Await(t, s, 1, "INSTANTIATED")
	tab := browser.New(t).Tab(t, s, browser.View{NoScript: true})
	tab.Login(s.Token)
	rest := func(units int) {
		t.Helper()
		kit.Eventually(t, func() error {
			tab.Open("/ui/instances/" + browser.ID(1))
			if got := tab.Eval(`[document.querySelectorAll(".box.unit.k-good").length, document.getElementById("do-scale_to_level").disabled]`); got != fmt.Sprintf("[%d,false]", units) {
				return fmt.Errorf("VNFCs, and whether it is busy: %s", got)
			}
			return nil
		})
	}
	// level asks for one, sees what it would be, and has it committed or proposed.
	level := func(fill func(), button, words, line, press string) {
		t.Helper()
		was := gitOf(t, s, "rev-parse", "main")
		fill()
		tab.Press(button)
		if got := tab.Text("h1"); !strings.Contains(got, words) {
			t.Errorf("the page says %q", got)
		}
		if got := tab.Text("#message"); !strings.HasPrefix(got, "SCALE_TO_LEVEL instances/a/web") {
			t.Errorf("the message: %s", got)
		}
		shown := changed(tab)
		if !slices.ContainsFunc(shown, func(l string) bool { return strings.Contains(l, line) }) || tab.Text(".preview") == "" {
			t.Errorf("it shows %q and the plan %s", shown, tab.Text("main"))
		}
		if now := gitOf(t, s, "rev-parse", "main"); now != was {
			t.Fatal("the preview has made a commit")
		}
		tab.Press(press)
		at := "main"
		if press == "#commit-branch" {
			at = strings.TrimPrefix(strings.Trim(tab.Eval("location.pathname"), `"`), "/ui/git/branches/")
			if now := gitOf(t, s, "rev-parse", "main"); now != was {
				t.Error("the branch that runs has moved")
			}
		}
		if made := committed(t, s, at); !slices.Equal(made, shown) {
			t.Errorf("the commit makes %q, and %q was shown", made, shown)
		}
	}
	to := func(n string) func() { return func() { tab.Type(`form:has(#do-scale_to_level) input[name=to]`, n) } }
	rest(1)
	level(to("3"), "#do-scale_to_level", "Scale to level front 3", "front: 3", "#commit-branch")
	rest(1)
	level(to("3"), "#do-scale_to_level", "Scale to level front 3", "front: 3", "#commit-now")
	rest(4)
	level(func() {}, "#do-instantiation_level", "Scale to instantiation level instantiation_level_1", "instantiation_level_1", "#commit-now")
	rest(1)
	// What can't be is refused with the reason, and what to do.
	tab.Expect("4")
	tab.Eval(`document.querySelector("form:has(#do-scale_to_level) input[name=to]").max = 99`) // the browser itself refuses it else
	to("9")()
	tab.Press("#do-scale_to_level")
	if got := tab.Text("#refusal"); !strings.Contains(got, "front") || !strings.Contains(got, "What to do") {
		t.Errorf("a level that there isn't is answered with %q", got)
	}
	tab.Open("/ui/instances/" + browser.ID(1))
	tab.Press("#do-scale_to_level") // the level that it has
	if got := tab.Text("#refusal"); !strings.Contains(got, "at these scale levels already") {
		t.Errorf("the level that it has is answered with %q", got)
	}
	tab.Clean()
}

func TestACommitThatJibeFilledInLeadsToItsOperation(t *testing.T) {
	t.Parallel()
	s, _ := browser.Small(t, nil)
	w := process.NewWorkTree(t, s.Desired())
	w.Write("instances/a/web/vnf.yaml", browser.VNF(1, "web", ""))
	w.Commit("Add it")
	first := w.Git("rev-parse", "HEAD")
	w.Write("instances/a/web/vnf.yaml", browser.VNF(1, "web", "description: with a second commit in the same push\n"))
	w.Commit("Describe it")
	second := w.Git("rev-parse", "HEAD")
	w.Write("README.md", "nothing of an instance\n")
	w.Push("Say what it is")
	other := w.Git("rev-parse", "HEAD")
	browser.Await(t, s, 1, "INSTANTIATED")
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	outcome := func(commit string) string {
		tab.Open("/ui/git/commits/" + commit)
		return tab.Text("#region-commit")
	}
	kit.Eventually(t, func() error {
		if got := outcome(second); !strings.Contains(got, "INSTANTIATE COMPLETED") {
			return fmt.Errorf("the person's commit says %s", got)
		}
		return nil
	})
	pin := gitOf(t, s, "log", "-1", "--format=%h", "--abbrev=8", "main", "--", "instances/a/web")
	if pin == second[:8] {
		t.Fatal("Jibe has filled in nothing")
	}
	for commit, want := range map[string]string{
		second: "began with " + pin + ", in which Jibe filled in what this commit left open",
		first:  "began with " + pin + ", the first with this commit in it that was operated on",
		other:  "No operation that is known began with it",
	} {
		if got := outcome(commit); !strings.Contains(got, want) {
			t.Errorf("commit %s says %q, want %q", commit, got, want)
		}
	}
	outcome(second)
	tab.Press("#region-commit a.badge")
	if got := tab.Text("#person") + tab.Text("main"); !strings.Contains(got, "INSTANTIATE") {
		t.Errorf("it leads to %s", got)
	}
	tab.Clean()
}
