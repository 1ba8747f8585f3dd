package browser_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// slow begins an operation whose VNFCs take an hour to become ready, and returns it once the instance's page shows
// that they are starting.
func slow(t *testing.T, s *process.Server, cloud *sim.Cloud, tab *browser.Tab, n int, task string, body any) (op string) {
	t.Helper()
	cloud.SetLatency(time.Hour)
	kit.Eventually(t, func() error { // once the operation before it has ended
		a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+browser.ID(n)+"/"+task, body)
		if err != nil || a.Status != http.StatusAccepted {
			return fmt.Errorf("%s isn't accepted: %d %s (%w)", task, a.Status, a.Body, err)
		}
		op = a.ID()
		return nil
	})
	tab.Open("/ui/instances/" + browser.ID(n))
	tab.Eventually(`document.querySelectorAll(".box.unit.k-busy").length > 0`, true)
	cloud.SetLatency(0) // of those that start from now on
	return op
}

// kept is what the API answers of an operation.
type kept struct {
	OperationState, CancelMode string
	IsCancelPending            bool
	Error                      struct{ Detail string }
	story                      string
}

func record(t *testing.T, s *process.Server, op string) (o kept) {
	t.Helper()
	var story []struct{ Text string }
	if err := errors.Join(s.Get(t.Context(), process.Operations+"/"+op, &o), s.Get(t.Context(), "/jibe/v1/operations/"+op+"/story", &story)); err != nil {
		t.Fatal(err)
	}
	for _, line := range story {
		o.story += line.Text + "\n"
	}
	return o
}

// canBe are the buttons of the operation's page that can be pressed, and the ways of a cancel that it offers.
const canBe = `[["retry", "rollback", "fail", "cancel"].filter(a => !document.getElementById("do-" + a).disabled).join(), [...document.querySelectorAll("select[name=mode] option")].map(o => o.value).join()].join(": ")`

// cancel presses the button in the way given, and commits what the page says of it. watched is another tab that
// looks at the operation all the while.
func cancel(t *testing.T, s *process.Server, tab, watched *browser.Tab, op, mode string) {
	t.Helper()
	was := gitOf(t, s, "rev-parse", "main")
	tab.Open("/ui/operations/" + op)
	tab.Choose("mode", mode)
	watched.Open("/ui/operations/" + op)
	before := record(t, s, op)
	tab.Press("#do-cancel")
	if got := tab.Text("#effect"); !strings.HasPrefix(got, "No commit is made now.") {
		t.Errorf("it says %q", got)
	}
	if now := record(t, s, op); now != before {
		t.Fatalf("to look at it has changed the operation from %v to %v", before, now)
	}
	tab.Accessible()
	look(t, tab, "cancel-"+strings.ToLower(mode))
	tab.Press("#commit-now")
	if at := tab.Eval("location.pathname"); at != mustJSON("/ui/operations/"+op) {
		t.Errorf("it leads to %s", at)
	}
	if before.OperationState != "STARTING" {
		if now := gitOf(t, s, "rev-parse", "main"); now != was {
			t.Error("to cancel what has begun has made a commit")
		}
	}
}

// sees waits until a page that nobody loads again says that an operation is in a state, and has a line in its timeline.
func sees(t *testing.T, tab *browser.Tab, state, line string) {
	t.Helper()
	tab.Eventually(`document.getElementById("state").textContent`, state)
	tab.Eventually(`[...document.querySelectorAll(".timeline .text")].some(l => l.textContent.includes(`+mustJSON(line)+`))`, true)
}

func TestAnOperationIsCancelledByItsButtonGracefullyOrAtOnce(t *testing.T) {
	t.Parallel()
	s, cloud := browser.Small(t, map[string]string{
		"instances/a/web/vnf.yaml":   "id: " + browser.ID(1) + "\nname: web\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nlevels: {front: 1}\nparams: {namespace: n1, router: true}\n",
		"instances/a/slow/vnf.yaml":  browser.VNF(2, "slow", ""),
		"instances/a/begun/vnf.yaml": browser.VNF(3, "begun", ""),
	})
	s.PushPackages(t, []string{nextVnfd}, process.NextVersion(t, process.SmallPackage(), "next", process.SmallVnfd, nextVnfd, "'1.0'", "'2.0'"))
	for n := 1; n <= 3; n++ {
		browser.Await(t, s, n, "INSTANTIATED")
	}
	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(s.Token)
	watched := tab.Another()

	t.Run("gracefully: what was started comes to its end, and no more is begun", func(t *testing.T) {
		tab, watched := tab.For(t), watched.For(t)
		op := slow(t, s, cloud, tab, 1, "change_vnfpkg", map[string]any{"vnfdId": nextVnfd, "additionalParams": map[string]any{"upgrade_type": "Blue-Green"}})
		blue := reached(cloud, 1)
		cancel(t, s, tab, watched, op, "GRACEFUL")
		sees(t, watched, "PROCESSING", "cancel asked for (GRACEFUL)")
		watched.Eventually(`document.querySelector(".badges").textContent.includes("cancel pending: GRACEFUL")`, true)
		watched.Eventually(canBe, "cancel: FORCEFUL")
		if o := record(t, s, op); !o.IsCancelPending || o.CancelMode != "GRACEFUL" || o.OperationState != "PROCESSING" {
			t.Errorf("the API says %+v", o)
		}
		look(t, watched, "cancel-pending")
		// Its VNFCs become ready: what would come next is the switch of traffic.
		var starting []string
		tab.Open("/ui/instances/" + browser.ID(1))
		tab.Into(`[...document.querySelectorAll(".box.unit.k-busy input[name=vnfc]")].map(i => i.value)`, &starting)
		for _, id := range starting {
			if !cloud.Kill(id) { // its successor starts at once
				t.Errorf("no VNFC %s is starting", id)
			}
		}
		sees(t, watched, "FAILED_TEMP", "cancelled on request (GRACEFUL)")
		watched.Eventually(canBe, "retry,rollback,fail: ")
		if got := watched.Text(".badges"); strings.Contains(got, "cancel") {
			t.Errorf("the badges still say %q", got)
		}
		o := record(t, s, op)
		if o.IsCancelPending || !strings.Contains(o.story, "\napply Workload/n1/vdu1-") || strings.Contains(o.story, "apply Router") || !strings.Contains(o.Error.Detail, "cancelled on request (GRACEFUL)") {
			t.Errorf("the API says %+v", o)
		}
		if now := reached(cloud, 1); fmt.Sprint(now) != fmt.Sprint(blue) {
			t.Errorf("traffic reaches %q, and reached %q", now, blue)
		}
		if file := gitOf(t, s, "show", "main:instances/a/web/vnf.yaml"); !strings.Contains(file, nextVnfd) {
			t.Errorf("a cancel has changed the file:\n%s", file)
		}
		// It is taken back by the next button.
		watched.Press("#do-rollback")
		watched.Press("#commit-now")
		sees(t, watched, "ROLLED_BACK", "ROLLED_BACK")
		kit.Until(t, "the file is what it was", func() bool {
			return !strings.Contains(gitOf(t, s, "show", "main:instances/a/web/vnf.yaml"), nextVnfd)
		})
	})

	t.Run("gracefully, and then at once as it takes too long", func(t *testing.T) {
		tab, watched := tab.For(t), watched.For(t)
		op := slow(t, s, cloud, tab, 2, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
		cancel(t, s, tab, watched, op, "GRACEFUL")
		sees(t, watched, "PROCESSING", "cancel asked for (GRACEFUL)")
		cancel(t, s, tab, watched, op, "FORCEFUL")
		sees(t, watched, "FAILED_TEMP", "cancelled on request (FORCEFUL)")
		watched.Eventually(canBe, "retry,rollback,fail: ")
		if o := record(t, s, op); o.IsCancelPending || !strings.Contains(o.Error.Detail, "cancelled on request (FORCEFUL)") {
			t.Errorf("the API says %+v", o)
		}
		if got := watched.Text(".notice.bad"); !strings.Contains(got, "cancelled on request (FORCEFUL)") || !strings.Contains(got, "What to do") {
			t.Errorf("the page says %q", got)
		}
		watched.Accessible()
		watched.Open("/ui/instances/" + browser.ID(2))
		if got := watched.Text("#region-history"); !strings.Contains(got, "FAILED_TEMP") {
			t.Errorf("the instance's history says %q", got)
		}
	})

	t.Run("before it has begun: the directory is what it was", func(t *testing.T) {
		tab, watched := tab.For(t), watched.For(t)
		cloud.SetAway(errors.New("its power is off"))
		defer cloud.SetAway(nil)
		was := gitOf(t, s, "rev-parse", "main")
		op := asksFor(t, s, 3, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
		asked := gitOf(t, s, "rev-parse", "main")
		kit.Until(t, "the operation says that it waits for its VIM", func() bool { return strings.Contains(record(t, s, op).story, "can't be seen") })
		cancel(t, s, tab, watched, op, "FORCEFUL")
		sees(t, watched, "ROLLED_BACK", "cancelled before anything was changed")
		watched.Eventually(canBe, ": ")
		kit.Until(t, "the file is what it was", func() bool { return gitOf(t, s, "diff", "--name-only", was, "main", "--", "instances/a/begun") == "" })
		made := strings.Fields(gitOf(t, s, "rev-list", asked+"..main"))
		if len(made) != 1 || asked == was {
			t.Fatalf("the commits %s follow %s", made, asked)
		}
		tab.Open("/ui/git/commits/" + made[0])
		if got := tab.Text("main"); !strings.Contains(got, "instances/a/begun") {
			t.Errorf("the page of the commit says %q", got)
		}
	})
	tab.Clean()
	watched.Clean()
}
