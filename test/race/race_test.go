// Package race lets clients of the API and people with git write to one server at once,
// to the same files of the same instances, and proves that no write that was
// acknowledged is lost or doubled. It uses the real binary, git and store; the VIM is
// the one in the server's memory, as only the writing is looked at.
//
// JIBE_RACE_SECONDS is how long they write (10). Where the test itself is built with
// -race, so is the server, and a data race in it fails the test.
package race_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// shared is the number of instances that everyone writes to.
	shared = 3
	// clients is the number of writers of each kind.
	clients = 3
	// settleWait bounds how long the last operations may take.
	settleWait = 5 * time.Minute
)

func TestNoWriteIsLostBetweenAPIAndGit(t *testing.T) {
	limit := time.Duration(process.Number(t, "JIBE_RACE_SECONDS", 10)) * time.Second
	var flags []string
	if kit.RaceDetector {
		flags = []string{"-race"}
	}
	server, err := process.StartBinary(process.Binary(t, flags...), filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	server.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	files := map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"}
	for i := range shared {
		files[sharedDir(i)+"/vnf.yaml"] = fmt.Sprintf(`# Everyone writes here.
vnfdId: %s
flavour: simple
levels: {front: 1}
params:
  lcm-kubernetes-def-files: [%s]
`, process.SmallVnfd, strings.Join(process.SmallManifests(), ", "))
	}
	server.PushFiles(t, files)

	w := &world{t: t, Server: server}
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	var writers sync.WaitGroup
	for i := range clients {
		for _, write := range []func(context.Context, int){w.creator, w.modifier, w.scaler} {
			writers.Go(func() { write(ctx, i) })
		}
		// Half of those with git use the path, the others the URL.
		remote := []string{server.Desired(), server.DesiredURL()}[i%2]
		bringer, editor := process.NewClone(t, remote), process.NewClone(t, remote)
		writers.Go(func() { w.bringer(ctx, i, bringer) })
		writers.Go(func() { w.editor(ctx, i, editor, remote) })
	}
	writers.Wait()

	w.settle()
	w.check()
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if log := server.Log(); strings.Contains(log, "DATA RACE") {
		t.Errorf("the server has a data race:\n%s", log)
	}
	if t.Failed() {
		t.Logf("the end of the server's log:\n%s", server.Log())
	}
}

func sharedDir(i int) string { return fmt.Sprintf("instances/shared/%d", i) }

// world is the server and what it has acknowledged.
type world struct {
	*process.Server
	t *testing.T

	mu sync.Mutex
	// operations are those that the API began; commits the hashes of accepted pushes;
	// subjects those of commits that must be there once.
	operations, commits, subjects []string
	// content is what must stand in the final files: dir -> what.
	content map[string][]expectation
	// retried counts refusals and lost races of pushes, by writer: without them nothing
	// was contended.
	retried map[string]int
}

// expectation is something that an acknowledged write has put into an instance.
type expectation struct {
	what  string
	holds func(*desired.Instance) bool
}

// acknowledged keeps what must be found at the end. operation, commit and subject may
// be "", holds nil.
func (w *world) acknowledged(operation, commit, subject, dir, what string, holds func(*desired.Instance) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for list, text := range map[*[]string]string{&w.operations: operation, &w.commits: commit, &w.subjects: subject} {
		if text != "" {
			*list = append(*list, text)
		}
	}
	if holds != nil {
		if w.content == nil {
			w.content = map[string][]expectation{}
		}
		w.content[dir] = append(w.content[dir], expectation{what, holds})
	}
}

func (w *world) retry(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retried == nil {
		w.retried = map[string]int{}
	}
	w.retried[who]++
}

// settle waits until every operation has ended well.
func (w *world) settle() {
	w.t.Helper()
	err := kit.Poll(w.t.Context(), settleWait, func() error {
		operations, err := process.All[process.Operation](w.t.Context(), w.Server, process.Operations)
		if err != nil {
			return err
		}
		for _, op := range operations {
			if op.State != "COMPLETED" {
				return fmt.Errorf("%s %s of instance %s is %s: %s", op.Type, op.ID, op.Instance, op.State, op.Error.Detail)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}

// check compares the repository with what was acknowledged.
func (w *world) check() {
	w.t.Helper()
	ctx, repository := w.t.Context(), w.Desired()
	h, err := process.ReadHistory(ctx, repository)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, op := range w.operations {
		if n := len(h.Trailers[op]); n != 1 {
			w.t.Errorf("%d commits have the trailer of the acknowledged operation %s", n, op)
		}
	}
	for _, commit := range w.commits {
		if _, ok := h.At[commit]; !ok {
			w.t.Errorf("the accepted push of %s is not in the history", commit)
		}
	}
	for _, subject := range w.subjects {
		if n := h.Subjects[subject]; n != 1 {
			w.t.Errorf("%d commits have the acknowledged subject %q", n, subject)
		}
	}
	if merges, err := process.Git(ctx, repository, "rev-list", "--merges", "main"); err != nil || merges != "" {
		w.t.Errorf("the history has merges: %q, %v", merges, err)
	}
	if err := process.Fsck(ctx, repository); err != nil {
		w.t.Error(err)
	}
	expectations := 0
	for dir, es := range w.content {
		in, err := process.Intent(ctx, repository, "main", dir)
		if err != nil || in == nil {
			w.t.Errorf("%s: %+v, %v", dir, in, err)
			continue
		}
		for _, e := range es {
			expectations++
			if !e.holds(in) {
				w.t.Errorf("the final %s has lost what was acknowledged: %s", dir, e.what)
			}
		}
	}
	w.t.Logf("%d operations, %d pushes and %d values were acknowledged; tried again: %v", len(w.operations), len(w.commits), expectations, w.retried)
	if len(w.operations) == 0 || len(w.commits) == 0 || len(w.subjects) == 0 {
		w.t.Error("no writes came through the API, or none by pushes: nothing is proven")
	}
}
