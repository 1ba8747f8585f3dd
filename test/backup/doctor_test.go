package backup_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// examined runs jibe doctor and returns what it found, and its exit status.
func examined(t testing.TB, args ...string) (results []doctor.Result, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), process.Binary(t), append([]string{"doctor", "-o", "json"}, args...)...)
	cmd.Env = process.Environment()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code < 2 {
		if err := json.Unmarshal(out, &results); err != nil {
			t.Fatalf("jibe doctor %v: %v in %q", args, err, out)
		}
	}
	return results, code
}

// found is the result of a check.
func found(t testing.TB, results []doctor.Result, name string) doctor.Result {
	t.Helper()
	i := slices.IndexFunc(results, func(r doctor.Result) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %q in %+v", name, results)
	}
	return results[i]
}

func TestTheDoctorFindsAWholeInstallationWellBesideItsServerAndWithout(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeenv.Kubeconfig(t)
	dir := process.ShortTempDir(t)
	data := filepath.Join(dir, "data")
	s := process.Start(t, data, "--secret-dir", filepath.Dir(kubeconfig))
	s.PushFiles(t, map[string]string{"vims/test.yaml": "type: kubernetes\nkubeconfig: file:" + kubeconfig + "\n",
		"vims/away.yaml": "type: kubernetes\nendpoint: https://127.0.0.1:1\n", "vims/sim.yaml": "type: sim\ndefault: true\n"})
	hold := func(results []doctor.Result, code int) {
		t.Helper()
		if code != 1 {
			t.Errorf("the exit status is %d, want 1, as a VIM is away", code)
		}
		for _, r := range results {
			if r.Name == "VIM away" {
				if r.State != doctor.Failed || r.Do == "" {
					t.Errorf("a VIM that is away: %+v", r)
				}
			} else if r.State == doctor.Failed {
				t.Errorf("%+v", r)
			}
			if strings.Contains(r.Means+r.Do, s.Token) {
				t.Errorf("%s shows a token", r.Name)
			}
		}
		if vim := found(t, results, "VIM test"); vim.State != doctor.OK || !strings.Contains(vim.Means, "Kubernetes v") {
			t.Errorf("the cluster: %+v", vim)
		}
		if vim := found(t, results, "VIM sim"); vim.State != doctor.Skipped {
			t.Errorf("the simulator: %+v", vim)
		}
	}
	beside, code := examined(t, "--data", data)
	hold(beside, code)
	if r := found(t, beside, "server"); r.State != doctor.OK {
		t.Errorf("%+v", r)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	without, code := examined(t, "--data", data, "--secret-dir", filepath.Dir(kubeconfig), "--egress-allow", "127.0.0.0/8,::1")
	hold(without, code)
	if len(without) != len(beside) {
		t.Errorf("%d checks beside the server, %d without", len(beside), len(without))
	}
	for i := range min(len(without), len(beside)) {
		if without[i].Name != beside[i].Name {
			t.Errorf("check %d is %q beside the server and %q without", i, beside[i].Name, without[i].Name)
		}
	}
	if _, code := examined(t, "--no-such-flag"); code != 2 {
		t.Errorf("a wrong call ends with %d, want 2", code)
	}
}

func TestTheDoctorNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir, file := small(t)
	whole := filepath.Join(dir, "restored")
	must(t, "restore", file, "--data", whole)

	for name, c := range map[string]struct {
		check string
		state doctor.State
		harm  func(data string) error
	}{
		"open directory": {"data directory", doctor.Failed, func(data string) error { return os.Chmod(filepath.Join(data, "identity.age"), 0o644) }},
		"token file": {"tokens", doctor.Failed, func(data string) error {
			return os.WriteFile(filepath.Join(data, "tokens.yaml"), []byte("tokens: [{name: a}]"), 0o600)
		}},
		"key":   {"key", doctor.Failed, func(data string) error { return os.Remove(filepath.Join(data, "identity.age")) }},
		"store": {"store", doctor.Failed, func(data string) error { return os.Truncate(filepath.Join(data, "store.db"), 5000) }},
		"branch": {"desired repository", doctor.Failed, func(data string) error {
			return os.WriteFile(filepath.Join(data, "desired.git", "packed-refs"), nil, 0o600)
		}},
		"objects":   {"desired repository", doctor.Failed, func(data string) error { return os.RemoveAll(filepath.Join(data, "desired.git", "objects", "pack")) }},
		"hook":      {"push hook", doctor.Warning, func(data string) error { return os.Remove(filepath.Join(data, "desired.git", "hooks", "pre-receive")) }},
		"audit log": {"audit log", doctor.Failed, func(data string) error { return os.Truncate(filepath.Join(data, "audit.jsonl"), 0) }},
		"installation": {"installation id", doctor.Failed, func(data string) error {
			return os.WriteFile(filepath.Join(data, "installation"), []byte("Not one"), 0o600)
		}},
		"backup": {"backup", doctor.Warning, func(data string) error {
			return os.WriteFile(filepath.Join(data, "backup.last"), []byte("2020-01-01T00:00:00Z\n"), 0o600)
		}},
		"unfinished": {"data directory", doctor.Failed, func(data string) error { return os.WriteFile(filepath.Join(data, "restore.unfinished"), nil, 0o600) }},
	} {
		if testing.Short() && name != "store" && name != "backup" {
			continue // a failure and a warning: make test-all has the others
		}

		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			copied(t, whole, data)
			if err := c.harm(data); err != nil {
				t.Fatal(err)
			}

			results, code := examined(t, "--data", data)

			if r := found(t, results, c.check); r.State != c.state || r.Do == "" {
				t.Errorf("%+v, want %s with what to do", r, c.state)
			}
			if want := map[doctor.State]int{doctor.Failed: 1}[c.state]; code != want {
				t.Errorf("the exit status is %d, want %d: %+v", code, want, results)
			}
		})
	}
}
