package hooks_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// driven is a side whose package has the file for scale_start, and what stands beside it.
func driven(file, text string, params map[string]any, beside ...string) hooks.Side {
	s := sideOf("1", map[string]string{"scale_start": file}, func(in *desired.Instance) { in.Params = params })
	files := s.Package.Files.(fstest.MapFS)
	files[file] = &fstest.MapFile{Data: []byte(text)}
	for _, name := range beside {
		files[name] = &fstest.MapFile{Data: []byte("x = 1\n")}
	}
	return s
}

// clusterParams are parameters that the driver of Kubernetes clusters takes.
func clusterParams() map[string]any {
	node := func() map[string]any {
		return map[string]any{"aspect_id": "a", "ssh_cp_name": "CP1", "nic_cp_name": "CP1", "username": "u", "password": "p"}
	}
	return map[string]any{"k8s_cluster_installation_param": map[string]any{"script_path": "Scripts/install.sh", "master_node": node(), "worker_node": node()}}
}

func TestAHookThatWouldDoNothingOrCantBeginIsRefusedByName(t *testing.T) {
	needPython(t)
	cluster := clusterParams()
	const foreign = "import pickle\nfrom tacker.common import log\n" + scaleClass
	for name, c := range map[string]struct {
		side hooks.Side
		want string // "" is none
	}{
		"one that only defines":              {driven("S/driver.py", "def f(): pass\n", nil), "S/driver.py (scale_start): it only defines, and has no class with a method scale_start"},
		"a class with the method":            {driven("S/driver.py", scaleClass, nil), ""},
		"a module that is nowhere":           {driven("S/driver.py", "import pickle, nowhere_at_all\nmain()\n", nil), "it imports nowhere_at_all, which python3 doesn't find"},
		"a module beside it":                 {driven("S/driver.py", "import pickle, nowhere_at_all\nmain()\n", nil, "S/nowhere_at_all.py"), ""},
		"one that says where modules are":    {driven("S/driver.py", "import pickle, sys\nsys.path.insert(0, 'lib')\nimport nowhere_at_all\nmain()\n", nil), ""},
		"one that may do without a module":   {driven("S/driver.py", "import pickle\ntry:\n    import nowhere_at_all\nexcept ImportError:\n    pass\nmain()\n", nil), ""},
		"one of Jibe's contract":             {driven("S/driver.py", "import json, nowhere_at_all\nmain()\n", nil), ""},
		"another VNFM's modules":             {driven("S/driver.py", foreign, nil), "it imports tacker, modules of another VNFM that aren't here: install them"},
		"a changed container update":         {driven("S/container_update_mgmt_v2.py", foreign, nil), "it isn't the container update that Jibe does by itself, but a changed one"},
		"a cluster's driver":                 {driven("S/kubernetes_mgmt.py", foreign, cluster), ""},
		"a cluster's driver without params":  {driven("S/kubernetes_mgmt.py", foreign, nil), "takes its place where the instance has the parameter that it knows: params.k8s_cluster_installation_param is missing"},
		"a cluster's driver of one's own":    {driven("S/kubernetes_mgmt.py", "import pickle\ndef f(): pass\n", cluster), "it only defines"},
		"a program of another kind":          {driven("S/driver.sh", "#!/bin/sh\n", nil), ""},
		"a file that isn't there (any more)": {hooks.Side{Instance: &desired.Instance{Flavour: "simple"}, Package: &vnfd.Package{Files: fstest.MapFS{}, VNFD: sideOf("1", map[string]string{"scale_start": "gone.py"}, nil).Package.VNFD}}, ""},
	} {
		err := hooks.Fit(t.Context(), &hooks.Interpreter{}, lcm.Scale, hooks.NeededBy(lcm.Scale, false, c.side, c.side, false))
		var invalid *hooks.InvalidError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: it is refused: %v", name, err)
		case c.want != "" && (!errors.As(err, &invalid) || invalid.Field != "hooks" || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "hooks: skip in vnf.yaml")):
			t.Errorf("%s: it says %v, want %q", name, err, c.want)
		}
	}
}

func TestOnlyTheContainerUpdateThatIsKnownIsLeftToJibe(t *testing.T) {
	const known = "# Copyright\n\nimport pickle\n\n\ndef main():\n    pass  # kept\n\n\nmain()\n"
	defer hooks.KnowContainerUpdate(known)()
	for name, c := range map[string]struct {
		file, text string
		runs       bool
	}{
		"itself":                            {"S/container_update_mgmt_v2.py", known, false},
		"with another header and line ends": {"S/container_update_mgmt.py", "# Other\r\n# words\r\n" + strings.ReplaceAll(strings.TrimPrefix(known, "# Copyright\n"), "\n", " \r\n"), false},
		"with one more statement":           {"S/container_update_mgmt_v2.py", known + "main()\n", true},
		"with another indentation":          {"S/container_update_mgmt_v2.py", strings.Replace(known, "    pass", "  pass", 1), true},
		"under another name":                {"S/mine.py", known, true},
		"another file of the name":          {"S/container_update_mgmt.py", "import pickle\nmine()\n", true},
	} {
		side := driven(c.file, c.text, nil)
		if got := side.Path("scale_start"); (got != "") != c.runs {
			t.Errorf("%s: %q is run", name, got)
		}
	}
}

func TestTheClusterDriverTakesThePlaceOfAFileThatCantRunHereAlone(t *testing.T) {
	cluster := clusterParams()
	for name, c := range map[string]struct {
		file, text string
		params     map[string]any
		want       bool
	}{
		"the document's":                   {"S/kubernetes_mgmt.py", "from tacker.vnfm import x\n", cluster, true},
		"the second API's":                 {"S/kubernetes_mgmt_v2.py", "import pickle\nfrom tacker.common import x\n", cluster, true},
		"one without those":                {"S/kubernetes_mgmt.py", "import pickle\nmain()\n", cluster, false},
		"another name":                     {"S/cluster.py", "from tacker.vnfm import x\n", cluster, false},
		"no parameter":                     {"S/kubernetes_mgmt.py", "from tacker.vnfm import x\n", nil, false},
		"a parameter that lacks something": {"S/kubernetes_mgmt.py", "from tacker.vnfm import x\n", map[string]any{"k8s_cluster_installation_param": map[string]any{"script_path": "x"}}, false},
		"a parameter of no use":            {"S/kubernetes_mgmt.py", "from tacker.vnfm import x\n", map[string]any{"k8s_cluster_installation_param": "yes"}, false},
	} {
		f := scalingIn()
		side := driven(c.file, c.text, c.params)
		side.Package.Tree = f.Subject.Package.Tree
		f.Subject, f.Before, f.After = side, side, side
		s, ok := f.Script("scale_start")
		if !ok || s.Cluster != c.want {
			t.Errorf("%s: the script is %+v", name, s)
		}
	}
}
