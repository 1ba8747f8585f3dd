package desired_test

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// parse reads any file of the desired repository by its name.
func parse(file string, data []byte) (any, error) {
	switch {
	case path.Base(file) == desired.InstanceFile:
		return desired.ParseInstance(file, data)
	case file == desired.RepositoriesFile:
		return desired.ParseRepositories(file, data)
	case file == desired.PeersFile:
		return desired.ParsePeers(file, data)
	case file == desired.GrantingFile:
		return desired.ParseGranting(file, data)
	}
	return desired.ParseVIM(file, data)
}

// Each testdata/invalid/*.txtar holds a bad file and the error that it gets.
// "go test -update" rewrites the error.
func TestABadFileIsRefusedWithFileLineKeyAndRemedy(t *testing.T) {
	goldens, err := filepath.Glob("testdata/invalid/*.txtar")
	if err != nil || len(goldens) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, g := range goldens {
		t.Run(strings.TrimSuffix(filepath.Base(g), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(g)
			if err != nil {
				t.Fatal(err)
			}
			bad := ar.Files[0]
			v, err := parse(bad.Name, bad.Data)
			if err == nil {
				t.Fatalf("taken as %+v", v)
			}
			var invalid *desired.InvalidError
			var problem *desired.Problem
			if !errors.As(err, &invalid) || !errors.As(err, &problem) || len(invalid.Problems) == 0 {
				t.Fatalf("a %T: %v", err, err)
			}
			for _, p := range invalid.Problems {
				if p.File != bad.Name || p.Remedy == "" || p.Line < 0 || p.Line > 1+strings.Count(string(bad.Data), "\n") {
					t.Errorf("not enough to repair it: %+v", p)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the secret is shown: %v", err)
			}
			got := err.Error() + "\n"
			ar.Files = []txtar.File{bad, {Name: "error", Data: []byte(got)}}
			kit.Golden(t, g, txtar.Format(ar))
		})
	}
}

func TestFilesThatNoTextFileShouldHoldAreRefused(t *testing.T) {
	bomb := "a: &a [x,x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("b%d: &b%d [*a, *a]\n", i, i)
	}
	for want, data := range map[string]string{
		"at most 1048576":          "vnfdId: x\n#" + strings.Repeat("x", 1<<20),
		":2: the file isn't UTF-8": "vnfdId: x\nname: \xff\n",
		"anchors and aliases":      bomb,
		"nest more than":           "vnfdId: x\nparams: {a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n",
		"more than 64 bits":        "vnfdId: x\nparams: {a: 99999999999999999999}\n",
		"…":                        "vnfdId: x\n" + strings.Repeat("k", 900) + ": 1\n",
		"not YAML":                 "vnfdId: x\nparams: " + strings.Repeat("[", 200_000),
		"control characters":       "vnfdId: \"a\x00b\"\n",
	} {
		_, err := desired.ParseInstance(someFile, []byte(data))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 4_000 {
			t.Errorf("%s: %.300v", want, err)
		}
	}
}

func TestAnInstanceIsReadWithItsDefaults(t *testing.T) {
	in, err := desired.ParseInstance(someFile, []byte(`---
vnfdId: b1bb0ce7-ebca-4fa7-95ed-4840d70a1177
levels:
  vdu1_aspect: 2
name:
params: {n: 3, f: 1.5, whole: 2.0, list: [true, null, x], date: 2020-01-01, deep: {a: -1}, octal: 0o17}
vimConnectionInfo:
  vim1:
    vimType: kubernetes
    interfaceInfo: {endpoint: "https://x"}
    accessInfo: {bearer_token: "env:TOKEN", username: u, oidc_token_url: "https://y"}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &desired.Instance{
		ID: desired.DeriveID("instances/site-a/amf"), Derived: true, Dir: "instances/site-a/amf", VnfdID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177",
		State: desired.Instantiated, Drift: desired.DriftCorrect, Update: desired.UpdatePolicy{Strategy: desired.Rolling},
		Levels: map[string]int{"vdu1_aspect": 2},
		Params: map[string]any{"n": int64(3), "f": 1.5, "whole": 2.0, "list": []any{true, nil, "x"}, "date": "2020-01-01",
			"deep": map[string]any{"a": int64(-1)}, "octal": int64(15)},
		VIMConnections: map[string]desired.VIMConnection{"vim1": {
			VimType: "kubernetes", InterfaceInfo: map[string]string{"endpoint": "https://x"},
			AccessInfo: map[string]string{"bearer_token": "env:TOKEN", "username": "u", "oidc_token_url": "https://y"}}},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAVNFIsConnectedToIsReadAsSOL003HasIt(t *testing.T) {
	in, err := desired.ParseInstance(someFile, []byte(`vnfdId: x
placement: {VDU2: core}
extVirtualLinks:
- id: left
  vimConnectionId: core
  resourceId: 45f79286
  extCps:
  - cpdId: VDU1_CP1
    cpConfig:
      VDU1_CP1_1:
        cpProtocolData:
        - layerProtocol: IP_OVER_ETHERNET
          ipOverEthernet:
            macAddress: fa:16:3e:00:00:01
            ipAddresses: [{type: IPV4, fixedAddresses: [10.10.0.5], subnetId: 7a6f}, {type: IPV6, numDynamicAddresses: 1}]
      VDU1_CP1_2: {linkPortId: p1}
  extLinkPorts: [{id: p1, resourceHandle: {resourceId: 6b0b, vimLevelResourceType: "OS::Neutron::Port"}}]
extManagedVirtualLinks: [{id: m1, vnfVirtualLinkDescId: internalVL1, resourceId: 8c1d}]
condemned: {Server/VDU1/wvxjx: "3f2a@2026-05-25T10:00:00Z", Stack/vnf-1: 5d, Volume/VDU1/wvxjx/data: 7e}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []desired.ExtVirtualLink{{ID: "left", VIMConnectionID: "core", ResourceID: "45f79286",
		ExtCps: []desired.ExtCp{{CpdID: "VDU1_CP1", CpConfig: map[string]desired.ExtCpConfig{
			"VDU1_CP1_1": {Protocols: []desired.CpProtocol{{LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: &desired.IPOverEthernet{MACAddress: "fa:16:3e:00:00:01",
				IPAddresses: []desired.IPAddress{{Type: "IPV4", FixedAddresses: []string{"10.10.0.5"}, SubnetID: "7a6f"}, {Type: "IPV6", NumDynamicAddresses: 1}}}}}},
			"VDU1_CP1_2": {LinkPortID: "p1"}}}},
		ExtLinkPorts: []desired.ExtLinkPort{{ID: "p1", ResourceHandle: desired.ResourceHandle{ResourceID: "6b0b", Type: "OS::Neutron::Port"}}}}}
	if d := cmp.Diff(want, in.ExtVirtualLinks); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]desired.ExtManagedVirtualLink{{ID: "m1", VirtualLinkDescID: "internalVL1", ResourceID: "8c1d"}}, in.ExtManagedVirtualLinks); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"VDU2": "core"}, in.Placement); d != "" || len(in.Condemned) != 3 {
		t.Errorf("%s%v", d, in.Condemned)
	}
	other := *in
	other.ExtVirtualLinks = nil
	if got := desired.Changed(in, &other); len(got) != 1 || got[0] != "extVirtualLinks" {
		t.Errorf("changed: %v", got)
	}
}

func TestAVIMOfOpenStackIsReadInAllItsForms(t *testing.T) {
	for text, want := range map[string]desired.VIM{
		"type: openstack\nendpoint: https://k:5000/v3\nregion: r\nproject: p\nprojectDomain: pd\nuserDomain: ud\ncaCert: file:/ca\ncredentials: {username: u, password: env:P}\n": {
			Endpoint: "https://k:5000/v3", Region: "r", Project: "p", ProjectDomain: "pd", UserDomain: "ud", CACert: "file:/ca", Credentials: desired.Credentials{Username: "u", Password: "env:P"}},
		"type: openstack\nendpoint: https://k:5000/v3\nregion: r\ninsecure: true\ncredentials: {applicationCredentialId: i, applicationCredentialSecret: env:S}\n": {
			Endpoint: "https://k:5000/v3", Region: "r", Insecure: true, Credentials: desired.Credentials{ApplicationCredentialID: "i", ApplicationCredentialSecret: "env:S"}},
		"type: openstack\nclouds: file:/etc/openstack/clouds.yaml\ncloud: core\ndefault: true\n": {Clouds: "file:/etc/openstack/clouds.yaml", Cloud: "core", Default: true},
	} {
		want.Name, want.Type = "core", desired.VIMOpenStack
		v, err := desired.ParseVIM("vims/core.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s%v", text, err)
		} else if d := cmp.Diff(&want, v); d != "" {
			t.Errorf("%s%s", text, d)
		}
	}
}

func TestADerivedIDNeverChanges(t *testing.T) {
	if got := uuid.NewSHA1(uuid.NameSpaceDNS, []byte("jibe-vnfm.github.io")).String(); got != "3d692d9c-4689-5b78-a2b2-55dce91db509" {
		t.Fatalf("namespace %s", got)
	}
	for dir, want := range map[string]string{
		"instances/site-a/amf":   "bbc17c91-9a3c-5964-800e-4cfde08e456b",
		"/instances/site-a/amf/": "bbc17c91-9a3c-5964-800e-4cfde08e456b",
		"instances/site-a/smf":   "534a8bbd-e45c-5378-9582-72aaf00e4188",
	} {
		if got := desired.DeriveID(dir); got != want || uuid.MustParse(got).Version() != 5 {
			t.Errorf("%s: %s", dir, got)
		}
	}
	if got := desired.APIDir("3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11"); got != "instances/3f/6/3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11" {
		t.Error(got)
	}
}

func TestNoFolderOfTheAPIHasAThousandEntriesWithAMillionInstances(t *testing.T) {
	const most, instances = 1000, 100_000
	entries, seen := map[string]int{}, map[string]bool{}
	for i := range instances {
		id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String()
		for dir := desired.APIDir(id); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			entries[path.Dir(dir)]++
		}
	}
	for dir, n := range entries {
		// Ten times the instances fill a leaf ten times as much, and no other folder.
		if strings.Count(dir, "/") == 2 {
			n *= 10
		}
		if n > most {
			t.Errorf("%s has %d entries", dir, n)
		}
	}
}

func TestEqualIsAboutIntent(t *testing.T) {
	read := func(s string) *desired.Instance {
		in, err := desired.ParseInstance(someFile, []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	base := read("vnfdId: x\nlevels: {a: 1}\nparams: {n: 3, list: [1, 2]}\n")
	for _, same := range []string{
		"# c\nparams:\n  list:\n  - 1\n  - 2.0\n  n: 3.0\nlevels: {a: 1}\nvnfdId: 'x'\n",
		"vnfdId: x\nstate: instantiated\ndrift: correct\nupdate: {strategy: rolling}\nsuspend: false\nlevels: {a: 1}\nparams: {n: 3, list: [1, 2]}\nmetadata: {}\ncondemned:\nid: " + desired.DeriveID("instances/site-a/amf"),
	} {
		if in := read(same); !desired.Equal(base, in) || !desired.Equal(in, base) {
			t.Errorf("%v differ in %s", desired.Changed(base, in), same)
		}
	}
	other := read("vnfdId: y\nstate: notInstantiated\nlevels: {a: 1, b: 0}\nparams: {n: 3, list: [2, 1]}\nheld: op\n")
	if diff := cmp.Diff([]string{"vnfdId", "state", "levels", "params", "held"}, desired.Changed(base, other)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"id", "vnfdId", "state", "levels", "update", "params", "drift"}, desired.Changed(nil, base)); diff != "" {
		t.Error(diff)
	}
	if !desired.Equal(nil, nil) || desired.Equal(nil, base) {
		t.Error("nil is equal to nothing but nil")
	}
}

func TestVIMTypesHaveOneName(t *testing.T) {
	for alias, want := range map[string]string{
		"kubernetes": desired.VIMKubernetes, "ETSINFV.KUBERNETES.V_1": desired.VIMKubernetes,
		"openstack": desired.VIMOpenStack, "ETSINFV.OPENSTACK_KEYSTONE.V_3": desired.VIMOpenStack, "sim": desired.VIMSim,
	} {
		text := "type: " + alias + "\n"
		if want != desired.VIMSim {
			text += "endpoint: https://x:6443\ncredentials: {token: 'file:/run/token'}\n"
		}
		if want == desired.VIMOpenStack {
			text = "type: " + alias + "\nclouds: file:/etc/clouds.yaml\ncloud: a\n"
		}
		v, err := desired.ParseVIM("vims/kube-a.yaml", []byte(text))
		if err != nil || v.Type != want || v.Name != "kube-a" {
			t.Errorf("%s: %+v %v", alias, v, err)
		}
	}
}

func TestRepositoriesAreReadAsGitKnowsThem(t *testing.T) {
	for _, u := range []string{"amf", "amf.git", "site-a/amf.git", "/srv/git/amf.git", "file:///srv/amf.git", "https://example.com/a.git",
		"https://example.com:8443/a", "ssh://git@example.com/a.git", "git://example.com/a", "git@example.com:a/b.git"} {
		r, err := desired.ParseRepositories("repositories.yaml", []byte("- name: a\n  url: "+u+"\n  tags: v*\n"))
		if err != nil || len(r) != 1 || r[0].URL != u || r[0].Tags != "v*" {
			t.Errorf("%s: %v %v", u, r, err)
		}
	}
	for _, u := range []string{"-oProxyCommand=x", "ext::sh -c x", "http://example.com/a", "ftp://x/y", "../x", "a/../../b", ".", "a b", "--upload-pack=x",
		"ssh://-oProxyCommand=x/y", "fd::3", "https://u:hunter2@example.com/a", "https://hunter2@example.com/a", "https:///a", "-x@host:path"} {
		_, err := desired.ParseRepositories("repositories.yaml", []byte(fmt.Sprintf("- name: a\n  url: %q\n", u)))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", u, err)
		}
	}
	for _, b := range []string{"-x", "a..b", "/a", "a/", "a.lock", "a b", "a~1", "a:b", "@{u}", "a//b", "a/.b"} {
		if _, err := desired.ParseRepositories("repositories.yaml", []byte(fmt.Sprintf("- name: a\n  url: a\n  branch: %q\n", b))); err == nil {
			t.Errorf("branch %q was taken", b)
		}
	}
	if r, err := desired.ParseRepositories("repositories.yaml", []byte("# none yet\n")); r != nil || err != nil {
		t.Errorf("an empty file: %v %v", r, err)
	}
}

func TestSettingsAreReadTogether(t *testing.T) {
	files := map[string]string{
		"repositories.yaml":  "- {name: a, url: a}\n",
		"peers.yaml":         "- {name: em-a, type: em, endpoint: https://em.example.com/}\n",
		"vims/kube-a.yaml":   "type: sim\ndefault: true\n",
		"vims/kube-b.yaml":   "type: sim\nid: the-b\n",
		"vims/notes.md":      "no YAML: [",
		"vims/sub/x.yaml":    "no YAML: [",
		"instances/vnf.yaml": "no YAML: [",
	}
	read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
	names := func() (out []string) {
		for n := range files {
			out = append(out, n)
		}
		return out
	}
	s, err := desired.SettingsFrom(read, names())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Repositories) != 1 || len(s.VIMs) != 2 || !s.VIMs["kube-a"].Default || s.VIMs["kube-b"].ID != "the-b" {
		t.Errorf("%+v", s)
	}
	if em, err := s.Peer("default", desired.PeerEM, desired.InstanceFile, "em", "em-a"); err != nil || em.Endpoint != "https://em.example.com" {
		t.Errorf("the EM by its name: %+v, %v", em, err)
	}
	for name, want := range map[string]string{
		"":     "no em is known: vnf.yaml names none, and peers.yaml has no default: it has em-a of type em (write em: <name> in vnf.yaml, or default: true at one entry of peers.yaml with type: em)",
		"em-b": `em names "em-b", which isn't in peers.yaml: it has em-a of type em (add it there, or name another)`,
	} {
		if _, err := s.Peer("default", desired.PeerEM, desired.InstanceFile, "em", name); err == nil || err.Error() != "vnf.yaml: "+want {
			t.Errorf("the EM %q: %v", name, err)
		}
	}
	em := files["peers.yaml"]
	for _, c := range []struct{ peers, granting, want string }{
		{"", "policy: []\n", ""},
		{"- {name: a, type: nfvo, endpoint: https://nfvo.example.com/}\n", "nfvo: {name: a}\n", "a"},
		{"- {name: a, type: nfvo, endpoint: https://nfvo.example.com/, default: true}\n", "nfvo: {}\n", "a"},
		{"", "nfvo: {name: em-a}\n", `granting.yaml: nfvo.name names "em-a", which isn't in peers.yaml: it has none of type nfvo (add it there, or name another)`},
		{"- {name: a, type: nfvo, endpoint: https://nfvo.example.com}\n", "nfvo: {}\n",
			"granting.yaml: no nfvo is known: granting.yaml names none, and peers.yaml has no default: it has a of type nfvo (write nfvo.name: <name> in granting.yaml, or default: true at one entry of peers.yaml with type: nfvo)"},
	} {
		files["peers.yaml"], files["granting.yaml"] = em+c.peers, c.granting
		got := ""
		if s, err := desired.SettingsFrom(read, names()); err != nil {
			got = err.Error()
		} else if nfvo, err := s.NFVO(); err != nil {
			t.Error(err)
		} else if nfvo != nil {
			got = nfvo.Name
		}
		if got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.granting, c.peers, got, c.want)
		}
	}
	files["peers.yaml"] = em
	delete(files, "granting.yaml")
	files["vims/kube-b.yaml"] = "type: sim\ndefault: true\nid: kube-a\n"
	files["vims/kube-c.yaml"] = "type: what\n"
	_, err = desired.SettingsFrom(read, names())
	for _, want := range []string{`vims/kube-b.yaml: VIM "kube-a" is the default already`, `vims/kube-b.yaml: VIM "kube-a" has the id "kube-a" too`, `vims/kube-c.yaml:1: VIM type "what" isn't known`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	away := errors.New("away")
	if _, err := desired.SettingsFrom(func(string) ([]byte, error) { return nil, away }, names()); !errors.Is(err, away) {
		t.Errorf("a file that can't be read: %v", err)
	}
	if s, err := desired.SettingsFrom(read, nil); err != nil || s == nil || s.VIMs == nil {
		t.Errorf("nothing: %v %v", s, err)
	}
}

func TestSecretNamesAreKnown(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "bearer_token": true, "client_secret": true, "Password": true, "apiKey": true, "ssh_private_key": true, "client_key": true,
		"username": false, "oidc_token_url": false, "tokenEndpoint": false, "configmap_secret_paths": false, "secretName": false, "applicationCredentialId": false, "applicationCredentialSecret": true, "secret_id": true, "keystone_domain": false, "project": false,
	} {
		if desired.IsSecretKey(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// fuzzParse checks what holds for all files: a verdict, not a panic; the same
// one twice; problems in lines that exist.
func fuzzParse(t *testing.T, file string, data []byte) any {
	v, err := parse(file, data)
	again, err2 := parse(file, data)
	if fmt.Sprint(err) != fmt.Sprint(err2) || cmp.Diff(v, again) != "" {
		t.Fatalf("not the same twice: %v, %v", err, err2)
	}
	if err == nil {
		return v
	}
	var invalid *desired.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("a %T", err)
	}
	for _, p := range invalid.Problems {
		if p.File != file || p.Message == "" {
			t.Fatalf("problem %+v", p)
		}
	}
	return nil
}

func FuzzParseInstance(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		in, ok := fuzzParse(t, someFile, data).(*desired.Instance)
		if !ok {
			return
		}
		text, err := desired.Format(in)
		if err != nil {
			t.Fatalf("%v\n%q", err, data)
		}
		if back, err := desired.ParseInstance(someFile, text); err != nil || !desired.Equal(in, back) {
			t.Fatalf("%v\n%q\n%q", err, data, text)
		}
	})
}

func FuzzParseVIM(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzParse(t, "vims/a.yaml", data) })
}

func FuzzParseRepositories(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		repos, _ := fuzzParse(t, "repositories.yaml", data).([]desired.Repository)
		for _, r := range repos {
			if strings.HasPrefix(r.URL, "-") || strings.Contains(r.URL, "::") || strings.HasPrefix(r.Branch, "-") || strings.Contains(r.Path, "..") && path.Clean("/"+r.Path) != "/"+r.Path {
				t.Fatalf("dangerous: %+v", r)
			}
		}
	})
}

func seed(f *testing.F) {
	for _, glob := range []string{"testdata/invalid/*.txtar", "testdata/edit/*.txtar"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(ar.Files[0].Data)
		}
	}
}
