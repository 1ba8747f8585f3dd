package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// history is what a replica shows of all operations, by id.
func history(t *testing.T, s *process.Server) map[string]string {
	t.Helper()
	all, err := process.All[process.Operation](t.Context(), s, process.Operations)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, op := range all {
		out[op.ID] = fmt.Sprint(op.Type, " ", op.State, " of ", op.Instance, " automatic ", op.Automatic)
	}
	return out
}

// remembers waits a while until a replica shows these operations again, and has gone on to do so: just after a
// store went back it still shows what it has read before.
func remembers(t *testing.T, s *process.Server, want map[string]string) {
	t.Helper()
	kit.Eventually(t, func() error {
		for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); kit.Pause(t.Context(), 100*time.Millisecond) {
			if have := history(t, s); !maps.Equal(have, want) {
				return fmt.Errorf("operations are %v, want %v", have, want)
			}
		}
		return nil
	})
}

// lived takes instances through their lives: one by pushes alone, and one by requests that is scaled, healed,
// and another one that has ended.
func (r *together) lived(s *process.Server) (pushed, asked string) {
	r.Helper()
	pushed = r.create(s, 1)[0]
	small := process.SmallVnfd
	made := func(namespace string) string {
		id := s.Want(r, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": small}, nil).ID()
		s.Await(r, r.asks(s, id, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": namespace}}), "COMPLETED")
		return id
	}
	asked = made("a")
	s.Await(r, r.scale(s, asked), "COMPLETED")
	r.runs(s, asked, 2)
	s.Await(r, r.asks(s, asked, "heal", map[string]any{"cause": "it is  hot"}), "COMPLETED")
	r.runs(s, asked, 2)
	gone := made("b")
	s.Await(r, r.asks(s, gone, "terminate", map[string]any{"terminationType": "FORCEFUL"}), "COMPLETED")
	kit.Eventually(r, func() error {
		a, err := s.Do(r.Context(), http.MethodDelete, process.Instances+"/"+gone, nil)
		if err == nil && a.Status != http.StatusNoContent {
			err = fmt.Errorf("delete: %d %s", a.Status, a.Body)
		}
		return err
	})
	r.work.Pull()
	file := filepath.Join("instances", "n0", "vnf.yaml")
	r.work.WriteFiles(map[string]string{file: r.work.Read(file) + "levels: {front: 1}\n"})
	r.work.Push("Scale out")
	r.poke(s)
	r.runs(s, pushed, 2)
	return pushed, asked
}

// asks begins an operation and returns its id. What isn't accepted yet is asked for again.
func (r *together) asks(s *process.Server, id, task string, body any) (op string) {
	r.Helper()
	kit.Eventually(r, func() error {
		a, err := s.Do(r.Context(), http.MethodPost, process.Instances+"/"+id+"/"+task, body)
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("%s: %d %s", task, a.Status, a.Body)
		}
		if err == nil {
			op = a.ID()
		}
		return err
	})
	return op
}

func units(t *testing.T, s *process.Server, id string) (out []string) {
	t.Helper()
	var in shown
	if err := s.Get(t.Context(), process.Instances+"/"+id, &in); err != nil {
		t.Fatal(err)
	}
	for _, u := range in.Info.Units {
		out = append(out, u.ID)
	}
	slices.Sort(out)
	return out
}

func TestAnEmptiedStoreIsRebuiltFromGitAndNoVNFNotices(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 2)
	pushed, asked := r.lived(s[0])
	before, calls := history(t, s[0]), r.cloud.Calls().VIM()
	if len(before) != 7 {
		t.Fatalf("%d operations: %v", len(before), before)
	}
	were := map[string][]string{pushed: units(t, s[0], pushed), asked: units(t, s[0], asked)}
	if err := r.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, one := range s {
		remembers(t, one, before)
		for id, want := range were {
			if have := units(t, one, id); !slices.Equal(have, want) {
				t.Errorf("units of %s are %v, were %v", id, have, want)
			}
		}
	}
	if n := r.cloud.Calls().VIM(); n != calls {
		t.Errorf("the VIM was called %d times after the store was emptied", n-calls)
	}
	for _, id := range []string{pushed, asked} {
		s[1].Await(t, r.scale(s[1], id), "COMPLETED")
		r.runs(s[0], id, 3)
	}
	var text strings.Builder
	for id, what := range history(t, s[1]) {
		if before[id] == "" {
			text.WriteString(strings.Fields(what)[0])
		}
	}
	if text.String() != "SCALESCALE" {
		t.Errorf("since then there were %s", text.String())
	}
}

func TestThatAnInstanceWasCreatedIsToldOnceAlsoWhereTheStoreWasEmptiedSince(t *testing.T) {
	r, s := newReplicas(t, 2)
	id := s[0].Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil).ID()
	if err := r.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		a, err := s[1].Do(t.Context(), http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": "http://127.0.0.1:1/nobody"})
		if err == nil && a.Status == http.StatusServiceUnavailable {
			err = fmt.Errorf("subscribe: %d: %s", a.Status, a.Body)
		}
		return err
	})
	h, _ := listen(t, s[1])
	s[1].Await(t, r.asks(s[1], id, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": "a"}}), "COMPLETED")
	h.tells(t, id, "INSTANTIATE STARTING, INSTANTIATE PROCESSING, INSTANTIATE COMPLETED")
}

// hooked is one server whose records are in a file, or in Redis, with a package whose hooks for scaling say in a file that
// they run, and wait while another one is there.
type hooked struct {
	*process.Server
	t     *testing.T
	cloud *sim.Cloud
	stop  func()
	dir   string              // of these files
	redis *redisserver.Server // nil for a file
	ended chan error          // of a server with Redis
}

func newHooked(t *testing.T, redis *redisserver.Server) *hooked {
	t.Helper()
	dir, err := os.MkdirTemp("", "hooked") // which the hooks' user may write
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &hooked{t: t, cloud: sim.NewCloud(), dir: dir, redis: redis}
	h.start(t.TempDir())
	t.Cleanup(func() { h.stop() })
	small := filepath.Join(t.TempDir(), "small")
	if err := os.CopyFS(small, os.DirFS(process.SmallPackage())); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\ninput=$(cat)\nnamed() { case \"$input\" in *\"$1\"*) echo $1;; esac; }\nhook=$(named scale_start)$(named scale_end)\n" +
		"interrupted=; case $(printf %s \"$input\" | tr -d ' ') in *'\"interrupted\":true'*) interrupted=' interrupted';; esac\n" +
		"echo \"$hook$interrupted\" >> " + dir + "/log\nwhile [ -e " + dir + "/$hook ]; do sleep 0.1; done\n"
	if err := os.WriteFile(filepath.Join(small, "Files", "hook.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(small, "Definitions", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const node, hook = "      type: examples.small.VNF\n      properties:\n        flavour_description", "{implementation: ../Files/hook.sh}"
		next := strings.Replace(string(text), node, "      interfaces: {Vnflcm: {scale_start: "+hook+", scale_end: "+hook+"}}\n"+node, 1)
		if err := os.WriteFile(file, []byte(next), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	packagesOf(t, h.Server).CopyTree("Add the package", "small", small, nil)
	change(desiredOf(t, h.Server), map[string]string{
		"repositories.yaml": "- {name: small, url: packages.git, path: small, branch: main, hooks: true}\n",
		"vims/cloud.yaml":   "type: sim\ndefault: true\n",
	})
	return h
}

func (h *hooked) start(data string) {
	h.t.Helper()
	o := app.Options{Data: data, Cloud: h.cloud, Confinement: hooks.Confinement{Unconfined: true}, Log: slog.New(slog.NewTextHandler(h.t.Output(), nil))}
	if err := o.AllowHooks.Set("small"); err != nil {
		h.t.Fatal(err)
	}
	if h.redis == nil {
		h.Server, h.stop = startWith(h.t, o)
		return
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Listen, o.Branch, o.Store = "127.0.0.1:0", "main", replicas.StoreOptions{URL: h.redis.URL()}
	o.Ready = func(s *app.Server) { ready <- s.Address() }
	go func() { ended <- app.Run(ctx, o) }()
	h.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the end of the server: %v", err)
		}
	}
	h.ended = ended
	select {
	case err := <-ended:
		cancel()
		h.t.Fatal(err)
	case address := <-ready:
		token, err := auth.LocalToken(datadir.TokensFile(data))
		if err != nil {
			h.t.Fatal(err)
		}
		h.Server = &process.Server{URL: "http://" + address, Data: data, Token: token}
	}
}

// block has the hook wait from now on, and let go on.
func (h *hooked) block(hook string, wait bool) {
	h.t.Helper()
	file := filepath.Join(h.dir, hook)
	err := os.Remove(file)
	if wait {
		err = os.WriteFile(file, nil, 0o644)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// ran waits until the hooks have run that often, and returns the runs.
func (h *hooked) ran(n int) (runs []string) {
	h.t.Helper()
	kit.Eventually(h.t, func() error {
		text, err := os.ReadFile(filepath.Join(h.dir, "log"))
		if runs = strings.FieldsFunc(string(text), func(c rune) bool { return c == '\n' }); len(runs) < n {
			return fmt.Errorf("the hooks that ran are %q, want %d: %w", runs, n, err)
		}
		return nil
	})
	return runs
}

// lose ends the server, removes its records and starts it again. One whose Redis is emptied while it works
// ends by itself.
func (h *hooked) lose(meanwhile func()) {
	h.t.Helper()
	if h.redis != nil {
		if err := h.redis.Client(h.t).FlushAll(h.t.Context()).Err(); err != nil {
			h.t.Fatal(err)
		}
		if err := <-h.ended; err == nil || !strings.Contains(err.Error(), "start it again") {
			h.t.Fatalf("the server whose Redis was emptied ends with %v", err)
		}
		meanwhile()
		h.start(h.Data)
		return
	}
	h.stop()
	meanwhile()
	if err := os.Remove(filepath.Join(h.Data, "store.db")); err != nil {
		h.t.Fatal(err)
	}
	h.start(h.Data)
}

func TestAnOperationWhoseRecordIsLostEndsUnderTheSameIDAndRepeatsNoHookOfWhatIsDone(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	t.Run("file", func(t *testing.T) { operationsWhoseRecordsAreLost(t, newHooked(t, nil)) })
	t.Run("Redis", func(t *testing.T) { operationsWhoseRecordsAreLost(t, newHooked(t, redisserver.Start(t))) })
}

func operationsWhoseRecordsAreLost(t *testing.T, h *hooked) {
	r := &together{T: t}
	id := h.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil).ID()
	h.Await(t, r.asks(h.Server, id, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": "a"}}), "COMPLETED")

	// All is done but for the last hook: nobody knows whether it has ended.
	h.block("scale_end", true)
	op := r.asks(h.Server, id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
	want := h.ran(2)
	calls := h.cloud.Calls().VIM()
	h.lose(func() {})
	h.block("scale_end", false)
	if got := h.Await(t, op, "COMPLETED"); got.Type != "SCALE" || got.Instance != id {
		t.Errorf("the operation is now %+v", got)
	}
	if have := h.ran(2); !slices.Equal(have, want) {
		t.Errorf("the hooks that ran are %q, were %q", have, want)
	}
	if n := h.cloud.Calls().VIM(); n != calls {
		t.Errorf("the VIM was called %d times for what was done", n-calls)
	}

	// Nothing is done yet: the hook runs again, and is told that it may have begun before.
	h.block("scale_start", true)
	op = r.asks(h.Server, id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
	want = h.ran(3)
	h.lose(func() {})
	h.block("scale_start", false)
	h.Await(t, op, "COMPLETED")
	if have := h.ran(5); !slices.Equal(have, append(want, "scale_start interrupted", "scale_end interrupted")) {
		t.Errorf("the hooks that ran are %q", have)
	}
	r.runs(h.Server, id, 3)
	if n := len(history(t, h.Server)); n != 3 {
		t.Errorf("%d operations: %v", n, history(t, h.Server))
	}

	// Somebody removes the VNF while nobody can carry that out, nor remember it.
	h.lose(func() {
		change(desiredOf(t, h.Server), map[string]string{"instances": ""})
	})
	kit.Eventually(t, func() error {
		if left := h.cloud.Instances(); len(left) > 0 {
			return fmt.Errorf("%v still runs", left)
		}
		for _, what := range history(t, h.Server) {
			if strings.HasPrefix(what, "TERMINATE COMPLETED") {
				return nil
			}
		}
		return fmt.Errorf("the operations are %v", history(t, h.Server))
	})
}

func TestAStoreThatWentBackIsBroughtUpToWhatGitSays(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 2)
	_, asked := r.lived(s[0])
	old := r.redis.Keep(t)
	s[0].Await(t, r.scale(s[0], asked), "COMPLETED")
	r.runs(s[0], asked, 3)
	s[0].Await(t, r.asks(s[0], asked, "heal", map[string]any{"cause": "again"}), "COMPLETED")
	r.runs(s[0], asked, 3)
	young := r.create(s[0], 2)[1]
	want, healed, calls := history(t, s[0]), units(t, s[0], asked), r.cloud.Calls().VIM()
	r.redis.Kill()
	r.redis.Restore(t, old)
	r.redis.Start(t)
	for _, one := range s {
		remembers(t, one, want)
	}
	if have := units(t, s[0], asked); !slices.Equal(have, healed) {
		t.Errorf("units are %v, were %v", have, healed)
	}
	if n := r.cloud.Calls().VIM(); n != calls {
		t.Errorf("the VIM was called %d times after the store went back", n-calls)
	}
	for _, id := range []string{asked, young} {
		s[1].Await(t, r.scale(s[1], id), "COMPLETED")
	}
	r.runs(s[0], asked, 4)
}

func TestAnOperationUnderWayOutlivesAnEmptiedStore(t *testing.T) {
	r, s := newReplicas(t, 2)
	pushed := r.create(s[0], 1)[0]
	r.cloud.SetLatency(4 * time.Second)
	scales := r.cloud.Calls().Scales
	op := r.scale(s[0], pushed)
	kit.Eventually(t, func() error {
		if n := r.cloud.Calls().Scales; n == scales {
			return fmt.Errorf("the VIM was called %d times", n)
		}
		return nil
	})
	if err := r.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { // whose end is seen before it is rebuilt is gone for a moment
		var o process.Operation
		return s[1].Get(t.Context(), process.Operations+"/"+op, &o)
	})
	s[1].Await(t, op, "COMPLETED")
	r.runs(s[1], pushed, 2)
	if n := r.cloud.Calls().Scales - scales; n != 1 {
		t.Errorf("it was scaled %d times", n)
	}
	kit.Eventually(t, func() error { // the other one has to have read them anew, too
		if have := history(t, s[0]); len(have) != 2 {
			return fmt.Errorf("the operations are %v", have)
		}
		return nil
	})
}
