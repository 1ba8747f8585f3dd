package kubecluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
)

func TestTheExamplePackageHoldsTheDriversOwnScript(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(packageDir, "Scripts", "install_k8s_cluster.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, ownScript) {
		t.Errorf("that of %s isn't hooks/kubecluster/install_k8s_cluster.sh: copy it, and run jibe package rehash", packageDir)
	}
}

// What is wrong with files of the package is told before machines are made.
func TestFilesThatTheParametersNameAreLookedForFirst(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Scripts/older.sh": "#!/bin/bash\nwhile getopts m:w:i: o; do :; done\n", "Scripts/own.sh": "#!/bin/sh\ncase $JIBE_K8S_ACTION in init) ;; esac\n",
		"Files/node/bin/kubeadm": "it", "Files/empty/debs/.keep/x": "", "Files/cni.yaml": "", "Files/key.asc": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		field, value, why string
	}{
		{"script_path", "Scripts/own.sh", ""},
		{"script_path", "Scripts/none.sh", "Scripts/none.sh can't be read"},
		{"script_path", "Scripts/older.sh", ""},
		{"cni", "Files/cni.yaml", ""},
		{"cni", "https://example.test/cni.yaml", ""},
		{"cni", "Files/other.yaml", "Files/other.yaml can't be read"},
		{"artifacts", "Files/node", ""},
		{"artifacts", "Files/nodes", "Files/nodes"},
	} {
		in := hooks.Input{Hook: "instantiate_start", Params: goodParams(), After: &hooks.Package{Dir: dir}}
		in.Params[params.Name].(map[string]any)[test.field] = test.value
		_, err := runHere(t, in)
		if (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s %s: %v", test.field, test.value, err)
		}
	}
}

// A script that wants another driver's arguments would do nothing of what this one asks for.
func TestTheDriversOwnScriptTakesThePlaceOfAnOlderDrivers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"older.sh": "#!/bin/bash\nwhile getopts m:w:i:a:p:t:s:k: o; do :; done\n", "own.sh": "#!/bin/sh\ncase $JIBE_K8S_ACTION in init) ;; esac\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for script, own := range map[string]bool{"older.sh": true, "own.sh": false, "": true} {
		var said bytes.Buffer
		d := &driver{in: hooks.Input{Params: goodParams(), After: &hooks.Package{Dir: dir}}, stderr: &said, keys: map[string]string{}}
		d.in.Params[params.Name].(map[string]any)["script_path"] = script
		if err := d.prepare(); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Equal(d.scriptText, ownScript); got != own {
			t.Errorf("%q: the driver's own is taken: %v", script, got)
		}
		if told := strings.Contains(said.String(), "older.sh"); told != (script == "older.sh") {
			t.Errorf("%q: it says %q", script, &said)
		}
	}
}
