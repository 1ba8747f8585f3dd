package browser_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestWhatOutsidersWriteIsTextOnThePagesOfRollouts(t *testing.T) {
	t.Parallel()
	s, cloud := browser.Empty(t)
	next := process.NextVersion(t, process.SmallPackage(), "next", process.SmallVnfd, nextVnfd, "'1.0'", "'1.1"+evil("version")+"'")
	s.PushPackages(t, []string{process.SmallVnfd, nextVnfd}, process.SmallPackage(), next)
	folder := strings.ReplaceAll(evil("folder"), "/", "⁄")
	s.PushFiles(t, map[string]string{
		"vims/sim.yaml":                        "type: sim\ndefault: true\n",
		"instances/" + folder + "/a/vnf.yaml":  browser.VNF(1, "a", ""),
		"instances/" + folder + "/b/vnf.yaml":  browser.VNF(2, "b", "suspend: true\n"),
		"instances/" + folder + "/ab/vnf.yaml": browser.VNF(3, "ab", ""),
	})
	browser.Await(t, s, 1, "INSTANTIATED")
	browser.Await(t, s, 3, "INSTANTIATED")

	// Who asks for what the buttons do is named in commits. The token file takes no angle brackets.
	name, token := attribute("user"), "a-token-of-24-characters"
	if err := os.WriteFile(filepath.Join(s.Data, "tokens.yaml"), fmt.Appendf(nil, "tokens: [{name: %q, role: admin, token: %s}]\n", name, token), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Token = token
	cloud.Fail(browser.Object(1), evil("reason"))
	s.PushFiles(t, map[string]string{"rollouts/all.yaml": "# " + evil("comment") + "\nselect: {folders: [instances/**]}\nto: {vnfdId: " + nextVnfd + "}\norder: [{instances: ['instances/" + folder + "/a', 'instances/" + folder + "/b']}, {percent: 100}]\n"})
	// The hook refuses what can't be read; at a forge there is none.
	w := process.NewWorkTree(t, s.Desired())
	w.Write("rollouts/unread.yaml", "to: {vnfdId: x}\norder: [{'"+evil("key")+"': 1}]\nselect: '"+evil("select")+"'\n")
	w.Commit("Break it")
	kit.Eventually(t, func() error { // Jibe's own commits may be faster
		w.Pull()
		out, err := exec.CommandContext(t.Context(), "git", "-C", w.Dir(), "push", "--quiet", "--receive-pack=git -c core.hooksPath=/dev/null receive-pack", "origin", "HEAD:main").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})

	tab := browser.New(t).Tab(t, s, browser.View{})
	tab.Login(token)
	kit.Eventually(t, func() error {
		tab.Open("/ui/rollouts")
		if text := tab.Text("main"); !strings.Contains(text, "halted") || !strings.Contains(text, "not obeyed") {
			return fmt.Errorf("the rollouts: %s", text)
		}
		return nil
	})
	inert(t, tab, "the rollouts")
	tab.Open("/ui/rollouts/all")
	inert(t, tab, "the rollout that is halted", "instances/"+folder+"/a", "instances/"+folder+"/b", evil("reason"), evil("comment"), name)
	tab.Press("#do-resume")
	inert(t, tab, "what its button shows", name)
	tab.Press("#commit-now")
	inert(t, tab, "the rollout that goes on", evil("comment"))
	tab.Open("/ui/git")
	inert(t, tab, "git", name)
	tab.Open("/ui/rollouts/unread")
	inert(t, tab, "the rollout that can't be read", evil("key"))
	tab.Expect("404")
	tab.Open("/ui/rollouts/" + url.PathEscape(`x"><svg onload=window.hit=1>`))
	inert(t, tab, "a rollout that isn't")
	tab.Clean()
}
