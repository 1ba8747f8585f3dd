package desired_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

// projectsOf are settings with these projects, by name; the files have to stand together.
func projectsOf(t *testing.T, files map[string]string) *desired.Settings {
	t.Helper()
	var names []string
	for name := range files {
		names = append(names, desired.ProjectFile(name))
	}
	s, err := desired.SettingsFrom(func(file string) ([]byte, error) {
		return []byte(files[strings.TrimSuffix(strings.TrimPrefix(file, "projects/"), ".yaml")]), nil
	}, names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAProjectIsReadWithItsDefaults(t *testing.T) {
	got, err := desired.ParseProject("projects/core.yaml", []byte(`
description: the core of the north
instances: [north/core/**, teams/*/lab/]
repositories: [vendor-*]
vims: [north]
namespaces: [core-*]
kinds:
  namespaced: ["*"]
  clusterScoped: [Namespace, PriorityClass.scheduling.k8s.io]
externalIPs: [203.0.113.7/24, "2001:db8::1"]
podSecurity: restricted
hooks: false
quotas: {instances: 20, vnfcs: 400}
impersonate: {serviceAccount: jibe/core}
`))
	want := &desired.Project{
		Name: "core", Description: "the core of the north", Instances: []string{"north/core", "teams/*/lab"}, Repositories: []string{"vendor-*"},
		VIMs: []string{"north"}, Namespaces: []string{"core-*"}, PodSecurity: desired.PodSecurityRestricted,
		Kinds:       desired.Kinds{Namespaced: []string{"*"}, ClusterScoped: []string{"Namespace", "PriorityClass.scheduling.k8s.io"}},
		ExternalIPs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::1/128")},
		Quotas:      desired.Quotas{Instances: 20, VNFCs: 400}, Impersonate: desired.ServiceAccount{Namespace: "jibe", Name: "core"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if user := got.Impersonate.String(); user != "system:serviceaccount:jibe:core" {
		t.Errorf("the account is %s", user)
	}
	got, err = desired.ParseProject("projects/empty.yaml", nil)
	if want := (&desired.Project{Name: "empty", PodSecurity: desired.PodSecurityBaseline, Hooks: true}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("an empty file is %+v, %v", got, err)
	}
}

func TestAProjectSaysWhichRequestsAreProposed(t *testing.T) {
	for text, want := range map[string][]string{
		"":                    nil,
		"write: direct":       nil,
		"write: pull-request": {"INSTANTIATE", "SCALE", "TERMINATE", "MODIFY_INFO", "HEAL"},
		"write: {pullRequest: [SCALE, MODIFY_INFO]}": {"SCALE", "MODIFY_INFO"},
	} {
		p, err := desired.ParseProject("projects/core.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, typ := range []string{"INSTANTIATE", "SCALE", "TERMINATE", "MODIFY_INFO", "HEAL"} {
			if p.Write.Proposes(typ) != slices.Contains(want, typ) {
				t.Errorf("%s: a %s is proposed: %v", text, typ, p.Write.Proposes(typ))
			}
		}
	}
}

func TestAProjectThatIsWrongIsRefusedWithItsLine(t *testing.T) {
	for text, says := range map[string]string{
		"instance: [a]":                                     `did you mean "instances"`,
		"instances: a":                                      "must be a list",
		"instances: [instances/a]":                          "below instances/ already",
		"instances: [../a]":                                 "can't be a folder",
		"instances: [/a]":                                   "can't be a folder",
		"instances: ['a/**/b']":                             `has "**"`,
		"instances: ['a/[bc]']":                             "can't be a pattern",
		"instances: ['']":                                   "can't be a folder",
		"vims: ['a b']":                                     "can't be",
		"vims: [1]":                                         "must be text",
		"namespaces: [kube-system]":                         "Kubernetes itself runs",
		"kinds: {namespaced: [Deployment/apps]}":            "can't be",
		"kinds: {heat: ['OS:Nova']}":                        "can't be",
		"kinds: {cluster: [Namespace]}":                     "unknown key",
		"externalIPs: [203.0.113.0/33]":                     "can't be",
		"externalIPs: ['*']":                                "write an address or a network",
		"podSecurity: Baseline":                             `did you mean "baseline"`,
		"hooks: 'yes'":                                      "must be true or false",
		"quotas: {instances: 0}":                            "can't be 0",
		"quotas: {vnfcs: -1}":                               "can't be -1",
		"quotas: {vnfcs: 99999999999}":                      "can't be 99999999999",
		"write: merge-request":                              `allowed: direct, pull-request`,
		"write: {}":                                         "names no type of operation",
		"write: {pullRequest: []}":                          "names no type of operation",
		"write: {pullRequest: [SCALEE]}":                    `did you mean "SCALE"`,
		"write: {pullrequest: [SCALE]}":                     `did you mean "pullRequest"`,
		"impersonate: {}":                                   "names no account",
		"impersonate: {serviceAccount: core}":               "can't name a service account",
		"impersonate: {serviceAccount: a/b/c}":              "can't name a service account",
		"impersonate: {serviceAccount: 'a/system:masters'}": "can't name a service account",
	} {
		_, err := desired.ParseProject("projects/core.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "projects/core.yaml:1: ") {
			t.Errorf("%s: got %v, want it to say %q", text, err, says)
		}
	}
	for file, says := range map[string]string{"projects/core.yml": "rename it", "projects/a b.yaml": "can't name a project", "projects/core": "rename it"} {
		if _, err := desired.ParseProject(file, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want it to say %q", file, err, says)
		}
		if !desired.IsSettings(file) {
			t.Errorf("%s is passed over, and would restrict nothing", file)
		}
	}
	if _, err := desired.ParseProject("projects/default.yaml", []byte("instances: [a]")); err == nil || !strings.Contains(err.Error(), "can't claim any") {
		t.Errorf("folders of the default project: %v", err)
	}
}

func TestAnInstanceIsOfTheProjectThatClaimsItsFolderElseOfDefault(t *testing.T) {
	s := projectsOf(t, map[string]string{"core": "instances: [north/core, 'teams/*-core']", "edge": "instances: [north/edge]"})
	for dir, want := range map[string]string{
		"instances/north/core":         "core",
		"instances/north/core/amf":     "core",
		"instances/north/corex":        "default",
		"instances/north":              "default",
		"instances/teams/a-core/x/y":   "core",
		"instances/teams/a-core-b/x":   "default",
		"instances/north/edge/upf":     "edge",
		"instances/North/core/amf":     "default",
		"instances/x/north/core":       "default",
		"":                             "default",
		"instances":                    "default",
		"instances/north/edge/../core": "core",
	} {
		if got := s.ProjectOf(dir).Name; got != want {
			t.Errorf("%q is of %s, want %s", dir, got, want)
		}
	}
	if got := (&desired.Settings{}).ProjectOf("instances/a"); got.Name != "default" || got.PodSecurity != desired.PodSecurityBaseline || !got.Hooks {
		t.Errorf("without any file: %+v", got)
	}
}

func TestTheDefaultProjectHasWhatNoOtherOneClaims(t *testing.T) {
	s := projectsOf(t, map[string]string{
		"core": "{instances: [core], vims: [north, shared], namespaces: [core-*], repositories: [core, vendor]}",
		"edge": "{instances: [edge], vims: [shared], namespaces: [edge], repositories: [vendor]}",
	})
	for what, c := range map[string]struct {
		may  func(p *desired.Project) bool
		want string
	}{
		"its VIM":                   {func(p *desired.Project) bool { return p.MayUseVIM("north") }, "core"},
		"a VIM that two share":      {func(p *desired.Project) bool { return p.MayUseVIM("shared") }, "core edge"},
		"a VIM that none has":       {func(p *desired.Project) bool { return p.MayUseVIM("south") }, "default"},
		"a namespace":               {func(p *desired.Project) bool { return p.MayUseNamespace("core-amf") }, "core"},
		"another namespace":         {func(p *desired.Project) bool { return p.MayUseNamespace("edge") }, "edge"},
		"a namespace that none has": {func(p *desired.Project) bool { return p.MayUseNamespace("edges") }, "default"},
		"Kubernetes' own":           {func(p *desired.Project) bool { return p.MayUseNamespace("kube-system") }, ""},
		"its repository":            {func(p *desired.Project) bool { return p.MayUseRepository("core") }, "core"},
		"a shared repository":       {func(p *desired.Project) bool { return p.MayUseRepository("vendor") }, "core edge"},
	} {
		var may []string
		for _, name := range s.ProjectNames() {
			if c.may(s.Project(name)) {
				may = append(may, name)
			}
		}
		if got := strings.Join(may, " "); got != c.want {
			t.Errorf("%s: %q may use it, want %q", what, got, c.want)
		}
	}
	for name, want := range map[string]string{"core": "core", "vendor": "default", "other": "default"} {
		if got := s.ProjectOfRepository(name).Name; got != want {
			t.Errorf("repository %s is written by %s, want %s", name, got, want)
		}
	}
	if !(&desired.Settings{}).ProjectOf("").MayUseNamespace("anything") || !(&desired.Settings{}).ProjectOf("").MayUseVIM("any") {
		t.Error("without any file something is refused")
	}
	sharing := projectsOf(t, map[string]string{"default": "{vims: ['*'], namespaces: ['*-lab']}", "core": "{vims: [north], namespaces: [core]}"}).ProjectOf("")
	if !sharing.MayUseVIM("north") || !sharing.MayUseNamespace("a-lab") || sharing.MayUseNamespace("core") {
		t.Errorf("a file of the default project doesn't share what it names: %+v", sharing)
	}
	narrowed := projectsOf(t, map[string]string{"default": "{vims: [lab], namespaces: []}"}).ProjectOf("")
	if !narrowed.MayUseVIM("lab") || narrowed.MayUseVIM("north") || narrowed.MayUseNamespace("amf") {
		t.Errorf("a file of the default project doesn't narrow it: %+v", narrowed)
	}
}

// A user who makes a pod in the namespace of a service account can run it as that account.
func TestTheNamespaceOfAnAccountIsNoOtherProjects(t *testing.T) {
	t.Parallel()
	s := projectsOf(t, map[string]string{
		"core": "{vims: [north], namespaces: [core], impersonate: {serviceAccount: tenants/core}}",
		"edge": "{vims: [north], namespaces: [tenants, edge], impersonate: {serviceAccount: edge/writer}}",
		"lab":  "{vims: [lab], namespaces: [edge]}",
	})

	for namespace, want := range map[string]string{
		"tenants": "",         // edge's by its own claim, and core's account is there
		"edge":    "edge lab", // the account there is edge's own, and lab has another VIM
		"core":    "core",
		"other":   "default",
	} {
		var may []string
		for _, name := range s.ProjectNames() {
			p := s.Project(name)
			if p.MayUseNamespace(namespace) {
				may = append(may, name)
			} else if name == desired.DefaultProject && !slices.Contains(p.Foreign(), namespace) {
				t.Errorf("%s isn't kept from the default project's packages: %v", namespace, p.Foreign())
			}
		}
		if got := strings.Join(may, " "); got != want {
			t.Errorf("%q may write in %s, want %q", got, namespace, want)
		}
	}
	if edge := s.Project("edge"); !slices.Equal(edge.Foreign(), []string{"tenants"}) {
		t.Errorf("edge's packages are kept from %v", edge.Foreign())
	}
	if whole := projectsOf(t, map[string]string{"default": "{namespaces: [a], impersonate: {serviceAccount: a/b}}"}).Project("default"); !whole.MayUseNamespace("a") {
		t.Error("the default project is kept from its own account's namespace")
	}
}

func TestTwoProjectsThatClaimTheSameAreRefusedWithBothNames(t *testing.T) {
	for name, c := range map[string]struct{ one, two, says string }{
		"the same folder":       {"instances: [a/b]", "instances: [a/b]", "both claim the folder instances/a/b"},
		"a folder in a folder":  {"instances: [a]", "instances: [a/b]", "both claim the folder instances/a"},
		"a pattern of a folder": {"instances: ['*/lab']", "instances: [a]", "both claim the folder"},
		"two patterns":          {"instances: ['a-*']", "instances: ['*-b']", "both claim the folder"},
		"folders side by side":  {"instances: ['a-*/x']", "instances: ['*-b/y']", ""},
		"the same namespace":    {"vims: [v]\nnamespaces: [n]", "vims: ['v*']\nnamespaces: ['n*']", "both claim the namespace"},
		"a namespace elsewhere": {"vims: [v]\nnamespaces: [n]", "vims: [w]\nnamespaces: [n]", ""},
		"the same VIM":          {"vims: [v]\nnamespaces: [n]", "vims: [v]\nnamespaces: [m]", ""},
		"the same repository":   {"repositories: [r]", "repositories: [r]", ""},
	} {
		files := map[string]string{"projects/one.yaml": c.one, "projects/two.yaml": c.two}
		_, err := desired.SettingsFrom(func(name string) ([]byte, error) { return []byte(files[name]), nil }, []string{"projects/one.yaml", "projects/two.yaml"})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "projects/two.yaml: projects two and one ")):
			t.Errorf("%s: got %v, want it to say %q", name, err, c.says)
		}
	}
}

func FuzzParseProject(f *testing.F) {
	f.Add("instances: ['a*/b', c]\nvims: ['*']\nnamespaces: ['x*y*']\nkinds: {namespaced: ['*']}\nquotas: {vnfcs: 1}\n")
	f.Add("impersonate: {serviceAccount: a/b}\npodSecurity: restricted\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := desired.ParseProject("projects/a.yaml", []byte(text))
		var invalid *desired.InvalidError
		if err != nil {
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 || invalid.Problems[0].File != "projects/a.yaml" {
				t.Fatalf("an error without a file: %v", err)
			}
			return
		}
		if p.MayUseNamespace("kube-system") {
			t.Fatalf("kube-system is given to %+v", p)
		}
		s := &desired.Settings{}
		s.AddProject(p)
		other := *p
		other.Name = "b"
		if len(p.Instances) > 0 && len(s.ClaimedTwice(&other)) == 0 {
			t.Fatalf("the same folders twice: %+v", p)
		}
		for _, pattern := range p.Instances {
			dir := "instances/" + strings.ReplaceAll(pattern, "*", "x") + "/amf"
			if s.ProjectNameOf(dir) != "a" {
				t.Fatalf("%s isn't below %s", dir, pattern)
			}
		}
	})
}

func TestTheSchemaOfAProjectHasTheKeysThatAreRead(t *testing.T) {
	data, err := os.ReadFile("../docs/schema/project.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Properties map[string]schema
	}
	var top schema
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatal(err)
	}
	// The remedy of a key that nobody knows names all that are known.
	known := func(text string) string {
		var invalid *desired.InvalidError
		if _, err := desired.ParseProject("projects/a.yaml", []byte(text)); !errors.As(err, &invalid) {
			t.Fatalf("%s: %v", text, err)
		}
		return strings.TrimPrefix(invalid.Problems[0].Remedy, "known keys: ")
	}
	for where, c := range map[string]struct {
		text string
		in   schema
	}{
		"the file":    {"zzzzzzzzzzzzzzz: 1", top},
		"kinds":       {"kinds: {zzzzzzzzzzzzzzz: 1}", top.Properties["kinds"]},
		"quotas":      {"quotas: {zzzzzzzzzzzzzzz: 1}", top.Properties["quotas"]},
		"impersonate": {"impersonate: {zzzzzzzzzzzzzzz: 1}", top.Properties["impersonate"]},
	} {
		keys := strings.Split(known(c.text), ", ")
		slices.Sort(keys)
		if has := slices.Sorted(maps.Keys(c.in.Properties)); !slices.Equal(keys, has) {
			t.Errorf("%s: the parser knows %v, the schema %v", where, keys, has)
		}
	}
}
