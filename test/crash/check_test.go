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
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// history is the desired branch as it is now.
func (w *world) history(ctx context.Context) (*process.History, error) {
	return process.ReadHistory(ctx, filepath.Join(w.data, "desired.git"))
}

// checkAcknowledged says what was acknowledged before a kill and isn't there after it.
// It is cheap enough to be done at every start.
func (w *world) checkAcknowledged(ctx context.Context) error {
	w.mu.Lock()
	requests, pushes := slices.Clone(w.requests), slices.Clone(w.pushes)
	w.mu.Unlock()
	server := w.Present()
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
			if n := h.Subjects[r.what+" "+r.dir]; n == 0 || n > 1 && process.Identity(r.dir) == path.Base(r.dir) {
				errs = append(errs, fmt.Errorf("%d commits are the acknowledged %s of instance %s", n, r.what, r.instance))
			}
			continue
		}
		if n := len(h.Trailers[r.operation]); n != 1 {
			errs = append(errs, fmt.Errorf("%d commits have the trailer of the acknowledged %s %s", n, r.what, r.operation))
		}
		if op, ok := known[r.operation]; !ok || op.Instance != r.instance || op.Type != r.what {
			errs = append(errs, fmt.Errorf("the acknowledged %s %s of instance %s is shown as %+v", r.what, r.operation, r.instance, op))
		}
	}
	for _, p := range pushes {
		if _, ok := h.At[p.Commit]; !ok {
			errs = append(errs, fmt.Errorf("the accepted push of %s to %s is not in the history", p.Commit, p.Dir))
		}
	}
	return errors.Join(errs...)
}

// checkEverything lets all work come to its end, and then compares what was asked for
// with git, the operations, the cluster and what the subscriber was notified of.
func (w *world) checkEverything() {
	w.t.Helper()
	ctx := w.t.Context()
	var operations []process.Operation
	err := kit.Poll(ctx, settleWait, func() error {
		var err error
		if operations, err = process.All[process.Operation](ctx, w.Present(), process.Operations); err != nil {
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
	err = kit.Poll(ctx, settleWait, func() error {
		var created, deleted []string
		for _, r := range w.requests {
			switch {
			case r.what == "CREATE":
				created = append(created, r.instance)
			case r.what == "DELETE" && process.Identity(r.dir) == path.Base(r.dir):
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
		Vnfd  string `json:"vnfdId"`
		State string `json:"instantiationState"`
		Info  struct {
			State string `json:"vnfState"`
			Scale []struct {
				Aspect string `json:"aspectId"`
				Level  int    `json:"scaleLevel"`
			} `json:"scaleStatus"`
		} `json:"instantiatedVnfInfo"`
	}
	instances, err := process.All[shown](ctx, w.Present(), process.Instances+"?all_fields")
	if err != nil {
		return err
	}
	have := map[string]string{}
	for _, in := range instances {
		text := in.State + " " + in.Vnfd
		if in.State == "INSTANTIATED" {
			text += " " + in.Info.State
		}
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
		want := "NOT_INSTANTIATED " + in.VnfdID
		if desired.IsInstantiated(in.State) {
			want = fmt.Sprintf("INSTANTIATED %s %s front=%d", in.VnfdID, lcm.OperationalState(in), in.Levels["front"])
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

// checkPushes says which accepted pushes nothing came of.
func (w *world) checkPushes(ctx context.Context, operations []process.Operation) error {
	h, err := w.history(ctx)
	if err != nil {
		return err
	}
	return h.CheckPushes(ctx, w.pushes, operations)
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
		commits := h.Of(op)
		if op.Automatic && len(commits) == 0 {
			continue // drift: what ran had changed, not what should run
		}
		if len(commits) != 1 {
			errs = append(errs, fmt.Errorf("%s belongs to %d commits", what, len(commits)))
			continue
		}
		key := h.Commits[commits[0]] + " " + op.Instance
		if other, ok := seen[key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s are of the same commit", what, other))
		}
		seen[key] = what
	}
	for _, r := range w.requests {
		if r.what != "DELETE" || process.Identity(r.dir) != path.Base(r.dir) {
			continue
		}
		a, err := w.Present().Do(ctx, http.MethodGet, process.Instances+"/"+r.instance, nil)
		if err != nil {
			return err
		}
		if a.Status != http.StatusNotFound {
			errs = append(errs, fmt.Errorf("the deleted instance %s is shown with %d", r.instance, a.Status))
		}
	}
	return errors.Join(errs...)
}
