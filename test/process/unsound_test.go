package process_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

const (
	changedFile  = "small/Files/kubernetes/deployment.yaml"
	wrongHash    = "TOSCA-Metadata/TOSCA.meta:14: Files/kubernetes/deployment.yaml was changed: its SHA-256 is "
	smallVnfFile = "vnfdId: " + process.SmallVnfd + "\nflavour: simple\nparams: {namespace: a}\n"
)

// unsound makes the package SmallPackage one that was changed after its checksums were
// made. The function that it returns mends that.
func unsound(t *testing.T, s *process.Server) (mend func()) {
	t.Helper()
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	c := process.NewClone(t, filepath.Join(s.Data, "packages", "packages.git"))
	push := func() {
		t.Helper()
		if _, err := c.Commit(t.Context(), "Change the package"); err != nil {
			t.Fatal(err)
		}
		if err := c.Push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := c.Read(changedFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(changedFile, text+"# changed by somebody\n"); err != nil {
		t.Fatal(err)
	}
	push()
	kit.Eventually(t, func() error {
		var list []struct{ VnfdID, Problem string }
		if err := s.Get(t.Context(), "/jibe/v1/packages", &list); err != nil {
			return err
		}
		if len(list) != 1 || list[0].VnfdID != process.SmallVnfd || !strings.Contains(list[0].Problem, wrongHash) {
			return fmt.Errorf("packages: %+v", list)
		}
		return nil
	})
	return func() {
		t.Helper()
		if err := csar.Rehash(filepath.Join(c.Dir, "small")); err != nil {
			t.Fatal(err)
		}
		push()
	}
}

// note is what the instance says of itself, by its name.
func note(t *testing.T, s *process.Server) (state, problem string) {
	t.Helper()
	var list []struct {
		InstantiationState string
		Jibe               struct{ Problems []struct{ Message string } }
	}
	if err := s.Get(t.Context(), process.Instances+"?all_fields", &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		return "", ""
	}
	for _, p := range list[0].Jibe.Problems {
		problem += p.Message
	}
	return list[0].InstantiationState, problem
}

func TestAPushAndARequestForAPackageWithAWrongChecksumAreRefusedWithItsProblem(t *testing.T) {
	s := process.Start(t, t.TempDir())
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	mend := unsound(t, s)
	c := process.NewClone(t, s.Desired())
	if err := c.Write("instances/a/vnf.yaml", smallVnfFile); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Commit(t.Context(), "Run it"); err != nil {
		t.Fatal(err)
	}
	if err := c.Push(t.Context()); err == nil || !strings.Contains(err.Error(), wrongHash) || !strings.Contains(err.Error(), "instances/a/vnf.yaml") {
		t.Errorf("the push: %v", err)
	}
	var problem struct{ Detail string }
	a, err := s.Do(t.Context(), http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd})
	if err != nil || json.Unmarshal(a.Body, &problem) != nil || a.Status != http.StatusUnprocessableEntity || !strings.Contains(problem.Detail, wrongHash) {
		t.Errorf("the request: %+v, %v", a, err)
	}
	mend()
	kit.Eventually(t, func() error { return c.Push(t.Context()) })
	kit.Eventually(t, func() error {
		if state, problem := note(t, s); state != "INSTANTIATED" || problem != "" {
			return fmt.Errorf("%s, %s", state, problem)
		}
		return nil
	})
}

func TestOnAForgeTheInstanceTellsOfItsPackagesWrongChecksumUntilThatIsMended(t *testing.T) {
	forge := filepath.Join(t.TempDir(), "forge.git")
	if _, err := process.Git(t.Context(), t.TempDir(), "init", "--quiet", "--bare", "--initial-branch=main", forge); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, t.TempDir(), "--remote", "file://"+forge, "--poll", "100ms")
	c := process.NewClone(t, forge)
	push := func(name, text string) {
		t.Helper()
		if err := c.Write(name, text); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Commit(t.Context(), "Add "+name); err != nil {
			t.Fatal(err)
		}
		if err := c.Push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	push("repositories.yaml", "- {name: packages, url: packages.git}\n")
	push("vims/sim.yaml", "type: sim\ndefault: true\n")
	mend := unsound(t, s)
	push("instances/a/vnf.yaml", smallVnfFile)
	kit.Eventually(t, func() error {
		if state, problem := note(t, s); state != "NOT_INSTANTIATED" || !strings.Contains(problem, wrongHash) {
			return fmt.Errorf("%s, %s", state, problem)
		}
		return nil
	})
	mend()
	kit.Eventually(t, func() error {
		if state, problem := note(t, s); state != "INSTANTIATED" || problem != "" {
			return fmt.Errorf("%s, %s", state, problem)
		}
		return nil
	})
}
