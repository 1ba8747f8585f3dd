package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// burglar is somebody who may push, and would have more of the server's machine.
type burglar struct {
	*testing.T
	*server
	marker string
	// asked counts the requests that reach an endpoint of the burglar's.
	asked    atomic.Int32
	endpoint string
}

func newBurglar(t *testing.T) *burglar {
	b := &burglar{T: t, marker: filepath.Join(t.TempDir(), "marker")}
	s := httptest.NewTLSServer( // clients run commands for no other
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			b.asked.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}))
	t.Cleanup(s.Close)
	b.endpoint = s.URL
	return b
}

// conf is a kubeconfig that makes whoever uses it run a command.
func (b *burglar) conf() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: ["-c", "touch %s"], interactiveMode: Never}}}]
`, b.endpoint, b.marker)
}

// ran says whether the command of the kubeconfig was.
func (b *burglar) ran() error {
	if _, err := os.Stat(b.marker); err == nil {
		return nil
	}
	return errors.New("the command was not run")
}

// unharmed fails the test where the server did what it shouldn't.
func (b *burglar) unharmed() {
	b.Helper()
	if b.ran() == nil {
		b.Error("the command of the kubeconfig was run")
	}
	if n := b.asked.Load(); n != 0 {
		b.Errorf("%d requests reached the endpoint", n)
	}
}

// instance is a file that runs the package at the VIM.
func instanceAt(vim string) string {
	return fmt.Sprintf("name: x\nvnfdId: %s\nflavour: simple\nlevels: {web_aspect: 0}\nvim: %s\nparams: {namespace: default}\n", plain, vim)
}

func TestAPushThatWouldRunACommandOrReadAFileOfTheServerIsRefused(t *testing.T) {
	b := newBurglar(t)
	t.Setenv("JIBE_SECRET_CONF", b.conf())
	t.Setenv("OTHER_CONF", b.conf())
	data := filepath.Join(t.TempDir(), "data")
	b.server = serve(t, data)
	b.publishPlain(t)
	secrets := filepath.Join(data, "secrets")
	if err := os.WriteFile(filepath.Join(secrets, "conf"), []byte(b.conf()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../identity.age", filepath.Join(secrets, "link")); err != nil {
		t.Fatal(err)
	}
	command := []string{`vims/evil.yaml: "kubeconfig": users["u"].user.exec names a command that would be run`, "--allow-kubeconfig-exec"}
	token := func(ref string) string {
		return fmt.Sprintf("type: kubernetes\nendpoint: %s\ninsecure: true\ncredentials: {token: %q}\n", b.endpoint, ref)
	}
	kubeconfig := func(ref string) string { return "type: kubernetes\nkubeconfig: " + ref + "\n" }
	with := func(line string) map[string]string {
		return map[string]string{"vims/sim.yaml": "type: sim\n", "instances/evil/vnf.yaml": instanceAt("sim") + line}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"a command, encrypted":         {map[string]string{"vims/evil.yaml": kubeconfig(b.process.Encrypt(t, b.conf()))}, command},
		"a command, in a file":         {map[string]string{"vims/evil.yaml": kubeconfig("file:" + secrets + "/conf")}, command},
		"a command, in a variable":     {map[string]string{"vims/evil.yaml": kubeconfig("env:JIBE_SECRET_CONF")}, command},
		"a command, of what runs":      {map[string]string{"vims/evil.yaml": kubeconfig(b.process.Encrypt(t, b.conf())), "instances/evil/vnf.yaml": instanceAt("evil")}, command},
		"the key":                      {map[string]string{"vims/evil.yaml": token("file:" + data + "/identity.age")}, []string{`vims/evil.yaml: "credentials.token": the file ` + data + "/identity.age is outside", "put the secret into a file of"}},
		"the key, by dots":             {map[string]string{"vims/evil.yaml": token("file:" + secrets + "/../identity.age")}, []string{`"credentials.token"`, "is outside"}},
		"the key, by a link":           {map[string]string{"vims/evil.yaml": token("file:" + secrets + "/link")}, []string{`"credentials.token"`, "out of " + secrets + " by a symbolic link"}},
		"a file of the system":         {map[string]string{"vims/evil.yaml": token("file:/etc/passwd")}, []string{"the file /etc/passwd is outside", "--secret-dir /etc"}},
		"a variable":                   {map[string]string{"vims/evil.yaml": token("env:OTHER_CONF")}, []string{"the environment variable OTHER_CONF", "JIBE_SECRET_", "--secret-env OTHER_CONF"}},
		"a file, for a hook":           {with("metadata: {}\nupdate: {coordinate: {params: {note: 'file:/etc/passwd'}}}\n"), []string{"instances/evil/vnf.yaml:8", "update.coordinate.params.note", "the file /etc/passwd is outside"}},
		"a variable, for a hook":       {map[string]string{"vims/sim.yaml": "type: sim\n", "instances/evil/vnf.yaml": strings.Replace(instanceAt("sim"), "namespace: default", "namespace: default, list: ['env:HOME']", 1)}, []string{"instances/evil/vnf.yaml:6", "params.list[0]", "the environment variable HOME"}},
		"a token of a connection":      {with("vimConnectionInfo: {v: {vimType: kubernetes, interfaceInfo: {endpoint: 'https://x'}, accessInfo: {bearer_token: 'env:HOME'}}}\n"), []string{"vnf.yaml:7", "vimConnectionInfo.v.accessInfo.bearer_token"}},
		"a connection's kubeconfig":    {with("vimConnectionInfo: {v: {vimType: kubernetes, interfaceInfo: {endpoint: 'https://x'}, accessInfo: {kubeconfig: 'x'}}}\n"), []string{"vnf.yaml:7", "accessInfo.kubeconfig isn't taken"}},
		"a certificate's file of mTLS": {map[string]string{"vims/evil.yaml": fmt.Sprintf("type: kubernetes\nendpoint: %s\ninsecure: true\ncredentials: {clientCert: 'file:/c', clientKey: 'file:/k'}\n", b.endpoint)}, []string{`"credentials.clientCert"`, "the file /c is outside"}},
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
			if out, errs, code := b.cli(t, "validate", "--offline", d.Dir()); code != 0 {
				t.Errorf("jibe validate without the server, whose flags it can't know: exit code %d: %s%s", code, out, errs)
			}
			d.Commit("Something bad")
			out, err := d.TryPush()
			if err == nil {
				t.Fatalf("the push was accepted:\n%s", out)
			}
			t.Logf("\n%s", out)
			for _, w := range tt.says {
				if !strings.Contains(out, w) || !strings.Contains(validated, w) {
					t.Errorf("no %q in the refusal\n%s\nor in what jibe validate says\n%s", w, out, validated)
				}
			}
		})
	}
	b.unharmed()
}

// It is also what proves that the others would notice a command that is run.
func TestTheServersFlagsAllowWhatIsRefusedWithoutThem(t *testing.T) {
	b := newBurglar(t)
	t.Setenv("OTHER_CONF", b.conf())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.server = serve(t, filepath.Join(t.TempDir(), "data"), "--allow-kubeconfig-exec", "--secret-env", "OTHER_CONF", "--secret-dir", dir)
	b.publishPlain(t)
	d := b.clone(t, "desired.git")
	d.Write("vims/by-env.yaml", "type: kubernetes\nkubeconfig: env:OTHER_CONF\n")
	d.Write("vims/by-file.yaml", fmt.Sprintf("type: kubernetes\nendpoint: %s\ninsecure: true\ncredentials: {token: 'file:%s/token'}\n", b.endpoint, dir))
	d.Write("instances/a/vnf.yaml", instanceAt("by-env"))
	d.Write("instances/b/vnf.yaml", instanceAt("by-file"))
	d.Push("Use them")
	kit.Eventually(t, b.ran)
	kit.Eventually(t, func() error {
		if b.asked.Load() == 0 {
			return errors.New("no request reached the endpoint")
		}
		return nil
	})
}

func TestACommitOnAForgeNeverRunsTheCommandOfItsKubeconfigAndShowsTheProblem(t *testing.T) {
	b := newBurglar(t)
	forge := process.NewForge(t, map[string]string{
		"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n",
		"vims/good.yaml":    "type: sim\n",
	})
	d := process.NewWorkTree(t, forge)
	data := filepath.Join(process.ShortTempDir(t), "data")
	args := []string{"--remote", "file://" + forge, "--poll", "1s"}
	b.server = serve(t, data, args...)
	b.publishPlain(t)

	d.Write("vims/evil.yaml", "type: kubernetes\nkubeconfig: "+b.process.Encrypt(t, b.conf())+"\n")
	d.Write("vims/leak.yaml", fmt.Sprintf("type: kubernetes\nendpoint: %s\ninsecure: true\ncredentials: {token: 'file:%s/identity.age'}\n", b.endpoint, data))
	d.Write("instances/evil/vnf.yaml", instanceAt("evil"))
	d.Write("instances/leak/vnf.yaml", instanceAt("leak"))
	d.Write("instances/good/vnf.yaml", strings.Replace(instanceAt("good"), "namespace: default", "list: ['file:"+data+"/identity.age']", 1))
	d.Push("Something bad")
	for name, why := range map[string]string{
		"evil": `vims/evil.yaml: kubeconfig: users["u"].user.exec names a command that would be run`,
		"leak": "vims/leak.yaml: credentials.token: the file " + data + "/identity.age is outside",
	} {
		kit.Eventually(t, func() error {
			out, errs, _ := b.cli(t, "get", "operations", "-o", "json")
			if !strings.Contains(out, strings.ReplaceAll(why, `"`, `\"`)) || !strings.Contains(out, "ROLLED_BACK") {
				return fmt.Errorf("no operation of %s was refused with the reason: %s%s", name, out, errs)
			}
			return nil
		})
	}
	shown := func() {
		t.Helper()
		kit.Eventually(t, func() error { // what isn't obeyed is looked for each second
			out, errs, _ := b.cli(t, "get", "problems")
			for _, w := range []string{"params.list[0]: the file " + data + "/identity.age is outside", "vims/evil.yaml", `users["u"].user.exec`, "--allow-kubeconfig-exec", "vims/leak.yaml", `"credentials.token"`, "put the secret into a file of"} {
				if !strings.Contains(out, w) {
					return fmt.Errorf("no %q in jibe get problems:\n%s%s", w, out, errs)
				}
			}
			if a := b.rest(t, "GET", "/metrics", nil); !strings.Contains(string(a.Body), "\njibe_desired_problems 3\n") {
				return errors.New("the metrics don't count the problems")
			}
			if log := b.process.Log(); !strings.Contains(log, "a file is not obeyed") || !strings.Contains(log, "vims/evil.yaml") {
				return fmt.Errorf("the log doesn't tell:\n%s", log)
			}
			return nil
		})
	}
	shown()
	id := b.must(t, 201, "POST", instances, object{"vnfdId": plain}).object(t).text("id")
	a := b.must(t, 422, "POST", instances+"/"+id+"/instantiate", object{"flavourId": "simple", "vimConnectionInfo": object{"v": object{"vimId": "evil", "vimType": "kubernetes"}},
		"additionalParams": object{"namespace": "default", "lcm-kubernetes-def-files": []string{"Files/kubernetes/all.yaml"}}})
	if !strings.Contains(string(a.Body), "--allow-kubeconfig-exec") {
		t.Errorf("the API says %s", a.Body)
	}
	if err := b.process.Stop(); err != nil {
		t.Fatal(err)
	}
	b.server = serve(t, data, args...)
	shown()
	b.unharmed()
}

func TestADirectoryOfSecretsThatHoldsTheServersKeyIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for _, dir := range []string{data, filepath.Dir(data), "/"} {
		if out := fails(t, data, "--secret-dir", dir); !strings.Contains(out, "holds Jibe's own data directory") {
			t.Errorf("%s: %s", dir, out)
		}
	}
	if out := fails(t, data, "--secret-dir", data+"/none"); !strings.Contains(out, "no such file") {
		t.Error(out)
	}
}
