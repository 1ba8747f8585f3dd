package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// site is a server of the test's own with a VNF that runs at a VIM in memory, and a work tree
// on its desired repository.
func site(t *testing.T) (*server, *process.WorkTree) {
	t.Helper()
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	s.process.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.process.PushFiles(t, map[string]string{
		"vims/lab.yaml":          "type: sim\ndefault: true\n",
		"instances/web/vnf.yaml": "vnfdId: " + process.SmallVnfd + "\nflavour: simple\nparams: {namespace: web}\n",
	})
	kit.Eventually(t, func() error {
		if a := s.rest(t, http.MethodGet, instances, nil); !strings.Contains(string(a.Body), `"INSTANTIATED"`) {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
	return s, s.clone(t, "desired.git")
}

func TestAPushIsRefusedThatTakesAwayWhatAVNFNeedsOrMisnamesItsFile(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	t.Parallel()
	s, d := site(t)
	for name, c := range map[string]struct {
		do   func()
		says []string
	}{
		"the VIM":               {func() { d.Git("rm", "--quiet", "vims/lab.yaml") }, []string{"vims/lab.yaml: can't go", "instances/web", "terminate"}},
		"the VIM's name":        {func() { d.Git("mv", "vims/lab.yaml", "vims/lab2.yaml") }, []string{"vims/lab.yaml: can't go", "instances/web"}},
		"the repositories":      {func() { d.Git("rm", "--quiet", "repositories.yaml") }, []string{"repositories.yaml: can't go", "instances/web"}},
		"the repository's name": {func() { d.Write("repositories.yaml", "- name: other\n  url: nothing.git\n") }, []string{"repositories.yaml"}},
		"vnf.yml":               {func() { d.Git("mv", "instances/web/vnf.yaml", "instances/web/vnf.yml") }, []string{"instances/web/vnf.yml", "git mv instances/web/vnf.yml instances/web/vnf.yaml"}},
		"any other name":        {func() { d.Git("mv", "instances/web/vnf.yaml", "instances/web/off.txt") }, []string{"instances/web/off.txt", "vnf.yaml"}},
		"a new VNF.yaml":        {func() { d.Write("instances/new/VNF.yaml", "vnfdId: x\n") }, []string{"instances/new/VNF.yaml", "instances/new/vnf.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			d.Git("reset", "--quiet", "--hard", "origin/main")
			c.do()
			d.Commit("A slip")
			out, err := d.TryPush()
			if err == nil {
				t.Fatal("it was accepted")
			}
			if validated, _, code := s.cli(t, "validate", d.Dir()); code != 1 && name != "any other name" {
				t.Errorf("jibe validate: %d %s", code, validated)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
