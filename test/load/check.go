package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Kept says what was acknowledged and isn't there any more. It is cheap enough to be asked for
// after every fault.
func (w *World) Kept(ctx context.Context) error {
	w.mu.Lock()
	requests, pushes := slices.Clone(w.requests), slices.Clone(w.pushes)
	w.mu.Unlock()
	server := w.Servers.Present()
	h, err := process.ReadHistory(ctx, w.Repository)
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

// atRest returns the operations, and an error while one of them hasn't ended or what is shown,
// what runs and what head says differ.
func (w *World) atRest(ctx context.Context) ([]process.Operation, error) {
	operations, err := process.All[process.Operation](ctx, w.Servers.Present(), process.Operations)
	if err != nil {
		return nil, err
	}
	for _, op := range operations {
		if !lcm.State(op.State).Ended() {
			return operations, fmt.Errorf("%s %s of instance %s is %s (%d %s)", op.Type, op.ID, op.Instance, op.State, op.Error.Status, op.Error.Detail)
		}
	}
	return operations, errors.Join(w.checkCluster(ctx), w.checkInstances(ctx), w.checkPushes(ctx, operations))
}

// checkInstances compares what the API shows with head: the same instances, each as
// instantiated as head says, and gone where it was deleted.
func (w *World) checkInstances(ctx context.Context) error {
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
	instances, err := process.All[shown](ctx, w.Servers.Present(), process.Instances+"?all_fields")
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
	files, err := process.Git(ctx, w.Repository, "ls-tree", "-r", "--name-only", "main", "instances/")
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
func (w *World) checkPushes(ctx context.Context, operations []process.Operation) error {
	h, err := process.ReadHistory(ctx, w.Repository)
	if err != nil {
		return err
	}
	return h.CheckPushes(ctx, w.pushes, operations)
}

// checkOperations says where an operation isn't that of exactly one commit, or a commit
// has two operations on one instance, or one did not succeed: nothing but kills
// happened, and none of them is a reason to fail.
func (w *World) checkOperations(ctx context.Context, operations []process.Operation) error {
	h, err := process.ReadHistory(ctx, w.Repository)
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
		a, err := w.Servers.Present().Do(ctx, http.MethodGet, process.Instances+"/"+r.instance, nil)
		if err != nil {
			return err
		}
		if a.Status != http.StatusNotFound {
			errs = append(errs, fmt.Errorf("the deleted instance %s is shown with %d", r.instance, a.Status))
		}
	}
	return errors.Join(errs...)
}
