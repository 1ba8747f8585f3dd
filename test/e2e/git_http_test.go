package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestClonesAndPushesOverHTTPNeedATokenAndAreValidated(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	at := strings.Replace(b.url, "http://", "http://jibe:"+b.token+"@", 1) + "/git/desired.git"
	d := process.WorkTreeAt(t, t.TempDir())
	d.Git("clone", "--quiet", at, d.Dir())
	file := "instances/http/" + b.namespace + "/vnf.yaml"
	d.Write(file, "vnfdId: "+plain+"\nflavour: grand\n")
	d.Commit("Bad")
	if out, err := d.TryPush(); err == nil || !strings.Contains(out, file+":2") {
		t.Errorf("a bad push over HTTP: %v\n%s", err, out)
	}
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s}\n", b.namespace, plain))
	d.Commit("Good")
	d.Git("reset", "--quiet", "--soft", "origin/main")
	d.Push("Run")
	b.awaitPods(1)
	for _, wrong := range []string{b.url, strings.Replace(b.url, "http://", "http://jibe:wrong-token-00000@", 1)} {
		if out, err := process.Git(t.Context(), d.Dir(), "ls-remote", wrong+"/git/desired.git"); err == nil {
			t.Errorf("%s lets in: %s", wrong, out)
		}
	}
	for _, path := range []string{"/git/store.db", "/git/tokens.yaml", "/git/desired.git/../tokens.yaml", "/git/identity.age"} {
		if a := b.rest(t, "GET", path, nil); a.Status == http.StatusOK {
			t.Errorf("%s is served: %d", path, a.Status)
		}
	}
}
