//go:build linux

package hooks_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// computing is a call of a user data class in an example package whose template reads a
// name for each server of VDU1, too.
func computing(t *testing.T, class string) hooks.Call {
	t.Helper()
	needPython(t)
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import yaml").Run(); err != nil && !testenv.Required() {
		t.Skip("python3 has no yaml (Debian: python3-yaml)")
	}
	dir := filepath.Join("..", "examples", "packages", "vm-asg-1.0")
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.HasPrefix(name, "BaseHOT/simple/") && strings.Contains(text, "VDU1_group") {
			files[name] = strings.Replace(text, "          network: {", "          name: { get_param: [nfv, VDU, VDU1, computeName] }\n          network: {", 1)
		}
	}
	files["UserData/user_data.py"] = script(t, "user_data.py")
	files["UserData/names.py"] = "def of(inst, vdu):\n    return inst['id'] + '-' + vdu.lower()\n"
	return hooks.Call{
		Package: pack(files), Path: "UserData/user_data.py", Timeout: time.Minute,
		Input: hooks.Input{
			Hook: plan.UserData, Class: class, Operation: hooks.Operation{ID: "op-1", Type: "INSTANTIATE"},
			VIM: hooks.VIM{Name: "cloud", Type: "ETSINFV.OPENSTACK_KEYSTONE.V_3"},
			Instance: hooks.Instance{ID: "vnf-1", Flavour: "simple",
				ExtVirtualLinks: json.RawMessage(`[{"id": "front", "resourceId": "net0", "extCps": [{"cpdId": "CP1", "cpConfig": {"a": {}}}, {"cpdId": "CP2", "cpConfig": {"a": {}}}]}]`)},
		},
	}
}

func TestOfAUserDataClassWhatJibeDoesNotKnowByItselfIsTaken(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	r := newRunner(t)
	var said []string
	for class, want := range map[string]object{
		"NamedUserData": {"nfv": object{"VDU": object{"VDU1": object{"computeName": "vnf-1-vdu1"}}}, "site": "north"},
		"OtherImage":    {"nfv": object{"VDU": object{"VDU1": object{"vcImageId": "img2"}}}},
		"Plain":         nil,
	} {
		c := computing(t, class)
		c.Said = func(line string) { said = append(said, class+": "+line) }
		out, err := r.Run(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", class, err)
			continue
		}
		if diff := cmp.Diff(hooks.Output{Params: want}, out); diff != "" {
			t.Errorf("%s: %s", class, diff)
		}
	}
	all := strings.Join(said, "\n")
	for _, line := range []string{"NamedUserData: prints are for people", "OtherImage: passed over", "VDU.VDU1-0"} {
		if !strings.Contains(all, line) {
			t.Errorf("nobody said %q: %s", line, all)
		}
	}
}

func TestAUserDataClassThatCantRunSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for class, why := range map[string]string{"": "class is missing", "Nobody": "has no class Nobody", "Wrong": "Wrong.instantiate returned no dict"} {
		if got := fails(t, r, computing(t, class)); !strings.Contains(got.Stderr, why) {
			t.Errorf("%q: %s", class, got)
		}
	}
	c := computing(t, "Old")
	c.Package = pack(map[string]string{"UserData/user_data.py": "from tacker.vnfm.lcm_user_data.abstract_user_data import AbstractUserData\n"})
	if got := fails(t, r, c); !strings.Contains(got.Stderr, "imports what isn't here: No module named 'tacker.vnfm'") {
		t.Errorf("a class of the first API: %s", got)
	}
}
