package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// wire is a way to the cluster that can be cut.
type wire struct {
	net.Listener
	to    string
	mu    sync.Mutex
	whole bool
	conns []net.Conn
}

func newWire(t *testing.T) *wire {
	t.Helper()
	api, err := url.Parse(testenv.RestConfig(t).Host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: api.Host}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.join(c)
		}
	}()
	t.Cleanup(func() { w.cut(); l.Close() })
	return w
}

func (w *wire) join(c net.Conn) {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	far, err := net.Dial("tcp", w.to)
	if err != nil || !whole {
		c.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, c, far)
	w.mu.Unlock()
	go func() { _, _ = io.Copy(far, c); far.Close() }()
	_, _ = io.Copy(c, far)
	c.Close()
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = true
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = false
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func TestAVIMThatIsAwayForAWhileDelaysAnOperationAndNoMore(t *testing.T) {
	b := newBench(t, usual)
	w := newWire(t)
	c := b.connection(b.account("jibe", "cluster-admin"))
	c["interfaceInfo"].(object)["endpoint"] = "https://" + w.Addr().String()
	body := b.request()
	body["vimConnectionInfo"] = object{"vim1": c}
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", body)
	if s := b.must(t, 200, "GET", path, nil).object(t).text("operationState"); s != "STARTING" {
		t.Errorf("without its VIM the operation is %s", s)
	}
	w.mend()
	pod := b.waiting()
	w.cut()
	b.bind(pod) // while nobody can see it
	b.awaitPods(1)
	w.mend()
	b.await(t, path, "COMPLETED")
	b.sameVNFCs(id)
}

func TestAMovedPackageBranchNeverChangesARunningVNF(t *testing.T) {
	b := newBench(t, usual)
	id := "e2e00000-0000-4000-8000-" + b.namespace[len(b.namespace)-8:] + "0000"
	publish := func(initial int) {
		t.Helper()
		d := b.clone(t, "packages/packages.git")
		if err := writePackage(d.Dir(), id, []vdu{{kind: "Deployment", name: "web", initial: initial}}); err != nil {
			t.Fatal(err)
		}
		before := d.Git("rev-parse", "HEAD:")
		d.Push("Publish")
		if before == d.Git("rev-parse", "HEAD:") {
			t.Fatal("the package didn't change")
		}
	}
	trees := func() string {
		out, _, _ := b.cli(t, "get", "packages")
		for line := range strings.SplitSeq(out, "\n") {
			if strings.HasPrefix(line, id) {
				return line
			}
		}
		return ""
	}
	publish(1)
	kit.Eventually(t, func() error {
		if trees() == "" {
			return fmt.Errorf("package %s isn't known", id)
		}
		return nil
	})
	old := trees()
	first := b.runs(id)
	b.awaitPods(1)
	publish(3)
	kit.Eventually(t, func() error {
		if trees() == old {
			return fmt.Errorf("the new version isn't known")
		}
		return nil
	})
	b.server.run(t, first, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.awaitPods(2) // 4 by the new version
	b.server.run(t, first, "terminate", object{"terminationType": "FORCEFUL"})
	b.runs(id)
	b.awaitPods(3)
}

func TestClonesAndPushesOverHTTPNeedATokenAndAreValidated(t *testing.T) {
	b := newBench(t, usual)
	at := strings.Replace(b.url, "http://", "http://jibe:"+b.token+"@", 1) + "/git/desired.git"
	d := process.DeskAt(t, t.TempDir())
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

func TestTheCLIControlsOperations(t *testing.T) {
	b := newBench(t, usual)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	b.waiting()
	op := strings.TrimPrefix(path, operations+"/")
	do := func(want int, says string, args ...string) {
		t.Helper()
		if out, errs, code := b.cli(t, args...); code != want || !strings.Contains(out+errs, says) {
			t.Errorf("jibe %s: %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
	}
	do(1, "409", "retry", op)
	do(0, "cancel asked for", "cancel", op, "--mode", "FORCEFUL")
	b.await(t, path, "FAILED_TEMP")
	do(0, "retry asked for", "retry", op)
	b.await(t, path, "PROCESSING")
	do(0, "cancel asked for", "cancel", op, "--mode", "FORCEFUL")
	b.await(t, path, "FAILED_TEMP")
	do(0, "cancelled on request", "get", "operation", op)
	do(0, "fail asked for", "fail", op)
	b.await(t, path, "FAILED")
	do(1, "404", "fail", "nothing")
}

func TestProbesAndMetricsNeedNoToken(t *testing.T) {
	b := newBench(t, usual)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": "jibe_"} {
		if a := b.must(t, 200, "GET", path, nil, "Authorization", "none"); !strings.Contains(string(a.Body), want) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	for _, path := range []string{process.Instances, "/jibe/v1/packages"} {
		b.must(t, 401, "GET", path, nil, "Authorization", "none")
	}
}
