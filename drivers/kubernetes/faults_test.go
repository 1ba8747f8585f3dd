package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// ears count what a driver tells of instances.
type ears struct {
	mu    sync.Mutex
	heard map[string]int
}

func listen(t *testing.T, d *kubernetes.Driver) *ears {
	t.Helper()
	e := &ears{heard: map[string]int{}}
	go func() {
		_ = d.Watch(t.Context(), func(id string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.heard[id]++
		})
	}()
	return e
}

func (e *ears) of(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[id]
}

func (e *ears) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.heard)
}

// status answers as an API server does.
func status(w http.ResponseWriter, code int32, reason metav1.StatusReason) bool {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "injected: " + string(reason),
	})
	return true
}

func TestAVIMThatThrottlesIsObeyedAndServed(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	namespace := c.namespace(t)
	var mu sync.Mutex
	seen := map[string]int{} // what was asked, the watches of a kind as one
	throttled := map[string]bool{}
	fault := func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		watch := r.URL.Query().Get("watch") != ""
		ask := fmt.Sprint(r.Method, watch, r.URL.Path)
		if seen[ask]++; seen[ask] > 1 || !strings.HasPrefix(r.URL.Path, "/api/v1/") {
			return false
		}
		throttled[fmt.Sprint(r.Method, watch)] = true
		return status(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	}
	p.fault.Store(&fault)
	d := p.connect(t)
	src := sample.Source(uuid.NewString(), namespace, oneConfigMap, sample.Workloads(), nil)
	if o := converge(t, d, src, true); len(o.Objects) != 1 {
		t.Errorf("objects %+v", o.Objects)
	}
	converge(t, d, src, false)
	mu.Lock()
	defer mu.Unlock()
	for _, verb := range []string{"GETtrue", "PATCHfalse", "DELETEfalse"} {
		if !throttled[verb] {
			t.Errorf("nothing was throttled of %s: %v", verb, throttled)
		}
	}
}

// A watch whose version the server has forgotten, and a line that was cut while
// things happened: what is seen afterwards is what there is.
func TestNothingIsMissedWhenAWatchHasExpired(t *testing.T) {
	c := newCluster(t)
	for name, expired := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"410 as the answer": func(w http.ResponseWriter, _ *http.Request) bool {
			return status(w, http.StatusGone, metav1.StatusReasonExpired)
		},
		"410 in the stream": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`+"\n")
			return err == nil
		},
		"nothing but the cut": func(http.ResponseWriter, *http.Request) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t)
			d, api, namespace := p.connect(t), c.api(t), c.namespace(t)
			src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
			before := converge(t, d, src, true)
			p.cut.Store(true)
			p.server.CloseClientConnections()
			if err := api.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			scale(t, api, namespace, "front", 3)
			want, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}
			kit.Eventually(t, func() error {
				if _, err := d.Observe(t.Context(), want); !errors.Is(err, drivers.ErrUnavailable) {
					return fmt.Errorf("the loss isn't noticed: %s", fmt.Sprint(err))
				}
				return nil
			})
			var mu sync.Mutex
			told := map[string]bool{}
			fault := func(w http.ResponseWriter, r *http.Request) bool {
				q := r.URL.Query()
				mu.Lock()
				defer mu.Unlock()
				if q.Get("watch") == "" || q.Get("sendInitialEvents") == "true" || told[r.URL.Path] {
					return false
				}
				told[r.URL.Path] = true
				return expired(w, r)
			}
			p.fault.Store(&fault)
			p.cut.Store(false)
			kit.Eventually(t, func() error {
				o, err := d.Observe(t.Context(), want)
				if err != nil {
					return err
				}
				now := incarnations(o, everything)
				if now["ConfigMap/"+namespace+"/settings"] != "" || count(o, "VDU1") != 3 {
					return fmt.Errorf("still seen: %v, %d units", now, count(o, "VDU1"))
				}
				if key := "Deployment/" + namespace + "/front"; now[key] != incarnations(before, everything)[key] {
					return fmt.Errorf("%s isn't seen any more: %v", key, now)
				}
				return nil
			})
			converge(t, d, src, true)
			converge(t, d, src, false)
		})
	}
}

func TestEveryInstanceIsNotifiedOnceThatAVIMIsBack(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	d, namespace := p.connect(t), c.namespace(t)
	e := listen(t, d)
	runs := sample.Source(uuid.NewString(), namespace, oneConfigMap, sample.Workloads(), nil)
	other := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}", sample.Workloads(), nil)
	begins := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: begins}}", sample.Workloads(), nil)
	converge(t, d, runs, true)
	converge(t, d, other, true)
	p.cut.Store(true)
	p.server.CloseClientConnections()
	want, err := d.Render(begins)
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		if _, err := d.Observe(t.Context(), want); !errors.Is(err, drivers.ErrUnavailable) {
			return fmt.Errorf("the loss isn't noticed: %s", fmt.Sprint(err))
		}
		return nil
	})
	e.forget()
	p.cut.Store(false)
	kit.Eventually(t, func() error {
		for name, src := range map[string]drivers.Source{"with objects": runs, "that only asked": begins} {
			if e.of(src.Instance.ID) == 0 {
				return fmt.Errorf("no word to the instance %s", name)
			}
		}
		return nil
	})
	// Much happens at the VIM afterwards, and the instance that has nothing there hears nothing of it.
	converge(t, d, runs, false)
	converge(t, d, other, false)
	if n := e.of(begins.Instance.ID); n != 1 {
		t.Errorf("the instance that only asked was told %d times", n)
	}
}

func TestAVIMThatIsAwayFromTheStartNotifiesWhenItComes(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	var asked atomic.Bool
	away := func(w http.ResponseWriter, _ *http.Request) bool {
		asked.Store(true)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	p.fault.Store(&away)
	d, namespace := p.connect(t), c.namespace(t)
	e := listen(t, d)
	kit.Until(t, "those who listen to ask the VIM", asked.Load)
	src := sample.Source(uuid.NewString(), namespace, oneConfigMap, sample.Workloads(), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Observe(t.Context(), want); !errors.Is(err, drivers.ErrUnavailable) {
		t.Fatalf("Observe = %v, want ErrUnavailable", err)
	}
	p.fault.Store(nil)
	kit.Eventually(t, func() error {
		if e.of(src.Instance.ID) == 0 {
			return errors.New("no word")
		}
		return nil
	})
	converge(t, d, src, true)
	converge(t, d, src, false)
}

// plane is a control plane of a test's own, whose servers it may kill.
type plane struct{ *kubeenv.Plane }

func newPlane(t *testing.T) *plane {
	t.Helper()
	kubeenv.Kubeconfig(t) // where there is none, there are no binaries
	dir, err := os.MkdirTemp("", "jibe-faults-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &plane{kubeenv.StartPlane(t, filepath.Join(dir, "plane"), "--nodes", "1")}
}

func (p *plane) restart(t *testing.T, server string) {
	t.Helper()
	if err := p.Restart(t.Context(), server); err != nil {
		t.Error(err)
	}
}

// kill ends a server as a crash does.
func (p *plane) kill(t *testing.T, server string) {
	t.Helper()
	if err := p.Signal(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// compact makes the store forget all that was before now.
func (p *plane) compact(t *testing.T) {
	t.Helper()
	ports, err := os.ReadFile(filepath.Join(p.Dir, "ports"))
	if err != nil {
		t.Fatal(err)
	}
	etcd := "http://127.0.0.1:" + strings.Fields(string(ports))[0]
	ask := func(path, body string, answer any) {
		response, err := http.Post(etcd+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("etcd %s: %s, %v", path, response.Status, err)
		}
	}
	var now struct{ Header struct{ Revision string } }
	ask("/v3/kv/range", `{"key":"AA==","limit":"1"}`, &now)
	ask("/v3/kv/compaction", `{"revision":"`+now.Header.Revision+`","physical":true}`, &struct{}{})
}

func TestAnAPIServerThatDiesAndAStoreThatForgetsCostNothing(t *testing.T) {
	own := newPlane(t)
	c := &cluster{path: own.Kubeconfig()}
	content, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	c.kubeconfig = content
	api, err := clientset.NewForConfig(own.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	namespace := c.namespace(t)
	p := proxyOf(t, own.RestConfig(t))
	near, far := c.connect(t), p.connect(t) // far is behind a line that can be cut
	e := listen(t, near)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	converge(t, near, src, true)
	elsewhere := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere}}", sample.Workloads(), nil)
	converge(t, far, elsewhere, true)

	e.forget()
	own.kill(t, "kube-apiserver") // it is away until that was seen, however late
	settings := plan.Step{Action: plan.Apply, Object: "ConfigMap/" + namespace + "/settings"}
	kit.Eventually(t, func() error {
		if err := near.Do(t.Context(), rendering(t, near, src), settings); !errors.Is(err, drivers.ErrUnavailable) {
			return fmt.Errorf("Do = %s, want ErrUnavailable", fmt.Sprint(err))
		}
		return nil
	})
	own.restart(t, "kube-apiserver")
	kit.Eventually(t, func() error {
		if e.of(src.Instance.ID) == 0 {
			return errors.New("no word that the VIM is back")
		}
		return nil
	})
	if o := converge(t, near, src, true); count(o, "VDU1") != 1 {
		t.Errorf("units %+v", o.Units)
	}

	p.cut.Store(true)
	p.server.CloseClientConnections()
	if err := api.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "elsewhere", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	bigger := sample.Source(src.Instance.ID, namespace, sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 2})
	converge(t, near, bigger, true)
	own.compact(t)
	own.restart(t, "kube-apiserver") // whose memory of what was is gone, too
	p.cut.Store(false)
	want, err := far.Render(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		o, err := far.Observe(t.Context(), want)
		if err == nil && len(o.Objects) > 0 {
			return fmt.Errorf("what was deleted is still seen: %+v", o.Objects)
		}
		return err
	})
	converge(t, far, elsewhere, true)
	converge(t, near, bigger, true)
	converge(t, far, elsewhere, false)
	converge(t, near, src, false)
}
