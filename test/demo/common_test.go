// Package demo tests the parts of the demos that decide about what an earlier run left, with programs that only write down
// how they are called.
package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shell runs a script after common.sh, with controlplane and kubectl that write their arguments to calls. has are the
// namespaces of the cluster, each with the label of demos or "".
func shell(t *testing.T, script string, env []string, has map[string]string) (out string, calls []string, err error) {
	t.Helper()
	bash, lookErr := exec.LookPath("bash")
	if lookErr != nil {
		t.Skip("bash isn't there")
	}
	dir := t.TempDir()
	program := func(name, text string) string {
		file := filepath.Join(dir, "bin", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!"+bash+"\necho \"${0##*/} $*\" >>'"+dir+"/calls'\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	controlplane := program("controlplane", "case $1 in start) echo '"+dir+"/kubeconfig' ;; path) echo '"+dir+"/bin' ;; esac\n")
	answers := ""
	for name, label := range has {
		answers += "  *'get namespace " + name + " '*) echo 'made by " + label + "'; exit 0 ;;\n"
	}
	program("kubectl", "case \"$*\" in\n"+answers+"  *'get namespace'*) exit 1 ;;\nesac\n")

	cmd := exec.Command(bash, "-c", "set -euo pipefail; . ./common.sh; "+script)
	cmd.Env = append([]string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "DATA=" + dir, "CLUSTER=" + dir + "/cluster", "CONTROLPLANE=" + controlplane}, env...)
	said, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(filepath.Join(dir, "calls"))
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.TrimSpace(strings.ReplaceAll(line, dir, "DIR")))
	}
	return string(said), calls, err
}

func TestADemoBeginsWithAnEmptyCluster(t *testing.T) {
	t.Parallel()

	out, calls, err := shell(t, "cluster", nil, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Join(calls, "; "); !strings.HasPrefix(got, "controlplane wipe --dir DIR/cluster; controlplane start --dir DIR/cluster") {
		t.Errorf("it called %s", got)
	}

	out, calls, err = shell(t, "cluster", []string{"KUBECONFIG=/mine"}, nil)
	if got := strings.Join(calls, "; "); err != nil || strings.Contains(got, "controlplane") {
		t.Errorf("on a cluster that isn't its own it called %s: %v: %s", got, err, out)
	}
}

func TestADemoEmptiesOnlyNamespacesOfItsOwn(t *testing.T) {
	t.Parallel()

	const script = "KUBECTL=kubectl KUBECONFIG=/mine; namespace demo"
	for name, c := range map[string]struct {
		has   map[string]string
		calls []string // after the first look
		fails string
	}{
		"none is there": {calls: []string{"create namespace demo", "label namespace demo jibe-demo=make"}},
		"of the last demo": {has: map[string]string{"demo": "make"},
			calls: []string{"delete namespace demo --timeout 120s", "create namespace demo", "label namespace demo jibe-demo=make"}},
		"somebody else's": {has: map[string]string{"demo": ""}, fails: "the cluster has a namespace demo that no demo made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, calls, err := shell(t, script, nil, c.has)
			if (err != nil) != (c.fails != "") || !strings.Contains(out, c.fails) {
				t.Errorf("%v: %s", err, out)
			}
			want := []string{}
			for _, call := range c.calls {
				want = append(want, "kubectl --kubeconfig /mine "+call)
			}
			if len(calls) == 0 || strings.Join(calls[1:], "; ") != strings.Join(want, "; ") {
				t.Errorf("it called %q, want a look and %q", calls, want)
			}
		})
	}
}

func TestADemoEndsTheJibeThatTheLastOneLeft(t *testing.T) {
	t.Parallel()

	// Each stands for a process: one is the demo's by its arguments, the other has only got its number.
	const script = `
run() { bash -c 'trap "exit 0" TERM; while :; do read -rt 1 <> <(:) || :; done' "$@" & echo $!; }
for args in "serve --data $DATA/jibe --listen x" "serve --data /else/jibe --listen x"; do
  pid=$(run jibe $args >"$DATA/pid"; cat "$DATA/pid")
  echo "$pid" >"$DATA/serve.pid"
  wait_for 20 "it runs" grep -qa -- --listen "/proc/$pid/cmdline"
  end_former
  [ ! -e "$DATA/serve.pid" ] || echo "its number is still there"
  if kill -0 "$pid" 2>/dev/null; then echo "runs: $args"; kill -9 "$pid"; else echo "ended: $args"; fi
done
end_former`
	out, _, err := shell(t, script, nil, nil)
	if err != nil || !strings.Contains(out, "ended: serve --data ") || !strings.Contains(out, "runs: serve --data /else/jibe") || strings.Contains(out, "still there") {
		t.Errorf("%v: %s", err, out)
	}
}
