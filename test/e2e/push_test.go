package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestABadPushIsRefusedWithFileLineReasonAndRemedy(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	dir := "instances/bad/" + b.namespace
	file := dir + "/vnf.yaml"
	good := fmt.Sprintf("name: x\nvnfdId: %s\nflavour: simple\nlevels: {web_aspect: 0}\nparams: {namespace: %s}\n", plain, b.namespace)
	instead := func(old, by string) map[string]string {
		if !strings.Contains(good, old) {
			t.Fatal(old)
		}
		return map[string]string{file: strings.Replace(good, old, by, 1)}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"unknown key":           {instead("name: x", "nam: x"), []string{file + ":1", "nam"}},
		"wrong type":            {instead("{web_aspect: 0}", "{web_aspect: many}"), []string{file + ":4", "web_aspect", "many"}},
		"no YAML":               {instead("name: x", "name: [x"), []string{file + ":"}},
		"duplicate key":         {instead("name: x", "name: x\nname: y"), []string{file + ":2", "name"}},
		"unknown state":         {instead("name: x", "state: running"), []string{file + ":1", "running", "notInstantiated"}},
		"unknown vnfdId":        {instead(plain, "00000000-0000-4000-8000-00000000000a"), []string{file + ":2", "00000000-0000-4000-8000-00000000000a", "jibe get packages"}},
		"unknown flavour":       {instead("flavour: simple", "flavour: grand"), []string{file + ":3", `"grand"`, "simple"}},
		"unknown aspect":        {instead("web_aspect", "db_aspect"), []string{file + ":4", "db_aspect", "web_aspect"}},
		"level out of range":    {instead("web_aspect: 0", "web_aspect: 6"), []string{file + ":4", "web_aspect", "0..5"}},
		"negative level":        {instead("web_aspect: 0", "web_aspect: -1"), []string{file + ":4", "web_aspect"}},
		"unknown level":         {instead("name: x", "instantiationLevel: huge"), []string{file + ":1", "huge"}},
		"unknown VIM":           {instead("name: x", "vim: elsewhere"), []string{file + ":1", "elsewhere", "vims/elsewhere.yaml", "local"}},
		"aspect of a DaemonSet": {map[string]string{file: fmt.Sprintf("vnfdId: %s\nflavour: simple\nlevels: {agent_aspect: 1}\nparams: {namespace: x}\n", fixed)}, []string{file + ":3", "agent_aspect", "DaemonSet"}},
		"missing manifest":      {instead("{namespace:", "{lcm-kubernetes-def-files: [Files/none.yaml], namespace:"), []string{file + ":5", "Files/none.yaml"}},
		"duplicate id": {map[string]string{file: "id: 11111111-1111-4111-8111-111111111111\n" + good, dir + "-b/vnf.yaml": "id: 11111111-1111-4111-8111-111111111111\n" + good},
			[]string{"/vnf.yaml", "11111111-1111-4111-8111-111111111111 is already that of", dir}},
		"nested instance":       {map[string]string{file: good, dir + "/inner/vnf.yaml": good}, []string{"inner"}},
		"secret in clear":       {instead("name: x", "vimConnectionInfo: {v: {vimType: kubernetes, interfaceInfo: {endpoint: 'https://x'}, accessInfo: {bearer_token: hunter2}}}"), []string{file + ":1", "bearer_token", "jibe secret encrypt"}},
		"VIM with unknown key":  {map[string]string{"vims/bad.yaml": "type: kubernetes\nurl: https://x\n"}, []string{"vims/bad.yaml:2", "url"}},
		"VIM of unknown type":   {map[string]string{"vims/bad.yaml": "type: mainframe\n"}, []string{"vims/bad.yaml:1", "mainframe", "kubernetes"}},
		"VIM, secret in clear":  {map[string]string{"vims/bad.yaml": "type: kubernetes\nendpoint: https://x\ncredentials: {token: hunter2}\n"}, []string{"vims/bad.yaml:3", "token"}},
		"two default VIMs":      {map[string]string{"vims/bad.yaml": "type: sim\ndefault: true\n"}, []string{"vims/", "default"}},
		"repository, bad key":   {map[string]string{"repositories.yaml": "- name: a\n  uri: b\n"}, []string{"repositories.yaml:2", "uri"}},
		"repository, no list":   {map[string]string{"repositories.yaml": "name: a\n"}, []string{"repositories.yaml"}},
		"repository of nowhere": {map[string]string{"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n- name: a\n  url: /nowhere/at/all.git\n"}, []string{"repositories.yaml", "/nowhere/at/all.git"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := b.clone(t, "desired.git")
			for path, text := range tt.files {
				d.Write(path, text)
			}
			validated, errs, code := b.cli(t, "validate", d.Dir())
			if code != 1 {
				t.Errorf("jibe validate: exit code %d: %s%s", code, validated, errs)
			}
			d.Commit("Something bad")
			out, err := d.TryPush()
			if err == nil {
				t.Fatalf("the push was accepted:\n%s", out)
			}
			t.Logf("\n%s", out)
			for _, w := range append(tt.says, "refuses this push; nothing was changed") {
				if !strings.Contains(out, w) {
					t.Errorf("the refusal doesn't say %q:\n%s", w, out)
				}
			}
			for _, w := range tt.says {
				if !strings.Contains(validated, w) {
					t.Errorf("jibe validate doesn't say %q:\n%s", w, validated)
				}
			}
			if strings.Contains(out, "hunter2") {
				t.Error("the refusal repeats the secret")
			}
			hash := strings.TrimSpace(d.Git("rev-parse", "HEAD"))
			if got := d.Git("ls-remote", "origin"); strings.Contains(got, hash) {
				t.Errorf("the refused commit is in the repository:\n%s", got)
			}
		})
	}
	b.awaitPods(0)
}

func TestAMovedDirectoryNeedsAnID(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	d := b.clone(t, "desired.git")
	dir := "instances/move/" + b.namespace
	text := fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nstate: notInstantiated\nparams: {namespace: %[1]s}\n", b.namespace, plain)
	d.Write(dir+"/vnf.yaml", text)
	d.Push("Define it")
	d.Pull()
	d.Git("mv", dir, dir+"-moved")
	d.Commit("Move it")
	out, err := d.TryPush()
	if err == nil || !strings.Contains(out, dir) || !regexp.MustCompile(`id: [0-9a-f-]{36}`).MatchString(out) {
		t.Fatalf("the move without an id: %v\n%s", err, out)
	}
	id := regexp.MustCompile(`id: ([0-9a-f-]{36})`).FindStringSubmatch(out)[1]
	d.Write(dir+"-moved/vnf.yaml", "id: "+id+"\n"+text)
	d.Push("Move it, with its id")
	if got := b.idOf(b.namespace); got != id {
		t.Errorf("the id is %s after the move, was %s", got, id)
	}
}

func TestManyTerminationsNeedToBeSaid(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	d := b.clone(t, "desired.git")
	dir := "instances/many/" + b.namespace
	for i := range 11 {
		d.Write(fmt.Sprintf("%s/%d/vnf.yaml", dir, i), fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s, lcm-kubernetes-def-files: [Files/kubernetes/none.yaml]}\nstate: notInstantiated\n", b.namespace, plain))
	}
	d.Push("Eleven")
	d.Pull()
	d.Git("rm", "-r", "--quiet", dir)
	d.Commit("None")
	out, err := d.TryPush()
	if err == nil || !strings.Contains(out, "11 instances") || !strings.Contains(out, "git push -o terminate=11") {
		t.Fatalf("the push: %v\n%s", err, out)
	}
	if out, err := d.TryPush("terminate=11"); err != nil {
		t.Fatalf("the push that says so: %v\n%s", err, out)
	}
}

// section is the part of a plan that is about the directory.
func section(out, dir string) string {
	_, rest, found := strings.Cut(out, dir+": ")
	if !found {
		return ""
	}
	lines := strings.Split(rest, "\n")
	for i, l := range lines[1:] {
		if !strings.HasPrefix(l, " ") {
			return strings.Join(lines[:i+1], "\n")
		}
	}
	return rest
}
