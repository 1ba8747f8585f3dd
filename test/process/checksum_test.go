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
	"github.com/jibe-vnfm/jibe/test/testenv"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

const (
	changedFile  = "small/Files/kubernetes/deployment.yaml"
	wrongHash    = "TOSCA-Metadata/TOSCA.meta:14: Files/kubernetes/deployment.yaml was changed: its SHA-256 is "
	smallVnfFile = "vnfdId: " + process.SmallVnfd + "\nflavour: simple\nparams: {namespace: a}\n"
)

// unsound makes the package SmallPackage one that was changed after its checksums were
// made. The function that it returns repairs it.
func unsound(t *testing.T, s *process.Server) (repair func()) {
	t.Helper()
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	d := s.WorkTree(t, process.PackageRepository)
	d.Write(changedFile, d.Read(changedFile)+"# changed by somebody\n")
	d.Push("Change the package")
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
		if err := csar.Rehash(filepath.Join(d.Dir(), "small")); err != nil {
			t.Fatal(err)
		}
		d.Push("Write its checksums anew")
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
	kit.Long(t)
	t.Parallel()
	s := process.Start(t, t.TempDir())
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	repair := unsound(t, s)
	d := process.NewWorkTree(t, s.Desired())
	d.Write("instances/a/vnf.yaml", smallVnfFile)
	d.Commit("Run it")
	if out, err := d.TryPush(); err == nil || !strings.Contains(out, wrongHash) || !strings.Contains(out, "instances/a/vnf.yaml") {
		t.Errorf("the push: %v\n%s", err, out)
	}
	var problem struct{ Detail string }
	a, err := s.Do(t.Context(), http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd})
	if err != nil || json.Unmarshal(a.Body, &problem) != nil || a.Status != http.StatusUnprocessableEntity || !strings.Contains(problem.Detail, wrongHash) {
		t.Errorf("the request: %+v, %v", a, err)
	}
	repair()
	kit.Eventually(t, func() error { _, err := d.TryPush(); return err })
	kit.Eventually(t, func() error {
		if state, problem := note(t, s); state != "INSTANTIATED" || problem != "" {
			return fmt.Errorf("%s, %s", state, problem)
		}
		return nil
	})
}

func TestOnAForgeTheInstanceShowsTheWrongChecksumOfItsPackageUntilThatIsRepaired(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	forge := process.NewForge(t, map[string]string{
		"repositories.yaml": "- {name: packages, url: packages.git}\n",
		"vims/sim.yaml":     "type: sim\ndefault: true\n",
	})
	s := process.Start(t, t.TempDir(), "--remote", "file://"+forge, "--poll", "1s")
	repair := unsound(t, s)
	process.NewWorkTree(t, forge).PushFiles(map[string]string{"instances/a/vnf.yaml": smallVnfFile})
	kit.Eventually(t, func() error {
		if state, problem := note(t, s); state != "NOT_INSTANTIATED" || !strings.Contains(problem, wrongHash) {
			return fmt.Errorf("%s, %s", state, problem)
		}
		return nil
	})
	repair()
	kit.Eventually(t, func() error {
		if state, problem := note(t, s); state != "INSTANTIATED" || problem != "" {
			return fmt.Errorf("%s, %s", state, problem)
		}
		return nil
	})
}

func TestAFlawedPackageInGitIsShownAndCanBeUsed(t *testing.T) {
	t.Parallel()
	s := process.Start(t, t.TempDir())
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	d := s.WorkTree(t, process.PackageRepository)
	d.Write("small/Files/kubernetes/more.yaml", "apiVersion: v1\nkind: ConfigMap\n")
	d.Push("Add a manifest of an object without metadata")

	kit.Eventually(t, func() error {
		var list []struct{ VnfdID, Problem string }
		if err := s.Get(t.Context(), "/jibe/v1/packages", &list); err != nil {
			return err
		}
		if len(list) != 1 || list[0].VnfdID != process.SmallVnfd || !strings.Contains(list[0].Problem, "Files/kubernetes/more.yaml:1: document 1: ConfigMap has no metadata") {
			return fmt.Errorf("packages: %+v", list)
		}
		return nil
	})

	a, err := s.Do(t.Context(), http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd})
	if err != nil || a.Status != http.StatusCreated {
		t.Errorf("%v, %+v", err, a)
	}
}
