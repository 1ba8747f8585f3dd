//go:build linux

package hooks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// object is any JSON object.
type object = map[string]any

func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil && !testenv.Required() {
		t.Skip("there is no python3")
	}
}

// script is a file of testdata/python_adapter.
func script(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "python_adapter", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// python is a call of a script of the older contract.
func python(text, hook string) hooks.Call {
	return hooks.Call{
		Package: pack(map[string]string{"Scripts/driver.py": text, "Files/ring.txt": "blue\n"}), Path: "Scripts/driver.py", Timeout: kit.Patience,
		Input: hooks.Input{
			Hook: hook, Operation: hooks.Operation{ID: "op-1", Type: "INSTANTIATE"}, VIM: hooks.VIM{Name: "cloud", Type: "ETSINFV.OPENSTACK_KEYSTONE.V_3"},
			Instance: hooks.Instance{ID: "vnf-1", Name: "cache"}, VDUs: []hooks.VDU{{ID: "CACHE"}},
		},
	}
}

// handing is a script that writes what the expressions are to standard output, one
// after the other, and ends well.
func handing(expressions ...string) string {
	text := "import os, pickle, sys, datetime\npickle.load(sys.stdin.buffer)\nout = sys.stdout.buffer\n"
	for _, e := range expressions {
		text += "out.write(" + e + ")\n"
	}
	return text + "out.flush()\nos._exit(0)\n"
}

// adapterCase is one run of the adapter, and adapted how it ended.
type (
	adapterCase struct {
		Script string            `json:"script"`
		Stdin  string            `json:"stdin"`
		Env    map[string]string `json:"env"`
	}
	adapted struct {
		Code           int
		Stdout, Stderr []byte
	}
)

// adapt runs the adapter once for each case, without a Runner.
func adapt(t *testing.T, cases []adapterCase) []adapted {
	t.Helper()
	needPython(t)

	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), "python3", "-I", "-B", filepath.Join("testdata", "python_adapter", "many.py"), "python_adapter")
	cmd.Stdin = bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}

	var all []adapted
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(cases) {
		t.Fatalf("%d cases, %v: %s", len(all), err, out)
	}

	return all
}

// scripts are cases of scripts with these texts, each in a file of its own, which are given the input.
func scripts(t *testing.T, in hooks.Input, texts ...string) []adapterCase {
	t.Helper()

	in.VDUs = slices.Clone(in.VDUs)
	for i, v := range in.VDUs { // as the reconciler fills them in
		in.VDUs[i].Old, in.VDUs[i].New = append([]hooks.Unit{}, v.Old...), append([]hooks.Unit{}, v.New...)
	}

	stdin, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	var cases []adapterCase
	for i, text := range texts {
		file := filepath.Join(dir, fmt.Sprintf("script%d.py", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, adapterCase{Script: file, Stdin: string(stdin), Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir}})
	}

	return cases
}

// lines are those of a text that the log has.
func lines(text []byte) []string {
	return strings.FieldsFunc(string(text), func(c rune) bool { return c == '\n' })
}

func machine(id, address string) hooks.Unit {
	return hooks.Unit{ID: id + "@1", Name: id, Owner: "Stack/vnf-vnf-1", Address: address, Ready: true,
		Metadata: map[string]string{"stack_id": "vnf-vnf-1/5d1c6f0e", "creation_time": "2025-03-01T10:00:0" + id[len(id)-1:] + "Z"}}
}

func TestAManagementDriverOfTheOlderContractRunsAsItIs(t *testing.T) {
	t.Parallel()
	needPython(t)
	r := newRunner(t)
	var lines []string
	r.Log = func(_ hooks.Input, _, line string) { lines = append(lines, line) }
	c := python(script(t, "cache_driver.py"), "instantiate_start")
	run(t, r, c)
	c.Input.Hook = "instantiate_end"
	c.Input.Instance.Metadata = map[string]any{"draft": "yes", "owner": map[string]any{"team": "none", "site": "tokyo"}, "kept": "1"}
	c.Input.VDUs[0].New = []hooks.Unit{machine("s1", "10.0.0.1"), machine("s2", "10.0.0.2")}
	out, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := hooks.Output{
		Metadata: object{"draft": nil, "owner": object{"team": "cache", "site": "tokyo"}, "ring": "blue",
			"vnfcMetadata": object{"s1": object{"ring_slot": "blue-s1"}, "s2": object{"ring_slot": "blue-s2"}}},
		Extensions: object{"slots": 2.0, "isAutohealEnabled": true},
		HandOver:   json.RawMessage(`{"registered": ["s2", "s1"]}`),
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"add s2 at 10.0.0.2 to ring blue", "add s1 at 10.0.0.1 to ring blue"}, lines); diff != "" {
		t.Error(diff)
	}
	// What was handed back is given the next time, where it was handed back.
	c.Input.Instance.Metadata = out.Metadata
	c.Package = pack(map[string]string{"Scripts/driver.py": script(t, "tell.py") + "sys.exit(1)\n"})
	var told struct {
		Instance struct {
			Metadata object
			Info     struct {
				Metadata object
				Units    []struct{ Metadata object } `json:"vnfcResourceInfo"`
			} `json:"instantiatedVnfInfo"`
		} `json:"vnf_instance"`
	}
	if err := json.Unmarshal([]byte(fails(t, r, c).Stderr), &told); err != nil {
		t.Fatal(err)
	}
	info := told.Instance.Info
	if info.Metadata["ring"] != "blue" || info.Units[0].Metadata["ring_slot"] != "blue-s2" || told.Instance.Metadata["vnfcMetadata"] != nil {
		t.Errorf("told %+v", told)
	}
}

func TestADriverThatFailsHandsOverWhatTheNextAttemptNeeds(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := python(script(t, "cache_driver.py"), "scale_start")
	c.Input.Operation.Type, c.Input.Operation.Params = "SCALE", json.RawMessage(`{"type":"SCALE_IN","additionalParams":{"site":"a"}}`)
	c.Input.Params = object{"api_password": "pw-of-the-api"}
	out, err := newRunner(t).Run(t.Context(), c)
	if err == nil || err.Error() != "hook Scripts/driver.py failed: exit status 3: the ring is busy" {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(hooks.Output{HandOver: json.RawMessage(`{"asked": "pw-of-the-api", "warned": true}`)}, out); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAScriptHandsBackIsADictOfPlainData(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	needPython(t)
	dict := `pickle.dumps({"user_script_err_handling_data": {"a": (1, {2})}})`
	table := []struct{ name, text, handOver, logged, reason string }{
		{"nothing", handing(), "", "", ""},
		{"none", handing(`pickle.dumps(None)`), "", "", ""},
		{"a dict", handing(dict), `{"a": [1, [2]]}`, "", ""},
		{"the oldest protocol", handing(strings.Replace(dict, ")}})", ")}}, 0)", 1)), `{"a": [1, [2]]}`, "", ""},
		{"text before and after it", handing(`b"begun\n"`, dict, `b"done\n"`), `{"a": [1, [2]]}`, "begun|done", ""},
		{"text alone", handing(`b"running\n"`), "", "running|what the script wrote to standard output is text, no pickled dict (a stray print?): nothing is taken back from it", ""},
		{"text like an old pickle", handing(`b"(code\nstep\n"`), "", "(code|step|what the script wrote to standard output is text, no pickled dict (a stray print?): nothing is taken back from it", ""},
		{"a list", handing(`pickle.dumps([1])`), "", "what the script handed back is a pickled list, no dict: it is passed over", ""},
		{"half a dict", handing(`pickle.dumps({"vnf_instance": {}})[:-3]`), "", "", "is no whole pickled dict"},
		{"bytes", handing(`b"\x00\x01\x02"`), "", "", "is no whole pickled dict"},
		{"an object", handing(`pickle.dumps({"vnf_instance": datetime.datetime.now()})`), "", "", "an object of datetime.datetime: only dicts, lists"},
		{"a call", handing(`b"\x80\x04cos\nsystem\n(X\x0f\x00\x00\x00exit 1; # nevertR."`), "", "", "an object of os.system"},
		{"not a number", handing(`pickle.dumps({"user_script_err_handling_data": {"a": float("nan")}})`), "", "", "user_script_err_handling_data.a is nan"},
		{"bytes in it", handing(`pickle.dumps({"vnf_instance": {"metadata": {"a": b"x"}}})`), "", "", "vnf_instance.metadata.a is bytes"},
		{"itself", "d = {}\nd['a'] = d\n" + handing(`pickle.dumps({"vnf_instance": d})`), "", "", "refers to itself"},
		{"no instance", handing(`pickle.dumps({"vnf_instance": [1]})`), "", "", "vnf_instance must be a dict"},
		{"too much", handing(`b"x" * (65 << 20)`), "", "", "wrote 68157440 bytes to standard output, at most 67108864 are allowed"},
		{"more than Jibe takes", handing(`pickle.dumps({"vnf_instance": {"metadata": {"a": "x" * (2 << 20)}}})`), "", "", "wrote more than 1048576 bytes to standard output"},
		{"what can't be changed", handing(`pickle.dumps({"vnf_instance": {"vnfdId": "other", "instantiatedVnfInfo": {"vnfState": "GONE"}}})`), "",
			"changes of vnf_instance are not taken over: vnfdId, instantiatedVnfInfo.vnfState; only metadata, extensions and vnfConfigurableProperties are", ""},
	}
	check := func(t *testing.T, reason, handOver, logged string, out hooks.Output, failed string, log []string) {
		t.Helper()
		if reason != "" {
			if !strings.Contains(failed, reason) {
				t.Errorf("error %q", failed)
			}
			return
		}
		if failed != "" || string(out.HandOver) != handOver || len(out.Metadata)+len(out.Extensions) > 0 {
			t.Errorf("%+v, %s", out, failed)
		}
		if got := strings.Join(log, "|"); got != logged {
			t.Errorf("logged %q", got)
		}
	}

	var texts []string
	for _, x := range table {
		texts = append(texts, x.text)
	}
	for i, got := range adapt(t, scripts(t, python("", "scale_end").Input, texts...)) {
		x := table[i]
		t.Run(x.name, func(t *testing.T) {
			out, failed := hooks.OutputOf(hooks.Call{}, got.Stdout)
			if got.Code != 0 {
				failed = string(got.Stderr)
			}
			check(t, x.reason, x.handOver, x.logged, out, failed, lines(got.Stderr))
		})
	}

	// In a run, one that is taken, with what goes to the log, and one that isn't.
	for _, x := range table {
		if x.name != "text before and after it" && x.name != "half a dict" {
			continue
		}
		t.Run("in a run/"+x.name, func(t *testing.T) {
			var log []string
			r := newRunner(t)
			r.Log = func(_ hooks.Input, _, line string) { log = append(log, line) }
			out, err := r.Run(t.Context(), python(x.text, "scale_end"))
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			check(t, x.reason, x.handOver, x.logged, out, failed, log)
		})
	}
}

func TestTheExitCodeOfAnOlderScriptIsPassedOn(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	needPython(t)
	const half = "import pickle, sys\nprint('half')\nsys.exit('no route')\n"
	table := []struct {
		text string
		code int
		says string
	}{
		{half, 1, "no route\nhalf"},
		{"import pickle, os\nos._exit(42)\n", 42, ""},
		{"import pickle, os\nos.kill(os.getpid(), 9)\n", 137, "it was ended by signal 9"},
		{"import pickle\nimport not_on_this_machine\n", 1, "ModuleNotFoundError: No module named 'not_on_this_machine'"},
		{"import pickle\nif True\n", 1, "SyntaxError"},
	}
	var texts []string
	for _, x := range table {
		texts = append(texts, x.text)
	}
	for i, got := range adapt(t, scripts(t, python("", "scale_end").Input, texts...)) {
		if x := table[i]; got.Code != x.code || !strings.Contains(string(got.Stderr), x.says) {
			t.Errorf("%q: ended with %d: %s", x.text, got.Code, got.Stderr)
		}
	}

	r := newRunner(t)
	if got := fails(t, r, python(half, "scale_end")); !strings.Contains(got.Error(), "exit status 1: no route\nhalf") {
		t.Errorf("in a run: %v", got)
	}
	killed := python("import pickle, os\nos.kill(os.getpid(), 9)\n", "scale_end")
	if got := fails(t, r, killed); !strings.Contains(got.Error(), "exit status 137: it was ended by signal 9") {
		t.Errorf("in a run: %v", got)
	}
	hangs := python("import pickle, time\nprint('hangs', flush=True)\ntime.sleep(600)\n", "scale_end")
	hangs.Timeout = time.Second
	if got := fails(t, r, hangs); !strings.Contains(got.Error(), "not done within") {
		t.Errorf("in a run: %v", got)
	}
}

func TestWhatImportsPickleSpeaksTheOlderContract(t *testing.T) {
	t.Parallel()
	needPython(t)
	r := newRunner(t)
	for i, x := range []struct {
		path, begin string
		older       bool
	}{
		{"a.py", "import pickle\n", true},
		{"a.py", "import sys, pickle\n", true},
		{"a.py", "#!/usr/bin/env python3\nimport pickle as p, sys\n", true},
		{"a.py", "#!/no/such/python\nfrom pickle import load\n", true},
		{"a.py", "if True:\n    import pickle\n", true},
		{"a.py", "# import pickle, which is not needed\n", false},
		{"a.py", "import json\nx = 'import pickle'\n", false},
		{"a.py", "class pickle_import: pass\n", false},
		{"a", "#!/usr/bin/env python3\nimport pickle\n", false},
	} {
		text := x.begin + "import sys\nsys.stderr.write(repr(sys.stdin.buffer.read(1)))\nsys.exit(1)\n"
		if got := hooks.SpeaksOlder(text, x.path, "scale_end", ""); got != x.older {
			t.Errorf("%s: %q: it speaks the older contract: %v", x.path, x.begin, got)
		}
		if run := i == 3 || i == 6; !run { // one of each, in a run
			continue
		}

		c := hooks.Call{Package: pack(map[string]string{x.path: text}), Path: x.path, Timeout: kit.Patience,
			Input: python("", "scale_end").Input}
		want := `b'{'`
		if x.older {
			want = `b'\x80'`
		}
		if got := fails(t, r, c); got.Stderr != want {
			t.Errorf("%s: %q: reads %s", x.path, x.begin, got)
		}
	}
}

// coordination is a call of the coordination script for the VNFCs of both sides.
func coordination(t *testing.T, hook string) hooks.Call {
	c := python(script(t, "coordinate_cache.py"), hook)
	old, fresh := machine("s1", "10.0.0.1"), machine("s2", "10.0.0.2")
	c.Input.Operation.Type = "CHANGE_VNFPKG"
	c.Input.Before, c.Input.After = &hooks.Package{VnfdID: "a", VnfdVersion: "1.0"}, &hooks.Package{VnfdID: "b", VnfdVersion: "2.0"}
	c.Input.VDUs[0].Old, c.Input.VDUs[0].New = []hooks.Unit{old}, []hooks.Unit{fresh, machine("s3", "")}
	c.Input.CoordinationParams = object{"vdu_params": []any{object{"vdu_id": "CACHE",
		"old_vnfc_param": object{"cp_name": "CP1", "username": "ubuntu", "password": "hunter2"},
		"new_vnfc_param": object{"cp_name": "CP1", "username": "admin", "password": "hunter2", "endpoint": "http://ems"}}}}
	of := func(u hooks.Unit, address string) hooks.Target {
		return hooks.Target{VduID: "CACHE", Unit: u, CpName: "CP1", Address: address, Username: "ubuntu", Password: "hunter2"}
	}
	c.Input.Targets = &hooks.Targets{
		Old: []hooks.Target{of(old, "192.0.2.1")},
		New: []hooks.Target{of(fresh, "192.0.2.2"), of(c.Input.VDUs[0].New[1], "192.0.2.3")},
	}
	return c
}

func TestACoordinationScriptOfTheOlderContractRunsForEachVNFC(t *testing.T) {
	t.Parallel()
	needPython(t)
	r := newRunner(t)
	var lines []string
	r.Log = func(_ hooks.Input, _, line string) { lines = append(lines, line) }
	for hook, want := range map[string][]string{
		"coordinate_new": {
			"CACHE-s2 admin@192.0.2.2 s2 rollback=False CHANGE_VNFPKG http://ems 2.0",
			"CACHE-s3 admin@192.0.2.3 s3 rollback=False CHANGE_VNFPKG http://ems 2.0",
		},
		"coordinate_old":      {"CACHE-s1 ubuntu@192.0.2.1 s1 rollback=False CHANGE_VNFPKG - 1.0"},
		"coordinate_rollback": {"CACHE-s1 ubuntu@192.0.2.1 s1 rollback=True CHANGE_VNFPKG - 1.0"},
	} {
		lines = nil
		c := coordination(t, hook)
		c.Input.Rollback = hook == "coordinate_rollback"
		run(t, r, c)
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(hook, diff)
		}
	}
	// Where it runs for one VNFC, that is the one.
	lines = nil
	c := coordination(t, "coordinate_rollback")
	c.Input.Rollback, c.Input.Target, c.Input.Targets = true, &c.Input.Targets.New[1], nil
	run(t, r, c)
	if diff := cmp.Diff([]string{"CACHE-s3 ubuntu@192.0.2.3 s3 rollback=True CHANGE_VNFPKG - 1.0"}, lines); diff != "" {
		t.Error(diff)
	}
	// Without any there is nothing to do.
	lines = nil
	c.Input.Target, c.Input.Targets = nil, &hooks.Targets{}
	run(t, r, c)
	if diff := cmp.Diff([]string{"there is no VNFC to coordinate with: the script was not run"}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestCoordinationEndsWithTheFirstVNFCThatFails(t *testing.T) {
	t.Parallel()
	needPython(t)
	r := newRunner(t)
	c := coordination(t, "coordinate_new")
	params := c.Input.CoordinationParams["vdu_params"].([]any)[0].(object)
	params["new_vnfc_param"].(object)["password"] = "forgotten"
	got := fails(t, r, c)
	if got.Reason != "exit status 1" || !strings.Contains(got.Stderr, "192.0.2.2 refuses the password") || !strings.Contains(got.Stderr, "(for VNFC CACHE-s2)") ||
		strings.Contains(got.Stderr, "s3") {
		t.Error(got)
	}
	c = coordination(t, "coordinate_new")
	c.Input.Targets.New[1].Address = ""
	if got := fails(t, r, c); !strings.Contains(got.Stderr, "VNFC CACHE-s3 has no address at which it could be reached: name its connection point in vdu_params, new_vnfc_param.cp_name") {
		t.Error(got)
	}
}

func TestAnOlderScriptMayWriteToItsCopiesAndIsSomebodyElseUnderRoot(t *testing.T) {
	t.Parallel()
	needPython(t)
	r := newRunner(t)
	c := python(`import getpass, os, pickle, pwd, sys
import helper
d = pickle.load(sys.stdin.buffer)
for copy in (d['tmp_csar_dir'], d['new_csar_dir']):
    with open(os.path.join(copy, 'Files', 'ring.txt'), 'a') as f:
        f.write('more')
    os.mkdir(os.path.join(copy, 'scratch'))
sys.stderr.write('%s %s %s %s %s' % (pwd.getpwuid(os.getuid()).pw_name, helper.NAME, os.path.basename(d['tmp_csar_dir']), os.path.basename(d['new_csar_dir']), os.environ['JIBE_HOOK']))
try:
    open(os.path.join(os.path.dirname(d['new_csar_dir']), 'x'), 'w')
except OSError:
    sys.stderr.write(' kept in')
sys.exit(1)
`, "modify_information_end")
	c.Input.Operation.Type, c.Input.Operation.Params = "MODIFY_INFO", json.RawMessage(`{"vnfdId":"b"}`)
	c.Other = pack(map[string]string{"Files/ring.txt": "red\n"})
	c.Other.Tree = "other"
	c.Package.Files.(fstest.MapFS)["Scripts/helper.py"] = &fstest.MapFile{Data: []byte("NAME = 'helper'\n"), Mode: 0o444}
	c.Input.Before, c.Input.After = &hooks.Package{Tree: "other"}, &hooks.Package{Tree: "tree"}
	want := "hook helper other package modify_information_end kept in"
	if os.Geteuid() != 0 {
		want = "helper other package modify_information_end"
	}
	if got := fails(t, r, c); !strings.Contains(got.Stderr, want) {
		t.Error(got)
	}
}
