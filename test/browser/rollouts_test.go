package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestARolloutIsResumedByTheCommitThatItsButtonHasShownAndThePageFollows(t *testing.T) {
	testenv.Chaos(t, "Chromium")
	t.Parallel()
	s, _ := browser.Small(t, map[string]string{"instances/edge/a/vnf.yaml": browser.VNF(1, "a", ""), "instances/edge/b/vnf.yaml": browser.VNF(2, "b", "")})
	browser.Await(t, s, 1, "INSTANTIATED")
	browser.Await(t, s, 2, "INSTANTIATED")
	s.PushFiles(t, map[string]string{"rollouts/edge.yaml": "select: {folders: [edge]}\nto: {vnfdId: " + process.SmallVnfd + "}\nstate: paused\n"})
	kit.Eventually(t, func() error {
		var list []struct{ Phase string }
		if err := s.Get(t.Context(), "/jibe/v1/rollouts", &list); err != nil || len(list) != 1 || list[0].Phase != "paused" {
			return fmt.Errorf("the rollouts are %+v (%w), want one that is paused", list, err)
		}
		return nil
	})
	tab := browser.New(t).Tab(t, s, browser.View{})

	tab.Expect("403")
	looker := let(t, s, "looker", "role: viewer")
	tab.Login(looker)
	tab.Open("/ui/rollouts/edge")
	if got := tab.Eval(`document.querySelectorAll("main button").length`); got != "0" || !strings.Contains(tab.Text("#may-not"), "operator") {
		t.Errorf("who may only look sees %s buttons: %s", got, tab.Text("main"))
	}
	if status := posts(tab, "/ui/rollouts/edge/propose", "action", "resume"); status != http.StatusForbidden {
		t.Errorf("who may only look is answered with %d", status)
	}
	tab.Press("#logout")

	tab.Login(s.Token)
	tab.Open("/ui/")
	tab.Press(`nav.main a[href="/ui/rollouts"]`)
	if text := tab.Text("main"); !strings.Contains(text, "edge") || !strings.Contains(text, "paused") {
		t.Errorf("the list: %s", text)
	}
	tab.Accessible()
	look(t, tab, "rollouts")
	tab.Press(`table.rollouts a`)
	tab.Accessible()
	other := tab.Another()
	other.Open("/ui/rollouts/edge")
	tab.Press("#do-resume")
	message, before := tab.Text("#message"), gitOf(t, s, "rev-parse", "main")
	if !strings.HasPrefix(message, "Resume rollout edge") || !strings.Contains(tab.Text(".diff"), "state: running") {
		t.Errorf("the commit: %s\n%s", message, tab.Text("main"))
	}
	tab.Accessible()
	look(t, tab, "rollout-ask")
	tab.Press("#commit-now")
	// Nobody has reloaded the other page: both sites run the version already.
	other.Eventually(`document.querySelector("#phase").textContent`, "completed")
	other.Eventually(`document.querySelectorAll("#wave-1 td")[5].textContent`, "2")
	other.Accessible()
	look(t, other, "rollout")
	if got := gitOf(t, s, "log", "--reverse", "--format=%s", before+"..main"); !strings.HasPrefix(got, "Resume rollout edge\n") {
		t.Errorf("the commits are:\n%s", got)
	}
	tab.Clean()
	other.Clean()
}
