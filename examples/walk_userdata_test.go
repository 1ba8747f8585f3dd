package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
)

// withUserData makes a package of vm-asg-1.0 whose servers have names, and whose template
// has a parameter, that a user data class computes.
func withUserData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "named-1.0")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("packages", "vm-asg-1.0"))); err != nil {
		t.Fatal(err)
	}
	change := func(name string, oldnew ...string) {
		t.Helper()
		file := filepath.Join(dir, filepath.FromSlash(name))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.NewReplacer(oldnew...).Replace(string(text))
		if changed == string(text) {
			t.Fatalf("%s has none of %q", name, oldnew)
		}
		if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tops, err := filepath.Glob(filepath.Join(dir, "BaseHOT", "simple", "*.yaml"))
	if err != nil || len(tops) != 1 {
		t.Fatal(tops, err)
	}
	change("BaseHOT/simple/"+filepath.Base(tops[0]), "  nfv: { type: json }\n", "  nfv: { type: json }\n  site: { type: string }\n",
		"type: VDU1.yaml\n        properties:\n", "type: VDU1.yaml\n        properties:\n          name: { get_param: [nfv, VDU, VDU1, computeName] }\n          site: { get_param: site }\n")
	change("BaseHOT/simple/nested/VDU1.yaml", "  flavor: { type: string }\n", "  flavor: { type: string }\n  name: { type: string }\n  site: { type: string }\n",
		"type: OS::Nova::Server\n    properties:\n", "type: OS::Nova::Server\n    properties:\n      name: { get_param: name }\n      metadata: { site: { get_param: site } }\n")
	meta := filepath.Join(dir, "TOSCA-Metadata", "TOSCA.meta")
	text, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n\n") // the checksums are of files that aren't here any more
	class, err := os.ReadFile(filepath.Join("..", "hooks", "testdata", "python_adapter", "user_data.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "UserData"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		meta: head + "\n", filepath.Join(dir, "UserData", "user_data.py"): string(class),
		filepath.Join(dir, "UserData", "names.py"): "def of(inst, vdu):\n    return 'north-' + vdu.lower()\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAUserDataClassComputesWhatTheTemplateIsGiven(t *testing.T) {
	t.Parallel()
	v := onOpenStack(newWalk(t, "vm-rolling"), subnet(6))
	packages, err := filepath.Abs("packages")
	if err != nil {
		t.Fatal(err)
	}
	at, err := filepath.Rel(packages, withUserData(t))
	if err != nil {
		t.Fatal(err)
	}
	v.edits[`vim: openstack-a`] = "vim: openstack-a\nparams: # of the class\n  lcm-operation-user-data: UserData/user_data.py\n  lcm-operation-user-data-class: NamedUserData"
	v.run("vm-rolling", at)
	named := func(n int) {
		t.Helper()
		all := 0
		for addr, a := range v.machines(n + 1) {
			if a.Labels["jibe_vdu"] != "VDU1" {
				continue
			}
			all++
			if a.Labels["name"] != "north-vdu1" || a.Labels["site"] != "north" {
				t.Errorf("%s is %v", addr, a.Labels)
			}
		}
		if all != n {
			t.Errorf("%d servers of VDU1, want %d", all, n)
		}
	}
	named(2)
	text, err := process.Git(t.Context(), v.server.Desired(), "show", "HEAD:"+v.dir+"/vnf.yaml")
	if err != nil || !strings.Contains(text, "computeName: north-vdu1") || !strings.Contains(text, "site: north") || !strings.Contains(text, "# of the class") {
		t.Errorf("git has %s, %v", text, err)
	}
	v.push("SCALE", "VDU1_aspect: 1", "VDU1_aspect: 2")
	named(3)
	if runs := v.server.Logged("hook started", "hook=user_data"); runs != 1 {
		t.Errorf("the class was run %d times", runs)
	}
	v.terminate()
}
