package process_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestTheSmokeTestTakesAVNFThroughItsLifeAndLeavesNothing(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := process.Start(t, t.TempDir(), "--seed", seedOf(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"}))
	for range 2 { // also a second time
		out, said, code := s.CLI(t, "smoke-test", "--image", "registry.example/jibe:1", "--command", "/usr/bin/jibe,smoke-test,pod", "--namespace", "vnfs")
		if code != 0 {
			t.Fatalf("exit status %d: %s%s", code, out, said)
		}
		for _, want := range []string{"instantiate ", "scale ", "heal ", "change_vnfpkg ", "terminate ", "all works: "} {
			if !strings.Contains(out, want) {
				t.Errorf("it doesn't say %q:\n%s", want, out)
			}
		}
	}
	for list, version := range map[string]string{"/vnflcm/v2/vnf_instances": "2.0.0", "/vnfpkgm/v2/vnf_packages": "2.1.0"} {
		var left []map[string]any
		s.Want(t, http.StatusOK, http.MethodGet, list, nil, &left, "Version", version)
		if len(left) > 0 {
			t.Errorf("%s: %v is left", list, left)
		}
	}
}

func TestTheSmokeTestTakesItsPackagesFromARepositoryAndLeavesThemThere(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	s := process.Start(t, t.TempDir(), "--seed", seedOf(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"}))
	dir := t.TempDir()
	write := []string{"smoke-test", "packages", dir, "--image", "registry.example/jibe:1", "--command", "/usr/bin/jibe,smoke-test,pod"}
	out, said, code := s.CLI(t, write...)
	ids := strings.Split(strings.TrimSpace(out), ",")
	if code != 0 || len(ids) != 2 {
		t.Fatalf("exit status %d: %s%s", code, out, said)
	}
	if _, said, code := s.CLI(t, write...); code == 0 || !strings.Contains(said, "is there already") {
		t.Errorf("it wrote over packages that were there: exit status %d: %s", code, said)
	}
	s.PushPackages(t, ids, filepath.Join(dir, "smoke-test-1.0"), filepath.Join(dir, "smoke-test-2.0"))
	for range 2 { // also a second time
		if out, said, code := s.CLI(t, "smoke-test", "--namespace", "vnfs", "--packages", strings.Join(ids, ",")); code != 0 || !strings.Contains(out, "all works: ") {
			t.Fatalf("exit status %d: %s%s", code, out, said)
		}
	}
	var left []map[string]any
	s.Want(t, http.StatusOK, http.MethodGet, "/vnfpkgm/v2/vnf_packages", nil, &left, "Version", "2.1.0")
	if len(left) != 2 {
		t.Errorf("the packages are %v", left)
	}
	if _, said, code := s.CLI(t, "smoke-test", "--packages", ids[0]); code == 0 || !strings.Contains(said, "name two") {
		t.Errorf("one package alone: exit status %d: %s", code, said)
	}
}

func TestTheSmokeTestSaysWhatFailedAndTakesItAway(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	s := process.Start(t, t.TempDir()) // it has no VIM
	out, said, code := s.CLI(t, "smoke-test", "--image", "registry.example/jibe:1")
	if code == 0 || !strings.Contains(said, "instantiate VNF smoke-test-") || !strings.Contains(said, "VIM") {
		t.Errorf("exit status %d: %s%s", code, out, said)
	}
	left, err := process.All[map[string]any](t.Context(), s, "/vnflcm/v2/vnf_instances")
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
