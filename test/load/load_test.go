package load

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestOnlyRefusalsThatTheCallerExpectsPass(t *testing.T) {
	t.Parallel()
	status := http.StatusConflict
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	p := &Person{World: New(&process.Mortal{}, nil, "")}
	for _, c := range []struct {
		status int
		expect []int
		passes bool
	}{
		{http.StatusConflict, nil, true},
		{http.StatusNotFound, []int{http.StatusConflict}, false},
		{http.StatusBadRequest, nil, false},
		{http.StatusServiceUnavailable, nil, false},
		{http.StatusServiceUnavailable, []int{http.StatusServiceUnavailable}, true},
	} {
		status, p.Expect.Answers, p.unsure = c.status, c.expect, false
		_, err := p.Ask(t.Context(), &process.Server{URL: server.URL}, http.MethodPost, "instances/a", "/heal", nil, Request{What: "HEAL"})
		if (err == nil) != c.passes {
			t.Errorf("%d, where %v is expected: %v", c.status, c.expect, err)
		}
	}
}

func TestEndsThatAForgeBringsAtOnceAreAccepted(t *testing.T) {
	t.Parallel()
	files := map[string]string{"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n", "vims/sim.yaml": "type: sim\ndefault: true\n"}
	forge := process.NewForge(t, files)
	s := process.Start(t, filepath.Join(t.TempDir(), "data"), "--remote", "file://"+forge, "--poll", "1s")
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	people := process.NewWorkTree(t, forge)
	for _, name := range []string{"a", "b"} {
		files["instances/"+name+"/vnf.yaml"] = fmt.Sprintf("name: %s\nvnfdId: %s\nflavour: simple\nparams: {namespace: %[1]s, router: true}\n", name, process.SmallVnfd)
	}
	people.PushFiles(files)
	w := New(&process.Mortal{}, nil, forge)
	w.Servers.Serve(s)
	w.Expect.Held = true
	ended := func(want int) {
		t.Helper()
		kit.Eventually(t, func() error {
			operations, err := w.Occurrences(t.Context(), s, "(eq,operationState,COMPLETED)")
			if err == nil && len(operations) != want {
				err = fmt.Errorf("%d operations have ended, want %d", len(operations), want)
			}
			return err
		})
	}
	ended(2)

	people.PushFiles(map[string]string{"instances/a": "", "instances/b": ""})
	kit.Eventually(t, func() error {
		if err := w.Accept(t.Context()); err != nil || w.accepted == 0 {
			return fmt.Errorf("nothing was held and accepted: %w", err)
		}
		return nil
	})
	ended(4)

	if _, err := process.Git(t.Context(), forge, "update-ref", "refs/heads/main", "main~1"); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		if err := w.Accept(t.Context()); err == nil || !strings.Contains(err.Error(), "rewritten") {
			return fmt.Errorf("a branch that was set back is accepted: %w", err)
		}
		return nil
	})
}

func TestAPushThatIsRefusedIsAnError(t *testing.T) {
	t.Parallel()
	s := process.Start(t, filepath.Join(t.TempDir(), "data"))
	p := &Person{World: New(&process.Mortal{}, nil, s.Desired()), Rng: rand.New(rand.NewPCG(1, 1)), Clone: process.NewClone(t, s.Desired())}

	err := p.push(t.Context(), s, "instances/a", "Bring a", func([]byte) ([]byte, error) { return []byte("vnfdId: nothing\nlevels: 3\n"), nil })

	if err == nil || !strings.Contains(err.Error(), "jibe refuses this push") {
		t.Errorf("a push that is refused: %v", err)
	}
}
