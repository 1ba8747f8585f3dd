package crash_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/process"
)

// history is the desired branch, oldest commit first.
type history struct {
	commits  []string
	at       map[string]int   // position by commit
	trailers map[string][]int // positions by Vnf-Lcm-Op-Occ
	subjects map[string]int   // how many commits have the subject
}

func (w *world) history(ctx context.Context) (*history, error) {
	log, err := process.Git(ctx, filepath.Join(w.data, "desired.git"), "log", "--reverse", "--topo-order",
		"--format=%H%x1f%s%x1f%(trailers:key="+desired.TrailerOperation+",valueonly,separator=%x1e)", "main")
	if err != nil {
		return nil, err
	}
	h := &history{at: map[string]int{}, trailers: map[string][]int{}, subjects: map[string]int{}}
	for i, line := range strings.Split(log, "\n") {
		f := strings.Split(line, "\x1f")
		if len(f) != 3 {
			return nil, fmt.Errorf("git log: %q", line)
		}
		h.commits = append(h.commits, f[0])
		h.at[f[0]] = i
		h.subjects[f[1]]++
		for op := range strings.SplitSeq(f[2], "\x1e") {
			if op != "" {
				h.trailers[op] = append(h.trailers[op], i)
			}
		}
	}
	return h, nil
}

// checkAcknowledged says what was acknowledged before a kill and isn't there after it.
// It is cheap enough to be done at every start.
func (w *world) checkAcknowledged(ctx context.Context) error {
	w.mu.Lock()
	server, requests, pushes := w.server, slices.Clone(w.requests), slices.Clone(w.pushes)
	w.mu.Unlock()
	h, err := w.history(ctx)
	if err != nil {
		return err
	}
	operations, err := process.All[process.Operation](ctx, server, process.Operations)
	if err != nil {
		return err
	}
	known := map[string]process.Operation{}
	for _, op := range operations {
		known[op.ID] = op
	}
	var errs []error
	for _, r := range requests {
		if r.operation == "" {
			if n := h.subjects[r.what+" "+r.dir]; n == 0 || n > 1 && identity(r.dir) == path.Base(r.dir) {
				errs = append(errs, fmt.Errorf("%d commits are the acknowledged %s of instance %s", n, r.what, r.instance))
			}
			continue
		}
		if n := len(h.trailers[r.operation]); n != 1 {
			errs = append(errs, fmt.Errorf("%d commits have the trailer of the acknowledged %s %s", n, r.what, r.operation))
		}
		if op, ok := known[r.operation]; !ok || op.Instance != r.instance || op.Type != r.what {
			errs = append(errs, fmt.Errorf("the acknowledged %s %s of instance %s is shown as %+v", r.what, r.operation, r.instance, op))
		}
	}
	for _, p := range pushes {
		if _, ok := h.at[p.commit]; !ok {
			errs = append(errs, fmt.Errorf("the accepted push of %s to %s is not in the history", p.commit, p.dir))
		}
	}
	return errors.Join(errs...)
}

// checkEverything lets all work come to its end, and then compares what was asked for
// with git, the operations, the cluster and what the subscriber was told.
func (w *world) checkEverything() {
	w.t.Helper()
	ctx := w.t.Context()
	var operations []process.Operation
	err := process.Poll(ctx, settleWait, func() error {
		var err error
		if operations, err = process.All[process.Operation](ctx, w.server, process.Operations); err != nil {
			return err
		}
		for _, op := range operations {
			if !lcm.State(op.State).Ended() {
				return fmt.Errorf("%s %s of instance %s is %s (%d %s)", op.Type, op.ID, op.Instance, op.State, op.Error.Status, op.Error.Detail)
			}
		}
		return errors.Join(w.checkCluster(ctx), w.checkInstances(ctx), w.checkPushes(ctx, operations))
	})
	if err != nil {
		w.t.Errorf("it doesn't come to rest: %v", err)
	}
	if err := w.checkAcknowledged(ctx); err != nil {
		w.t.Error(err)
	}
	if err := w.checkOperations(ctx, operations); err != nil {
		w.t.Error(err)
	}
	err = process.Poll(ctx, settleWait, func() error {
		var created, deleted []string
		for _, r := range w.requests {
			switch {
			case r.what == "CREATE":
				created = append(created, r.instance)
			case r.what == "DELETE" && identity(r.dir) == path.Base(r.dir):
				deleted = append(deleted, r.instance)
			}
		}
		return errors.Join(w.subscriber.check(operations, created, deleted)...)
	})
	if err != nil {
		w.t.Error(err)
	}
	for _, repository := range []string{"desired.git", "packages/packages.git"} {
		out, err := process.Git(ctx, filepath.Join(w.data, repository), "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
		if err != nil || out != "" {
			w.t.Errorf("git fsck of %s: %v\n%s", repository, err, out)
		}
	}
}

// checkInstances compares what the API shows with head: the same instances, each as
// instantiated as head says, and gone where it was deleted.
func (w *world) checkInstances(ctx context.Context) error {
	type shown struct {
		ID    string `json:"id"`
		State string `json:"instantiationState"`
		Info  struct {
			Scale []struct {
				Aspect string `json:"aspectId"`
				Level  int    `json:"scaleLevel"`
			} `json:"scaleStatus"`
		} `json:"instantiatedVnfInfo"`
	}
	instances, err := process.All[shown](ctx, w.server, process.Instances+"?all_fields")
	if err != nil {
		return err
	}
	have := map[string]string{}
	for _, in := range instances {
		text := in.State
		for _, s := range in.Info.Scale {
			text += fmt.Sprintf(" %s=%d", s.Aspect, s.Level)
		}
		have[in.ID] = text
	}
	files, err := process.Git(ctx, filepath.Join(w.data, "desired.git"), "ls-tree", "-r", "--name-only", "main", "instances/")
	if err != nil {
		return err
	}
	var errs []error
	for file := range strings.FieldsSeq(files) {
		in, err := w.intent(ctx, path.Dir(file))
		if err != nil {
			return err
		}
		want := "NOT_INSTANTIATED"
		if in.State == desired.Instantiated {
			want = fmt.Sprintf("INSTANTIATED front=%d", in.Levels["front"])
		}
		if have[in.ID] != want {
			errs = append(errs, fmt.Errorf("instance %s is shown as %q, head says %q", in.ID, have[in.ID], want))
		}
		delete(have, in.ID)
	}
	for id, state := range have {
		errs = append(errs, fmt.Errorf("instance %s is shown as %s, but head doesn't have it", id, state))
	}
	return errors.Join(errs...)
}

// checkPushes says which accepted pushes nothing came of. A push has an operation, or a
// later one of its instance took it along, or it and the following pushes together have
// changed nothing that matters.
func (w *world) checkPushes(ctx context.Context, operations []process.Operation) error {
	h, err := w.history(ctx)
	if err != nil {
		return err
	}
	last := map[string]int{} // position of the last commit that was operated on, by instance
	for _, op := range operations {
		for _, at := range h.of(op) {
			last[op.Instance] = max(last[op.Instance], at)
		}
	}
	var errs []error
	for _, p := range w.pushes {
		was, ok := last[p.instance]
		if ok && was >= h.at[p.commit] {
			continue
		}
		var before *desired.Instance
		if ok {
			if before, err = w.intentAt(ctx, h.commits[was], p.dir); err != nil {
				return err
			}
		}
		after, err := w.intent(ctx, p.dir)
		if err != nil {
			return err
		}
		if typ, _, due := lcm.Classify(before, after); due {
			errs = append(errs, fmt.Errorf("the accepted push of %s to %s has no operation, and its %s is due", p.commit, p.dir, typ))
		}
	}
	return errors.Join(errs...)
}

// of are the positions of the commits that an operation belongs to: a request's by its
// trailer, a push's by its id.
func (h *history) of(op process.Operation) []int {
	at := slices.Clone(h.trailers[op.ID])
	for i, commit := range h.commits {
		if reconciler.OperationID(commit, op.Instance) == op.ID {
			at = append(at, i)
		}
	}
	return at
}

// checkOperations says where an operation isn't that of exactly one commit, or a commit
// has two operations on one instance, or one did not succeed: nothing but kills
// happened, and none of them is a reason to fail.
func (w *world) checkOperations(ctx context.Context, operations []process.Operation) error {
	h, err := w.history(ctx)
	if err != nil {
		return err
	}
	seen := map[string]string{}
	var errs []error
	for _, op := range operations {
		what := fmt.Sprintf("%s %s of instance %s", op.Type, op.ID, op.Instance)
		if op.State != string(lcm.Completed) {
			errs = append(errs, fmt.Errorf("%s is %s: %d %s", what, op.State, op.Error.Status, op.Error.Detail))
		}
		commits := h.of(op)
		if op.Automatic && len(commits) == 0 {
			continue // drift: what ran had changed, not what should run
		}
		if len(commits) != 1 {
			errs = append(errs, fmt.Errorf("%s belongs to %d commits", what, len(commits)))
			continue
		}
		key := h.commits[commits[0]] + " " + op.Instance
		if other, ok := seen[key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s are of the same commit", what, other))
		}
		seen[key] = what
	}
	for _, r := range w.requests {
		if r.what != "DELETE" || identity(r.dir) != path.Base(r.dir) {
			continue
		}
		a, err := w.server.Do(ctx, http.MethodGet, process.Instances+"/"+r.instance, nil)
		if err != nil {
			return err
		}
		if a.Status != http.StatusNotFound {
			errs = append(errs, fmt.Errorf("the deleted instance %s is shown with %d", r.instance, a.Status))
		}
	}
	return errors.Join(errs...)
}
