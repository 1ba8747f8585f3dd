package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Kept says what was acknowledged and isn't there any more. It is cheap enough to be asked for
// after every fault.
func (w *World) Kept(ctx context.Context) error {
	// What is acknowledged while the history is read needn't be in it.
	w.mu.Lock()
	requests, pushes := slices.Clone(w.requests), slices.Clone(w.pushes)
	w.mu.Unlock()

	operations, err := w.Occurrences(ctx, w.Servers.Present())
	if err != nil {
		return err
	}
	h, err := process.ReadHistory(ctx, w.Repository)
	if err != nil {
		return err
	}
	known := map[string]Occurrence{}
	for _, op := range operations {
		known[op.ID] = op
	}

	var errs []error
	for _, r := range requests {
		if r.Operation == "" {
			if n := h.Subjects[r.What+" "+r.Dir]; n == 0 || n > 1 && process.Identity(r.Dir) == path.Base(r.Dir) {
				errs = append(errs, fmt.Errorf("%d commits are the acknowledged %s of instance %s", n, r.What, r.Instance))
			}
			continue
		}
		if n := len(w.commits(h, r.Operation, h.Trailers[r.Operation])); n != 1 {
			errs = append(errs, fmt.Errorf("%d commits have the trailer of the acknowledged %s %s of instance %s", n, r.What, r.Operation, r.Instance))
		}
		if op, ok := known[r.Operation]; !ok || op.Instance != r.Instance || op.Type != r.What || op.Automatic {
			errs = append(errs, fmt.Errorf("the acknowledged %s %s of instance %s is shown as %+v", r.What, r.Operation, r.Instance, op))
		}
	}
	for _, p := range pushes {
		if _, ok := h.At[p.Commit]; !ok {
			errs = append(errs, fmt.Errorf("the accepted push of %s to %s is not in the history", p.Commit, p.Dir))
		}
	}

	return errors.Join(errs...)
}

// Occurrence is what is read of a VnfLcmOpOcc.
type Occurrence struct {
	process.Operation
	Started time.Time       `json:"startTime"`
	Entered time.Time       `json:"stateEnteredTime"`
	Params  json.RawMessage `json:"operationParams"`
}

// Occurrences returns the operations that a filter of SOL013 selects, all by default.
func (w *World) Occurrences(ctx context.Context, server *process.Server, filter ...string) ([]Occurrence, error) {
	target := process.Operations + "?all_fields"
	for _, f := range filter {
		target += "&filter=" + url.QueryEscape(f)
	}
	return process.All[Occurrence](ctx, server, target)
}

// commits returns those of the commits that asked for an operation: where the caller tolerates that operations are
// taken back, a commit that did so isn't one. One that was pushed while there was no Jibe may be named after any later
// commit that found the directory so, even after the outcome of another operation.
func (w *World) commits(h *process.History, operation string, at []int) (list []string) {
	for _, i := range at {
		if w.Expect.Operation == nil || !Outcome(h.Lines[i]) || !slices.Contains(h.Trailers[operation], i) {
			list = append(list, h.Commits[i])
		}
	}
	return list
}

// AskedBy returns the commits that asked for an operation.
func (w *World) AskedBy(h *process.History, op process.Operation) []string {
	return w.commits(h, op.ID, h.Of(op))
}

// Outcome reports whether a commit with the subject puts a directory back after an operation.
func Outcome(subject string) bool {
	return strings.HasPrefix(subject, "Roll back ") || strings.HasPrefix(subject, "Take back the failed ")
}

// atRest returns the operations, and an error while one of them hasn't ended or what is shown,
// what runs and what head says differ.
func (w *World) atRest(ctx context.Context) ([]Occurrence, error) {
	if err := w.Accept(ctx); err != nil {
		return nil, err
	}
	operations, err := w.Occurrences(ctx, w.Servers.Present())
	if err != nil {
		return nil, err
	}
	for _, op := range operations {
		if !lcm.State(op.State).Ended() {
			return operations, fmt.Errorf("%s %s of instance %s is %s (%d %s)", op.Type, op.ID, op.Instance, op.State, op.Error.Status, op.Error.Detail)
		}
	}
	return operations, errors.Join(w.checkCluster(ctx), w.CheckInstances(ctx), w.checkPushes(ctx, operations))
}

// CheckInstances compares what the API shows with head: the same instances, each as
// instantiated as head says, and gone where it was deleted.
func (w *World) CheckInstances(ctx context.Context) error {
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
func (w *World) checkPushes(ctx context.Context, operations []Occurrence) error {
	h, err := process.ReadHistory(ctx, w.Repository)
	if err != nil {
		return err
	}
	var list []process.Operation
	for _, op := range operations {
		list = append(list, op.Operation)
	}
	return h.CheckPushes(ctx, w.pushes, list)
}

// CheckAsked says where the commit of a request isn't what was asked for, an accepted push came to nothing, an operation
// isn't that of exactly one commit, or a commit has two operations on one instance, or one did not end as [Expect] says.
func (w *World) CheckAsked(ctx context.Context, operations []Occurrence) error {
	h, err := process.ReadHistory(ctx, w.Repository)
	if err != nil {
		return err
	}
	errs := []error{w.checkRequests(ctx, h), w.checkPushes(ctx, operations)}

	seen := map[string]string{}
	expect := w.Expect.Operation
	if expect == nil {
		expect = completed
	}
	for _, op := range operations {
		what := fmt.Sprintf("%s %s of instance %s (automatic: %t), which is %s: %d %s", op.Type, op.ID, op.Instance, op.Automatic, op.State, op.Error.Status, op.Error.Detail)
		commits := w.AskedBy(h, op.Operation)
		if err := expect(ctx, h, op, commits); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
		if op.Automatic && len(commits) == 0 {
			continue // drift: what ran had changed, not what should run
		}
		if len(commits) != 1 {
			errs = append(errs, fmt.Errorf("%s belongs to %d commits", what, len(commits)))
			continue
		}
		key := commits[0] + " " + op.Instance
		if other, ok := seen[key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s are of the same commit", what, other))
		}
		seen[key] = what
	}

	return errors.Join(errs...)
}

// completed is what is expected of an operation where no caller tolerates anything else: nothing but kills happened, and
// none of them is a reason to fail.
func completed(_ context.Context, _ *process.History, op Occurrence, _ []string) error {
	if op.State != string(lcm.Completed) {
		return errors.New("it did not complete")
	}
	return nil
}

// checkRequests says which request's commit doesn't want what was asked for.
func (w *World) checkRequests(ctx context.Context, h *process.History) error {
	var errs []error
	for _, r := range w.requests {
		commits := w.commits(h, r.Operation, h.Trailers[r.Operation])
		if r.Wants == nil || len(commits) != 1 { // Kept reports another number
			continue
		}
		before, err := process.Intent(ctx, w.Repository, commits[0]+"^", r.Dir)
		if err != nil {
			return err
		}
		after, err := process.Intent(ctx, w.Repository, commits[0], r.Dir)
		if err != nil {
			return err
		}
		if err := r.Wants(before, after); err != nil {
			errs = append(errs, fmt.Errorf("%s %s of instance %s: commit %s %w", r.What, r.Operation, r.Instance, commits[0], err))
		}
	}
	return errors.Join(errs...)
}

// checkDeleted says which deleted instances are still shown.
func (w *World) checkDeleted(ctx context.Context) error {
	var errs []error
	for _, r := range w.requests {
		if r.What != "DELETE" || process.Identity(r.Dir) != path.Base(r.Dir) {
			continue
		}
		a, err := w.Servers.Present().Do(ctx, http.MethodGet, process.Instances+"/"+r.Instance, nil)
		if err != nil {
			return err
		}
		if a.Status != http.StatusNotFound {
			errs = append(errs, fmt.Errorf("the deleted instance %s is shown with %d", r.Instance, a.Status))
		}
	}
	return errors.Join(errs...)
}
