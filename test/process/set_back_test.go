package process_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// What a branch lacks that was set back was terminated within a second once, and acknowledged scalings with it.
func TestABranchSetBackOnTheHostEndsNothingUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	s := process.Start(t, t.TempDir())
	publishSmall(t, s)
	vnf := func(name string) string {
		return fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s, router: true}\n", name, process.SmallVnfd)
	}
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n", "instances/one/vnf.yaml": vnf("one")})
	running := func(want int) {
		t.Helper()
		kit.Eventually(t, func() error {
			in, err := process.All[struct {
				State string `json:"instantiationState"`
			}](t.Context(), s, process.Instances)
			if err != nil {
				return kit.Final(err)
			}
			n := 0
			for _, x := range in {
				if x.State == "INSTANTIATED" {
					n++
				}
			}
			if n != want {
				return fmt.Errorf("%d VNFs run, want %d", n, want)
			}
			return nil
		})
	}
	running(1)
	before := tip(t, s)
	s.PushFiles(t, map[string]string{"instances/two/vnf.yaml": vnf("two"), "instances/three/vnf.yaml": vnf("three")})
	running(3)
	clone := s.WorkTree(t, "desired.git")

	setBack := func() {
		t.Helper()
		if _, err := process.Git(t.Context(), s.Desired(), "update-ref", "refs/heads/main", before); err != nil {
			t.Fatal(err)
		}
	}
	held := func() {
		t.Helper()
		kit.Eventually(t, func() error {
			a, err := s.Do(t.Context(), http.MethodGet, "/readyz", nil)
			if err == nil && (a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "jibe accept")) {
				err = fmt.Errorf("/readyz: %d, %s", a.Status, a.Body)
			}
			return err
		})
		running(3)
		if out, said, code := s.CLI(t, "get", "problems"); code != 0 || !strings.Contains(out, before) || !strings.Contains(out, "2 end (three, two)") {
			t.Errorf("get problems ends with %d: %s%s", code, out, said)
		}
		if a := s.Want(t, http.StatusServiceUnavailable, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil); !strings.Contains(string(a.Body), "held back") {
			t.Errorf("a request is refused with %s", a.Body)
		}
	}

	setBack()
	held()
	clone.Git("reset", "--quiet", "--hard", before)
	clone.Write("instances/four/vnf.yaml", vnf("four"))
	clone.Commit("Bring another")
	if out, err := clone.TryPush(); err == nil || !strings.Contains(out, "held back") {
		t.Errorf("a push to the branch that was set back: %v, %s", err, out)
	}
	s.Kill()
	s = process.Start(t, s.Data)
	held()
	ended := func() []process.Operation {
		t.Helper()
		all, err := process.All[process.Operation](t.Context(), s, process.Operations)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(op process.Operation) bool { return op.Type != "TERMINATE" })
	}
	if ops := ended(); len(ops) != 0 {
		t.Errorf("VNFs were ended: %+v", ops)
	}

	if out, said, code := s.CLI(t, "accept"); code == 0 || !strings.Contains(out, "VNFs that end: 2\n  instances/three\n  instances/two\n") || !strings.Contains(said, "--yes") {
		t.Errorf("accept without a terminal ends with %d: %s%s", code, out, said)
	}
	running(3)
	if out, said, code := s.CLI(t, "accept", "--yes"); code != 0 {
		t.Fatalf("accept ends with %d: %s%s", code, out, said)
	}
	kit.Until(t, "what was accepted ends two VNFs", func() bool { return len(ended()) == 2 })
	running(1)
}

// tip is where the server's desired branch is.
func tip(t *testing.T, s *process.Server) string {
	t.Helper()
	commit, err := process.Ref(s.Desired(), "refs/heads/main")
	if err != nil || commit == "" {
		t.Fatalf("the branch is at %q, %v", commit, err)
	}
	return commit
}
