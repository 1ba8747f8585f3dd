//go:build linux

package hooks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/hooks"
)

// coordinating is a call of a coordination script for one VNFC, with that class named.
func coordinating(text, class string) hooks.Call {
	c := python(text, "coordinate_new")
	c.Input.Operation.Type, c.Input.Class = "CHANGE_VNFPKG", class
	c.Input.Targets = &hooks.Targets{New: []hooks.Target{{VduID: "CACHE", Unit: machine("s1", "10.0.0.1"), Address: "10.0.0.1", CpName: "CP1"}}}
	c.Input.CoordinationParams = object{"vdu_params": []any{object{"vdu_id": "CACHE", "new_vnfc_param": object{"cp_name": "CP1", "username": "ubuntu"}}}}
	return c
}

// classOf is the text of a script up to its entry point.
func classOf(text string) string {
	before, _, _ := strings.Cut(text, "def main():")
	return before
}

func TestTheClassOfACoordinationScriptWithoutAnEntryPointIsCalled(t *testing.T) {
	t.Parallel()
	needPython(t)
	var lines []string
	r := newRunner(t)
	r.Log = func(_ hooks.Input, _, line string) { lines = append(lines, line) }
	for name, text := range map[string]string{
		"the newer contract's": "class Move(object):\n    def __init__(self, vnfc_param):\n        self.p = vnfc_param\n    def coordinate_vnf(self):\n" +
			"        print(self.p['username'], self.p['ssh_ip'], self.p['LcmCoordRequest']['lcmOperationType'])\n",
		"the first contract's": "class Move(object):\n    def __init__(self, req, inst, grant_req, grant, csar_dir, vdu_info):\n        self.vdu, self.r = vdu_info, grant_req\n" +
			"    def coordinate_vnf(self):\n        p = self.vdu['vdu_param']\n        print(p['new_vnfc_param']['username'], self.vdu['ssh_ip'], self.r['operation'])\n",
	} {
		lines = nil
		run(t, r, coordinating(text, "Move"))
		if diff := cmp.Diff([]string{"ubuntu 10.0.0.1 CHANGE_VNFPKG"}, lines); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	failing := "class Move:\n    def __init__(self, vnfc_param): pass\n    def coordinate_vnf(self):\n        raise Exception('10.0.0.1 keeps its sessions')\n"
	if err := fails(t, r, coordinating(failing, "Move")); !strings.Contains(err.Stderr, "10.0.0.1 keeps its sessions") {
		t.Errorf("it says %q", err.Stderr)
	}
	if err := fails(t, r, coordinating("class Move:\n    def __init__(self, a, b): pass\n    def coordinate_vnf(self): pass\n", "Move")); !strings.Contains(err.Stderr, "Move wants a, b, which the older contract doesn't have") {
		t.Errorf("it says %q", err.Stderr)
	}
	for class, want := range map[string]string{"": "no class of it is named (it has CoordinateCache): name one (lcm-operation-coordinate-new-vnf-class)", "Other": "it has no class Other"} {
		if err := fails(t, r, coordinating(classOf(script(t, "coordinate_cache.py")), class)); !strings.Contains(err.Reason, want) {
			t.Errorf("class %q: it says %q", class, err.Reason)
		}
	}
}

func TestAFileWithAnEntryPointIsAProgramWhateverClassIsNamed(t *testing.T) {
	t.Parallel()
	needPython(t)
	text := "import pickle, sys\nclass Move:\n    def coordinate_vnf(self):\n        raise Exception('it was called')\nif __name__ == '__main__':\n    sys.stderr.write(pickle.load(sys.stdin.buffer)['ssh_ip'])\n"
	for _, class := range []string{"Move", "Elsewhere", ""} {
		run(t, newRunner(t), coordinating(text, class))
	}
}

func TestTheClassOfAManagementDriverWithoutAnEntryPointIsCalledAndHandsBack(t *testing.T) {
	t.Parallel()
	needPython(t)
	var lines []string
	r := newRunner(t)
	r.Log = func(_ hooks.Input, _, line string) { lines = append(lines, line) }
	c := python(classOf(script(t, "cache_driver.py")), "instantiate_end")
	c.Input.Instance.Metadata = map[string]any{"owner": map[string]any{"team": "none"}}
	c.Input.VDUs[0].New = []hooks.Unit{machine("s1", "10.0.0.1")}
	out, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"owner": object{"team": "cache"}, "ring": "blue", "vnfcMetadata": object{"s1": object{"ring_slot": "blue-s1"}}}, out.Metadata); diff != "" {
		t.Error(diff)
	}
	if string(out.HandOver) != `{"registered": ["s1"]}` || len(lines) != 1 {
		t.Errorf("it hands over %s, and says %q", out.HandOver, lines)
	}
	// One that fails hands over as well.
	c = python(classOf(script(t, "cache_driver.py")), "scale_start")
	c.Input.Operation.Type, c.Input.Params = "SCALE", object{"api_password": "P"}
	out, err = r.Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "the ring is busy") || string(out.HandOver) != `{"asked": "P", "warned": true}` {
		t.Errorf("error %v, handed over %s", err, out.HandOver)
	}
	if err := fails(t, r, python(classOf(script(t, "cache_driver.py")), "heal_start")); !strings.Contains(err.Reason, "has no class with a method heal_start (it has CacheDriver)") {
		t.Errorf("it says %q", err.Reason)
	}
}

func TestAScriptThatNeverReadWhatItWasGivenHasFailed(t *testing.T) {
	t.Parallel()
	needPython(t)
	r := newRunner(t)
	for name, text := range map[string]string{
		"it calls something else": "import pickle, logging\nlogging.basicConfig()\nclass Driver:\n    def scale_start(self): pass\n",
		"its condition is wrong":  "import pickle, sys\ndef main(): pickle.load(sys.stdin.buffer)\nif __name__ == 'main':\n    main()\n",
	} {
		if err := fails(t, r, python(text, "scale_start")); !strings.Contains(err.Stderr, "ended with 0 without having read what it was given") {
			t.Errorf("%s: it says %q", name, err.Stderr)
		}
	}
	run(t, r, python("import pickle, sys\nsys.stdin.buffer.read(1)\n", "scale_start"))
}

func TestAScriptOfTheFirstContractIsGivenWorkloadsOfPods(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := coordinating("import json, pickle, sys\nd = pickle.load(sys.stdin.buffer)\nsys.stderr.write(json.dumps([d['k8s_info'], d['request']['vnfdId'], d['tmp_csar_dir'] != '', 'vdu_info' in d]))\n", "")
	c.Input.VIM.Type = "ETSINFV.KUBERNETES.V_1"
	c.Input.Targets.New[0].Unit = hooks.Unit{ID: "u", Name: "vdu1-1-x", Owner: "Deployment/amf/vdu1-1", Ready: true}
	c.Input.Instance.Namespace, c.Input.Instance.Generation = "amf", "1"
	c.Input.Operation.Params = json.RawMessage(`{"vnfdId": "d-2"}`)
	c.Input.Objects = []hooks.Object{{Key: "Deployment/amf/vdu1", Generation: "0"}, {Key: "Deployment/amf/vdu1-1", Generation: "1"}, {Key: "Service/amf/amf"}}
	var lines []string
	r := newRunner(t)
	r.Log = func(_ hooks.Input, _, line string) { lines = append(lines, line) }
	run(t, r, c)
	want := `[{"namespace": "amf", "new_deploy_reses": [{"kind": "Deployment", "metadata": {"name": "vdu1-1", "namespace": "amf"}}]}, "d-2", true, false]`
	if diff := cmp.Diff([]string{want}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestTheClusterDriverRunsInThePlaceOfTheFile(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "jibe")
	// What stands for jibe tells what it is asked, and what it is given.
	if err := os.WriteFile(tool, []byte("#!/bin/sh\necho \"$@\" >&2\ngrep -o '\"hook\":\"scale_start\"' >&2\necho '{\"message\": \"done\"}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	r := &hooks.Runner{Dir: filepath.Join(dir, "hooks"), Confinement: confined(t), Tool: tool, Log: func(_ hooks.Input, _, line string) { lines = append(lines, line) }}
	c := python("from tacker.vnfm import x\n", "scale_start")
	c.Cluster = true
	if message := run(t, r, c); message != "done" {
		t.Errorf("it says %q", message)
	}
	if diff := cmp.Diff([]string{"driver kubernetes-cluster", `"hook":"scale_start"`}, lines); diff != "" {
		t.Error(diff)
	}
	if want := "jibe driver kubernetes-cluster in the place of Scripts/driver.py"; !strings.HasPrefix(c.Program(), want) {
		t.Errorf("people are told %q", c.Program())
	}
	r.Tool, r.Dir = "", filepath.Join(dir, "without")
	if err := fails(t, r, c); !strings.Contains(err.Reason, "isn't here") {
		t.Errorf("without jibe: %v", err)
	}
}
