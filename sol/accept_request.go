package sol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
)

// request is one change of an instance that a client asks for.
type request struct {
	typ lcm.Type
	// params is operationParams, free of secrets.
	params json.RawMessage
	// next returns the present intent as the request changes it, or refuses.
	next func(ctx context.Context, now *desired.Instance, seen sight) (*desired.Instance, error)
	// born, if not nil, completes the operation for the change from now to after, as it will
	// be committed, or refuses.
	born func(op *lcm.Operation, now, after *desired.Instance) error
	// note, if not nil, returns the body of the commit's message.
	note func(seen sight) string
	// beside says that the request is care of what runs: a commit that waits for its window doesn't
	// keep it.
	beside bool
}

// sight is what was observed of the instance when the request came. A request looks only
// once, so that its tombstones, the targets of its operation and the units with which that
// begins can't contradict each other.
type sight struct {
	plan.Observed
	// fresh is false while the VIM can't be observed; Observed is then empty.
	fresh bool
	// pinnedVIM is the VIM that was filled in when the VNF was instantiated.
	pinnedVIM string
}

// begin carries out the API's part of a request: it reserves the operation, commits the
// change, begins the operation, and only then answers 202. If the process ends in between,
// [Recover] resolves the request at the next start.
func (a *api) begin(w http.ResponseWriter, r *http.Request, req request) error {
	// A write that has begun goes on even if the client goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	k, now, err := a.ready(ctx, r, req.beside)
	if err != nil {
		return err
	}
	start, err := a.start(ctx, w, r, req.typ)
	if err != nil {
		return err
	}
	proposes, err := a.proposes(k, req.typ)
	if err != nil {
		return err
	}
	if proposes && k.waits != nil {
		return a.together(k, req.typ)
	}
	if !proposes { // else it may begin when somebody has merged it
		if err := start.may(ctx, k.id, k.head.Dir); err != nil {
			return err
		}
	}
	seen := a.look(ctx, k.id)
	seen.pinnedVIM = k.record.PinnedVIM
	next, err := req.next(ctx, now, seen)
	if err != nil {
		return err
	}
	if seen.fresh {
		next.Condemned = seen.Unspent(next.Condemned)
	}
	old, files, after, err := a.edited(ctx, k, now, next)
	if err != nil {
		return err
	}
	names := a.secretNames(ctx, now, after)
	op := lcm.Operation{
		ID: a.NewID(), Instance: k.id, Type: req.typ, RequestedBy: rest.Caller(ctx).String(),
		Before: k.base, Params: names.StripJSON(req.params), VNF: a.vnf(ctx, after), UnitsBefore: k.record.Units,
		ResourcesBefore: k.record.Resources, ExtLinks: lcm.ChangedLinks(now, after),
	}
	if proposes && !sameFiles(old, files) {
		op.Proposal = &lcm.Proposal{Anytime: start.reason != ""}
	}
	if req.born != nil {
		if err := req.born(&op, now, after); err != nil {
			return err
		}
	}
	op.ChangedInfo, op.PkgChange = names.StripJSON(op.ChangedInfo), names.StripJSON(op.PkgChange)
	if err := a.View.Check(ctx, now, after); err != nil {
		return err
	}
	if seen.fresh {
		op.UnitsBefore, op.ResourcesBefore = sorted(seen.Units), seen.Resources
	}
	if req.typ == lcm.Heal {
		op.Journal = op.Journal.Aim(plan.Desired{Condemned: after.Condemned}, seen.Observed)
	}
	note := ""
	if req.note != nil {
		note = req.note(seen)
	}
	d := a.draft(ctx, k, op, note, old, files)
	if k.waits != nil {
		op.Beside = k.head.Revision
		a.leave(ctx, k, d)
	}
	if done, err := drafted(ctx, d); done || err != nil {
		return err
	}
	start.note(ctx, &op, d)
	if err := a.Operations.Prepare(ctx, op); err != nil {
		return err
	}
	rev, err := a.write(ctx, k, op, d, start)
	if err != nil {
		return err
	}
	// The commit may have taken longer than the request has, where the remote was cut off.
	begin, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if _, err := a.Operations.Commit(begin, op.ID, rev); errors.Is(err, store.ErrUnavailable) {
		go a.commitLater(context.WithoutCancel(ctx), op, rev)
		return fmt.Errorf("%w: commit %s of operation %s is made, but the store could not record it; the operation goes on when the store is back: %w",
			desired.ErrUnavailable, rev.Commit, op.ID, err)
	} else if err != nil {
		return fmt.Errorf("%w: commit %s of operation %s is made, but the store could not record it; the operation goes on when the server is restarted: %w",
			desired.ErrUnavailable, rev.Commit, op.ID, err)
	}
	a.Poke(k.id)
	a.Log.InfoContext(ctx, "operation requested", "instance", k.id, "operation", op.ID, "type", op.Type, "revision", rev.Commit, "by", op.RequestedBy)
	w.Header().Set("Location", a.Link("vnf_lcm_op_occs", op.ID))
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// How often the store is asked again for what it couldn't record, and for how long. After that it
// is done by the next start.
const (
	commitPause = time.Second
	commitTime  = time.Hour
)

// commitLater records that a request was committed, once the store can be reached again.
func (a *api) commitLater(ctx context.Context, op lcm.Operation, rev desired.Revision) {
	for until := time.Now().Add(commitTime); time.Now().Before(until); {
		time.Sleep(commitPause)
		_, err := a.Operations.Commit(ctx, op.ID, rev)
		switch {
		case errors.Is(err, store.ErrUnavailable):
			continue
		case err == nil:
			a.Log.InfoContext(ctx, "the store is back, the operation goes on", "instance", op.Instance, "operation", op.ID)
		default: // it was recorded before the answer was lost, or the process ends
			a.Log.WarnContext(ctx, "a committed operation is not recorded by this request any more", "instance", op.Instance, "operation", op.ID, "error", err)
		}
		a.Poke(op.Instance)
		return
	}
}

// look observes the instance, once for each request.
func (a *api) look(ctx context.Context, id string) sight {
	seen, fresh := a.View.Running(ctx, id)
	return sight{Observed: seen, fresh: fresh}
}

// patience is how long a request waits for what Jibe does by itself, unknown to the client:
// an outstanding commit, which follows the record within milliseconds, and a repair of
// drift, which takes little more.
const (
	patience = 2 * time.Second
	pause    = 5 * time.Millisecond
)

// findSettled is find for a request that changes the instance: it waits up to [patience].
func (a *api) findSettled(ctx context.Context, id string) (known, error) {
	var k known
	var failed error
	settled := func(context.Context) (bool, error) {
		if k, failed = a.find(ctx, id); failed != nil {
			return true, nil
		}
		var repaired bool
		if repaired, failed = a.repaired(ctx, k); failed != nil || repaired && k.record.OutstandingCommit == "" {
			return true, nil
		}
		a.Poke(id)
		return false, nil
	}
	// Where the time runs out, idle answers 409 for what is still under way. What ended while nobody got to
	// look, as on a machine that stood still, isn't.
	if err := wait.PollUntilContextTimeout(ctx, pause, patience, true, settled); err != nil && ctx.Err() == nil {
		_, _ = settled(ctx) // its errors are in failed
	}
	return k, failed
}

// repaired says whether no repair of drift is under way on the instance. A repair that
// failed doesn't count, as any request supersedes it.
func (a *api) repaired(ctx context.Context, k known) (bool, error) {
	if k.record.Open == "" {
		return true, nil
	}
	open, err := a.Operations.Operation(ctx, k.record.Open)
	if err != nil {
		return false, err
	}
	return !open.Automatic || open.State == lcm.FailedTemp, nil
}

// ready finds the request's instance, checks If-Match, and returns the present intent if
// nothing else is under way on the instance. beside says that a commit that waits for its window is nothing
// under way.
func (a *api) ready(ctx context.Context, r *http.Request, beside bool) (known, *desired.Instance, error) {
	// A client that pushes and then asks must not get an answer from before the push.
	if err := a.Repo.Refresh(ctx); err != nil {
		return known{}, nil, fmt.Errorf("%w: the desired repository can't be followed: %w", desired.ErrUnavailable, err)
	}
	k, err := a.findSettled(ctx, r.PathValue("id"))
	if err != nil {
		return k, nil, err
	}
	if err := match(r, k.etag()); err != nil {
		return k, nil, err
	}
	now, err := a.idle(ctx, &k, beside)
	return k, now, err
}
