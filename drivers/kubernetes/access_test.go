package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// access is the kubeconfig that programs get, as a value and as text.
func access(t *testing.T, vim drivers.VIM) (map[string]any, []byte) {
	t.Helper()
	files, err := (&Driver{vim: vim}).Access()
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(files["KUBECONFIG"], &config); err != nil || len(files) != 1 {
		t.Fatalf("%v: %s", err, files)
	}
	return config, files["KUBECONFIG"]
}

// only is the one element of a list in a kubeconfig, by the name of what it holds.
func only(t *testing.T, config map[string]any, list, of string) map[string]any {
	t.Helper()
	all, _ := config[list].([]any)
	if len(all) != 1 {
		t.Fatalf("%s: %v", list, config[list])
	}
	return all[0].(map[string]any)[of].(map[string]any)
}

func TestHooksGetTheConnectionAsAKubeconfigInJSON(t *testing.T) {
	config, text := access(t, drivers.VIM{Name: "a", Endpoint: "https://10.0.0.1:6443", CACert: []byte("a certificate"), Token: "12345"})
	cluster, user := only(t, config, "clusters", "cluster"), only(t, config, "users", "user")
	if cluster["server"] != "https://10.0.0.1:6443" || cluster["certificate-authority-data"] != base64.StdEncoding.EncodeToString([]byte("a certificate")) || user["token"] != "12345" {
		t.Errorf("kubeconfig %s", text)
	}
	loaded, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.CurrentContext == "" || loaded.AuthInfos["vim"].Token != "12345" || string(loaded.Clusters["vim"].CertificateAuthorityData) != "a certificate" {
		t.Errorf("a client reads %+v", loaded)
	}
	config, _ = access(t, drivers.VIM{Name: "a", Endpoint: "https://x", CACert: []byte("c"), Insecure: true, Username: "u", Password: "p"})
	cluster, user = only(t, config, "clusters", "cluster"), only(t, config, "users", "user")
	if cluster["insecure-skip-tls-verify"] != true || cluster["certificate-authority-data"] != nil || user["username"] != "u" || user["password"] != "p" {
		t.Errorf("insecure: %v %v", cluster, user)
	}
}

func TestFilesThatAKubeconfigNamesAreHandedOverWithIt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca", "cert", "key", "token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("the "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vim := drivers.VIM{Name: "a"}
	vim.Kubeconfig = fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: here, user: me, namespace: amf}}
- {name: there, context: {cluster: there, user: other}}
clusters:
- {name: here, cluster: {server: "https://here", certificate-authority: %[1]s/ca}}
- {name: there, cluster: {server: "https://there"}}
users:
- {name: me, user: {client-certificate: %[1]s/cert, client-key: %[1]s/key, token: old, tokenFile: %[1]s/token}}
- {name: other, user: {token: not-yours}}
`, dir)
	_, text := access(t, vim)
	loaded, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	me := loaded.AuthInfos["me"]
	if string(me.ClientCertificateData) != "the cert\n" || string(me.ClientKeyData) != "the key\n" || me.Token != "the token" ||
		string(loaded.Clusters["here"].CertificateAuthorityData) != "the ca\n" || loaded.Contexts["here"].Namespace != "amf" {
		t.Errorf("kubeconfig %s", text)
	}
	for _, other := range []string{dir, "there", "not-yours"} {
		if strings.Contains(string(text), other) {
			t.Errorf("%q is handed over: %s", other, text)
		}
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Driver{vim: vim}).Access(); err == nil || !strings.Contains(err.Error(), "VIM a: kubeconfig for a hook") {
		t.Errorf("error %v", err)
	}
}

func TestAHookReachesTheClusterWithWhatItGets(t *testing.T) {
	kubeenv.RestConfig(t) // skips where there is no cluster
	kubeconfig, err := os.ReadFile(os.Getenv("JIBE_TEST_KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	_, text := access(t, drivers.VIM{Name: "a", Kubeconfig: kubeconfig})
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	api, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestNoHookGetsTheTokenOfJibesOwnPod(t *testing.T) {
	t.Parallel()
	d := &Driver{vim: drivers.VIM{Name: "local", Endpoint: "https://10.96.0.1:443", Token: "of the pod", InCluster: true}}
	for name, b := range map[string]*drivers.Bounds{"nothing bounds it": nil, "a project without an account": {Project: "core"}} {
		files, err := drivers.AccessFor(t.Context(), d, b, time.Minute)
		if _, refused := errors.AsType[*drivers.RefusedError](err); !refused || files != nil || !strings.Contains(err.Error(), "impersonate") {
			t.Errorf("%s: %v, %d files", name, err, len(files))
		}
	}

	d.vim.InCluster = false
	if files, err := drivers.AccessFor(t.Context(), d, nil, time.Minute); err != nil || len(files) != 1 {
		t.Errorf("at another cluster: %v", err)
	}
}
