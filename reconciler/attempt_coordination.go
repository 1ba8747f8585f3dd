package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/coordinator"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// asking is the [deed] of asking somebody outside for an LCM coordination action: the element
// manager, or the VNF itself (SOL002 clause 10). The operation's record has what the next
// process needs to wait on.
type asking struct {
	h    *hookSteps
	name string
	who  string // for people
	kind string // lcm.EndpointManagement, …
	call coordinator.Call
	// secrets are those that it may have been sent, and may say again.
	secrets []string
}

// asks describes the coordination that the name of a hook stands for.
func (h *hookSteps) asks(a *attempt, name string, facts *hooks.Facts) (*asking, error) {
	under := ""
	if now := a.op.UnderWay(name); now != nil {
		under = now.URI
	}
	what, err := facts.Asking(name, under)
	if err != nil {
		return nil, asRefused(err)
	}
	x := &asking{h: h, name: name, kind: lcm.EndpointManagement, secrets: a.want.Source.Secrets}
	settings, err := h.revisions.repo.Settings()
	if err != nil {
		return nil, err
	}
	project, err := h.revisions.whose(a.want.Source.Instance)
	if err != nil {
		return nil, err
	}
	var who *desired.Peer
	if what.VNF != "" {
		x.kind, x.who, x.call.Root = lcm.EndpointVNF, "VNFC "+what.Who, what.VNF
		if who, err = settings.Peer(project.Name, desired.PeerVNF, desired.InstanceFile, "em", ""); err != nil {
			who = &desired.Peer{} // it asks for no credentials
		}
	} else {
		if who, err = settings.Peer(project.Name, desired.PeerEM, desired.InstanceFile, "em", what.EM); err != nil {
			return nil, err // a *desired.Problem: only a commit can help
		}
		x.who, x.call.Root = who.Name, who.Endpoint
	}
	if h.peers == nil {
		return nil, errors.New("this process has no way to call an element manager")
	}
	if x.call.Peer, err = h.peers(who); err != nil {
		return nil, err
	}
	base := h.baseURL()
	link := func(kind, id string) coordinator.Link {
		return coordinator.Link{Href: base + "/vnflcm/v2/" + kind + "/" + id}
	}
	x.call.Request = coordinator.Request{
		Instance: h.id, Operation: a.op.ID, Type: string(a.op.Type), Action: what.Action, Inputs: what.Inputs,
		Links: coordinator.RequestLinks{Operation: link("vnf_lcm_op_occs", a.op.ID), Instance: link("vnf_instances", h.id)},
	}
	x.call.Timeout, x.call.Now = cmp.Or(h.timeout, defaultCoordination), h.clocks.now
	if now := a.op.UnderWay(name); now != nil {
		x.call.UnderWay = &coordinator.UnderWay{ID: now.ID, URI: now.URI, Started: now.Started, Delay: now.Delay}
	}
	return x, nil
}

// defaultCoordination bounds a coordination where nothing else does.
const defaultCoordination = 10 * time.Minute

// coordinated says whether a former process has recorded that the hook's coordination let the
// operation go on, but not that the hook is done.
func coordinated(op *lcm.Operation, name string) bool {
	return slices.ContainsFunc(op.Coordinations, func(c lcm.Coordination) bool {
		return c.Hook == name && c.Attempt == op.Attempt && c.Result == lcm.CoordinationContinue
	})
}

func (x *asking) begins() string {
	if x.call.UnderWay != nil {
		return fmt.Sprintf("%s: %s is asked how far coordination %s is", x.name, x.who, x.call.UnderWay.ID)
	}
	return fmt.Sprintf("%s: %s is asked to coordinate", x.name, x.who)
}

func (x *asking) prepare(*lcm.Operation) {}

// do carries the coordination to its result, and records each step of it.
func (x *asking) do(ctx context.Context, operation string, stop <-chan struct{}) (hooks.Output, error) {
	story := hooks.NewStory(x.h.clocks.now, func(lines []hooks.Line) { x.h.recordStory(ctx, operation, lines) })
	// After the context has ended, what it said can't be recorded any more.
	defer story.End()
	x.call.Stop = stop
	x.call.Said = func(line string) { story.Say(hooks.Redact(x.name+": "+line, x.secrets)) }
	var began time.Time
	if x.call.UnderWay != nil {
		began = x.call.UnderWay.Started
	}
	x.call.Accepted = func(now coordinator.UnderWay) error {
		began = now.Started
		return x.record(ctx, operation, func(op *lcm.Operation) { op.Coordinate(x.entry(op, now)) })
	}
	x.call.Rejected = func(at, until time.Time) error {
		return x.record(ctx, operation, func(op *lcm.Operation) {
			op.RejectCoordination(lcm.RejectedCoordination{Action: x.call.Request.Action, Rejected: at.UTC(), Delay: until.UTC(), Endpoint: x.kind})
		})
	}
	result, err := coordinator.Run(ctx, x.call)
	x.h.log.InfoContext(ctx, "coordination ended", "operation", operation, "hook", x.name, "asked", x.who, "error", err)
	if failed, ok := errors.AsType[*coordinator.FailedError](err); ok {
		if failed.Over {
			if err := x.record(ctx, operation, func(op *lcm.Operation) { x.close(op) }); err != nil {
				return hooks.Output{}, err
			}
		}
		return hooks.Output{}, fmt.Errorf("%s: %w", x.who, err)
	}
	if err != nil {
		return hooks.Output{}, err
	}
	return x.settle(ctx, operation, result, began, story)
}

// settle records the result.
func (x *asking) settle(ctx context.Context, operation string, result *coordinator.Result, began time.Time, story *hooks.Story) (hooks.Output, error) {
	sealed := ""
	if len(result.Outputs) > 0 {
		var err error
		if sealed, err = x.h.seals.Hook(string(result.Outputs)); err != nil {
			return hooks.Output{}, fmt.Errorf("encrypt what %s answered: %w", x.who, err)
		}
	}
	now := x.h.clocks.now().UTC()
	if began.IsZero() {
		began = now // it was answered at once
	}
	err := x.record(ctx, operation, func(op *lcm.Operation) {
		c := x.entry(op, coordinator.UnderWay{ID: result.ID, Started: began})
		if was := op.UnderWay(x.name); was != nil {
			c = *was
		}
		c.Result, c.Ended, c.Delay, c.Outputs = result.Result, now, time.Time{}, sealed
		op.Coordinate(c)
		if result.Warnings != "" {
			op.Warn(hooks.Redact(clipped(x.who+": "+result.Warnings), x.secrets))
		}
	})
	if err != nil {
		return hooks.Output{}, err
	}
	story.Say(fmt.Sprintf("%s: %s answers %s", x.name, x.who, result.Result))
	if result.Result == coordinator.Continue {
		return hooks.Output{}, nil
	}
	why := "without a reason"
	if p := result.Error; p != nil && p.Title+p.Detail != "" {
		why = clipped(cmp.Or(p.Detail, p.Title))
	}
	verb := "aborts the operation"
	if result.Result == coordinator.Cancelled {
		verb = "has cancelled the coordination"
	}
	return hooks.Output{}, &abortedError{fmt.Sprintf("%s %s (coordination %s): %s", x.who, verb, result.ID, why)}
}

// abortedError is a coordination whose result ends the attempt.
type abortedError struct{ reason string }

func (e *abortedError) Error() string { return e.reason }

// maxSaid is how many characters are shown of what somebody outside wrote.
const maxSaid = 1000

func clipped(s string) string {
	if r := []rune(s); len(r) > maxSaid {
		return string(r[:maxSaid]) + "…"
	}
	return s
}

// entry is the record of the coordination as far as it is.
func (x *asking) entry(op *lcm.Operation, now coordinator.UnderWay) lcm.Coordination {
	return lcm.Coordination{Hook: x.name, Attempt: op.Attempt, ID: now.ID, Action: x.call.Request.Action, Started: now.Started, Delay: now.Delay,
		Endpoint: x.kind, URI: now.URI, Asked: x.who}
}

// close ends the coordination in the record without a result: nobody waits for it any more.
func (x *asking) close(op *lcm.Operation) {
	if c := op.UnderWay(x.name); c != nil {
		ended := *c
		ended.Ended, ended.Delay = x.h.clocks.now().UTC(), time.Time{}
		op.Coordinate(ended)
	}
}

func (x *asking) record(ctx context.Context, operation string, change func(op *lcm.Operation)) error {
	_, err := x.h.oplog.Record(ctx, operation, func(op *lcm.Operation, _ *lcm.Instance) error {
		change(op)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a coordination of operation %s: %w", operation, err)
	}
	return nil
}

// drop lets go of a coordination of an operation that was cancelled forcefully: the record says
// that nobody waits for it, and whoever coordinates is told, if possible.
func (h *hookSteps) drop(ctx context.Context, a *attempt, x *asking, known bool) error {
	op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		x.close(op)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a coordination of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	if !known { // a former process has asked
		h.start(a, x.name, x)
	}
	return nil
}

// Peers resolves how a peer is called; a reference that is forbidden is a
// [*drivers.RefusedError].
type Peers func(p *desired.Peer) (peer.Settings, error)

// pointOf is the point of the operation at which the hook is, by the name that the VNFD has for it.
func pointOf(name string) string {
	base, _ := plan.HookUnit(name)
	point, _ := plan.Coordination(base)
	return point
}
