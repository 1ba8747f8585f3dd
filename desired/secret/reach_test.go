package secret_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

// reaching is a keeper whose references may name the files of a directory, and the variable
// JIBE_TEST_SECRET.
func reaching(t *testing.T, dir string) *secret.Keeper {
	t.Helper()
	k, err := open(t, t.TempDir()).With(secret.Reach{Dirs: []string{dir}, Env: []string{"JIBE_TEST_SECRET"}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// write makes a file and the directories above it.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// forbidden says whether the reference is refused for good, naming the reason.
func forbidden(t *testing.T, k *secret.Keeper, ref, why string) {
	t.Helper()
	clear, err := k.For(secret.ForVIMs()).Resolve(ref)
	no, ok := errors.AsType[*secret.ForbiddenError](err)
	if clear != "" || !ok || !strings.Contains(no.Reason, why) || no.Remedy == "" {
		t.Errorf("%s: %q, %v, want %s", ref, clear, err, why)
	}
}

func TestAFileReferenceReachesNothingOutsideOfTheSecretDirs(t *testing.T) {
	data := t.TempDir()
	k := open(t, data)
	own := filepath.Join(data, secret.DefaultDir)
	good := write(t, own+"/token", "tok\n")
	write(t, own+"/below/token", "deep")
	write(t, data+"/tokens.yaml", "root-token")
	elsewhere := t.TempDir()
	foreign := write(t, elsewhere+"/key", "foreign")
	link(t, "../tokens.yaml", own+"/up")
	link(t, foreign, own+"/away")
	link(t, elsewhere, own+"/dir")
	link(t, good, own+"/absolute")
	link(t, "below", own+"/inside")
	link(t, "loop", own+"/loop")

	for ref, want := range map[string]string{good: "tok", own + "/below/token": "deep", own + "/below/../token": "tok", own + "/inside/token": "deep", "/" + good: "tok"} {
		if got, err := k.For(secret.ForVIMs()).Resolve("file:" + ref); err != nil || got != want {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
		if err := k.Permit("file:" + ref); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, ref := range []string{data + "/tokens.yaml", data + "/identity.age", own + "/../tokens.yaml", own + "/below/../../tokens.yaml", own + "s/token",
		foreign, "/proc/self/environ", "//", own + "/../../../../../../etc/passwd"} {
		forbidden(t, k, "file:"+ref, "is outside of what references may name, "+own)
		if err := k.Permit("file:" + ref); err == nil {
			t.Errorf("%s is permitted", ref)
		}
	}
	for _, name := range []string{"up", "away", "dir/key", "absolute"} {
		forbidden(t, k, "file:"+own+"/"+name, "leads out of "+own+" by a symbolic link")
	}
	for _, name := range []string{"none", "loop", "below", ""} {
		if _, err := k.For(secret.ForVIMs()).Resolve("file:" + own + "/" + name); !errors.Is(err, secret.ErrMissing) {
			t.Errorf("%q: %v", name, err)
		}
	}

	two, err := k.With(secret.Reach{Dirs: []string{elsewhere, filepath.Join(own, "below")}})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{foreign: "foreign", own + "/below/token": "deep"} {
		if got, err := two.For(secret.ForVIMs()).Resolve("file:" + ref); err != nil || got != want {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	forbidden(t, two, "file:"+good, "is outside") // the default holds only where no other is given
}

func TestWhatTheRefusalOfAFileAdvisesNeverGivesJibesOwnFilesAway(t *testing.T) {
	data := filepath.Join(t.TempDir(), "jibe")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	k := open(t, data)
	for ref, want := range map[string]bool{"/etc/jibe/kubeconfig": true, data + "/identity.age": false, data + "/x/y": false, filepath.Dir(data) + "/x": false, "/x": false} {
		_, err := k.For(secret.ForVIMs()).Resolve("file:" + ref)
		if err == nil || strings.Contains(err.Error(), "--secret-dir "+filepath.Dir(ref)) != want {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestAnEnvReferenceReachesOnlyVariablesThatAreForIt(t *testing.T) {
	k, err := open(t, t.TempDir()).With(secret.Reach{Env: []string{"OS_PASSWORD"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"JIBE_SECRET_A", "OS_PASSWORD", "OS_PASSWORD_2", "JIBE_SECRET_", "jibe_secret_a", "XJIBE_SECRET_A", "JIBE_TOKEN"} {
		t.Setenv(name, "value")
	}
	for _, name := range []string{"JIBE_SECRET_A", "OS_PASSWORD"} {
		if got, err := k.For(secret.ForVIMs()).Resolve("env:" + name); err != nil || got != "value" || k.Permit("env:"+name) != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"OS_PASSWORD_2", "JIBE_SECRET_", "jibe_secret_a", "XJIBE_SECRET_A", "JIBE_TOKEN", "PATH"} {
		forbidden(t, k, "env:"+name, "the environment variable "+name+" isn't one")
		if err := k.Permit("env:" + name); err == nil || !strings.Contains(err.Error(), "--secret-env "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADirectoryOfSecretsThatIsNoneOrHoldsTheKeyIsRefused(t *testing.T) {
	above := t.TempDir()
	data := filepath.Join(above, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	k := open(t, data)
	file := write(t, above+"/file", "x")
	for dir, want := range map[string]string{
		data: "holds Jibe's own data directory", above: "holds Jibe's own", "/": "holds Jibe's own", link(t, data, above+"/link"): "holds Jibe's own",
		above + "/none": "no such file", file: "isn't a directory",
	} {
		if _, err := k.With(secret.Reach{Dirs: []string{dir}}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--secret-dir") {
			t.Errorf("%s: %v, want %s", dir, err, want)
		}
	}
	if _, err := k.With(secret.Reach{Env: []string{"A=B"}}); err == nil || !strings.Contains(err.Error(), "--secret-env") {
		t.Errorf("%v", err)
	}
}

func TestAKubeconfigThatNamesACommandIsRefusedWhateverReferenceHoldsIt(t *testing.T) {
	const conf = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://h'}}]\nusers: [{name: u, user: {exec: {command: id, apiVersion: client.authentication.k8s.io/v1}}}]\n"
	data := t.TempDir()
	k := open(t, data)
	sealed, err := k.For(secret.ForVIMs()).Encrypt(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("JIBE_SECRET_CONF", conf)
	allowed, err := k.With(secret.Reach{KubeconfigExec: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file:" + write(t, filepath.Join(data, secret.DefaultDir, "conf"), conf), "env:JIBE_SECRET_CONF", sealed} {
		vim := &desired.VIM{Name: "a", Type: desired.VIMKubernetes, Kubeconfig: ref}
		_, err := k.ResolveVIM(vim)
		no, ok := errors.AsType[*secret.ForbiddenError](err)
		if !ok || no.Field != "kubeconfig" || !strings.Contains(no.Reason, `users["u"].user.exec names a command`) || !strings.Contains(no.Remedy, "--allow-kubeconfig-exec") {
			t.Errorf("%.8s: %v", ref, err)
		}
		if v, err := allowed.ResolveVIM(vim); err != nil || len(v.Kubeconfig) == 0 {
			t.Errorf("%.8s, allowed: %v", ref, err)
		}
	}
}

func TestACertificateThatACloudsFileNamesIsHeldToTheSecretDirs(t *testing.T) {
	data := t.TempDir()
	k := open(t, data)
	clouds := write(t, filepath.Join(data, secret.DefaultDir, "clouds.yaml"), "clouds: {a: {cacert: "+data+"/identity.age, auth: {auth_url: 'https://k', username: u, password: p, project_name: p}}}\n")
	_, err := k.ResolveVIM(&desired.VIM{Name: "a", Type: desired.VIMOpenStack, Clouds: "file:" + clouds, Cloud: "a"})
	if no, ok := errors.AsType[*secret.ForbiddenError](err); !ok || no.Field != "cacert of cloud a" {
		t.Errorf("%v", err)
	}
}
