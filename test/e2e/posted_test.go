package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// reviews is a way to the cluster on which the access reviews about others than Jibe itself
// are counted, and can be held up.
type reviews struct {
	server *httptest.Server
	mu     sync.Mutex
	passed map[string]int // by resource
	held   bool
	came   chan struct{} // gets one for each review that is held up
}

func newReviews(t *testing.T) *reviews {
	t.Helper()
	r := &reviews{passed: map[string]int{}, came: make(chan struct{}, 16)}
	forward := kubeenv.Forward(t, kubeenv.RestConfig(t))
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		what := path.Base(req.URL.Path)
		posts := req.Method == http.MethodPost && strings.HasSuffix(what, "subjectaccessreviews") && req.URL.Query().Get("dryRun") == ""
		if posts && !strings.HasPrefix(what, "self") && !r.pass(what) {
			_, _ = io.Copy(io.Discard, req.Body) // until then nobody notices that the line is cut
			r.came <- struct{}{}
			<-req.Context().Done() // whoever asked is gone
			return
		}
		forward.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

// pass counts a review, unless it is to be held up.
func (r *reviews) pass(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held {
		r.passed[what]++
	}
	return !r.held
}

func (r *reviews) hold(held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
}

// kubeconfig is the path of one that leads this way.
func (r *reviews) kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n", r.server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A process that is killed while it posts posts again, as nobody knows what became of it. One
// that is killed afterwards doesn't, and nothing of the instance's later life does.
func TestAReviewInAPackageIsPostedByItsInstantiationAlone(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	way := newReviews(t)
	data := filepath.Join(t.TempDir(), "data")
	first := serve(t, data)
	if err := first.equipFor(t.TempDir(), way.kubeconfig(t)); err != nil {
		t.Fatal(err)
	}
	b := benchAt(t, first, kubeenv.RestConfig(t), kubeconfig)
	posted := func(n int) {
		t.Helper()
		way.mu.Lock()
		defer way.mu.Unlock()
		want := map[string]int{"subjectaccessreviews": n, "localsubjectaccessreviews": n}
		if n == 0 {
			want = map[string]int{}
		}
		if !maps.Equal(way.passed, want) {
			t.Errorf("posted %v, want %v", way.passed, want)
		}
	}
	restart := func() {
		t.Helper()
		if err := syscall.Kill(b.process.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.server = serve(t, data)
	}
	way.hold(true)
	id := b.create(asking)
	operation := b.begin(t, id, "instantiate", b.request())
	for range 2 { // both, or the second would pass before the process dies
		<-way.came
	}
	posted(0)
	b.process.Kill() // it is gone before the way is free: what it asks once more would pass
	way.hold(false)
	b.server = serve(t, data)
	pod := b.waiting()
	kit.Eventually(t, func() error {
		way.mu.Lock()
		defer way.mu.Unlock()
		if len(way.passed) < 2 {
			return fmt.Errorf("posted %v", way.passed)
		}
		return nil
	})
	b.bind(pod)
	b.await(t, operation, "COMPLETED")
	posted(1)
	restart()
	b.undrifted(id)
	op := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.bind(b.waiting())
	b.await(t, op, "COMPLETED")
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
	posted(1)
	if history := b.history(t, id); len(history) != 3 {
		t.Errorf("operations: %v", history)
	}
}
