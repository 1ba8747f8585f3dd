package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

// operationPage is what the operation's template shows.
type operationPage struct {
	Op   *lcm.Operation
	Body *sol.VnfLcmOpOcc
	// Name and Dir are the instance's.
	Name, Dir string
	Kind      string
	Story     []storyRow
	// Waiting is what it waits for beside its VIM.
	Waiting *lcm.Wait
	// Person is who is behind it; Vouched says that somebody vouches for the name.
	Person  string
	Vouched bool
	Commit  string
	// Filled is the commit by which Jibe filled in what Commit left open, "" for none.
	Filled string
	// Params are operationParams as the API shows them.
	Params  string
	Changes []changeRow
	// MayNot is why the caller may decide nothing here, whatever its state; then no button is shown.
	MayNot  string
	Buttons []button
	Took    time.Duration
	Remedy  string
	// Hooks are what hooks of the package did, as the journal has it.
	Hooks []string
}

// storyRow is a line of the operation's timeline.
type storyRow struct {
	At   time.Time
	Text string
	// After is how long after the operation's start that was.
	After time.Duration
	// Kind is hook, wait, bad or "".
	Kind string
}

// changeRow is a resource that the operation changed.
type changeRow struct{ Kind, Change, Name, ID string }

// mostChanges bounds the changed resources that a page lists.
const mostChanges = 300

// showOperation is GET /ui/operations/{id}.
func (s *Service) showOperation(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), mostInstanceShown)
	defer cancel()
	id := r.PathValue("id")
	op, _, err := s.Lifecycle.Operation(ctx, auth.From(ctx), id)
	if err != nil {
		return s.explained(err, "operation", id)
	}
	p := s.operation(auth.From(ctx), op)
	if asking := s.History.Asking(ctx, op.After); asking != "" && asking != p.Commit {
		p.Commit, p.Filled = asking, p.Commit
	}
	return s.render(w, r, "operation", p)
}

func (s *Service) operation(who auth.Identity, op *lcm.Operation) *operationPage {
	p := &operationPage{Op: op, Body: s.Lifecycle.OperationBody(op), Kind: stateKind(op.State), Dir: cmp.Or(op.After.Dir, op.Before.Dir),
		Commit: cmp.Or(op.After.Commit, op.Before.Commit), Person: op.RequestedBy}
	p.Name = op.VNF.Name
	em := ""
	if head, ok := s.Repo.LookupHead(op.Instance); ok {
		p.Name, em = cmp.Or(head.Name, p.Name), head.EM
	}
	p.Name = cmp.Or(p.Name, strings.TrimPrefix(p.Dir, "instances/"), op.Instance)
	// Whom nobody vouches for is told by the mail address that a commit of a forge names.
	p.Vouched = p.Person != "" && !strings.Contains(p.Person, "@")
	if op.Automatic {
		p.Person = cmp.Or(p.Person, "Jibe, by itself")
	}
	if w, ok := op.Waiting(); ok {
		p.Waiting = &w
	}
	end := op.StateEntered
	if !op.State.Ended() {
		end = time.Now()
	}
	p.Took = max(0, end.Sub(op.Started).Round(100*time.Millisecond))
	for _, l := range op.Story {
		p.Story = append(p.Story, storyRow{At: l.At, Text: l.Text, After: max(0, l.At.Sub(op.Started).Round(100*time.Millisecond)), Kind: storyKind(l.Text)})
	}
	if len(op.Params) > 0 {
		p.Params = indented(op.Params)
	}
	p.changes()
	p.Remedy = remedyOf(op)
	rights := s.rightsOf(who, p.Dir, em)
	p.MayNot, p.Buttons = rights.operate, controls(op, rights)
	return p
}

// storyKind is what a line of a story is about, for its colour.
func storyKind(text string) string {
	switch {
	case strings.HasPrefix(text, "hook "), strings.HasPrefix(text, "run "), strings.Contains(text, "hook"):
		return "hook"
	case strings.HasPrefix(text, "wait"):
		return "wait"
	case strings.Contains(text, "failing:"), strings.Contains(text, "failed"):
		return "bad"
	}
	return ""
}

func indented(b json.RawMessage) string {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return string(b)
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // the template escapes it, and people read it
	e.SetIndent("", "  ")
	if e.Encode(v) != nil {
		return string(b)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// changes lists what the operation changed.
func (p *operationPage) changes() {
	c := p.Body.ResourceChanges
	if c == nil {
		return
	}
	add := func(kind, change, name, id string) {
		if len(p.Changes) < mostChanges {
			p.Changes = append(p.Changes, changeRow{kind, change, name, id})
		}
	}
	for _, x := range c.AffectedVnfcs {
		add("VNFC of "+x.VduID, string(x.ChangeType), x.ComputeResource.ResourceID, x.ID)
	}
	for _, x := range c.AffectedVirtualLinks {
		add("network "+x.VirtualLinkDesc, string(x.ChangeType), x.NetworkResource.ResourceID, x.ID)
	}
	for _, x := range c.AffectedExtLinkPorts {
		add("port", string(x.ChangeType), x.ResourceHandle.ResourceID, x.ID)
	}
	for _, x := range c.AffectedVirtualStorages {
		add("storage "+x.VirtualStorageDesc, string(x.ChangeType), x.StorageResource.ResourceID, x.ID)
	}
}

// remedyOf is what a person may do about an operation that stands in a failure.
func remedyOf(op *lcm.Operation) string {
	switch {
	case op.State == lcm.FailedTemp && op.Automatic:
		return "Jibe tries again by itself. Any request or commit on the instance takes its place."
	case op.State == lcm.FailedTemp && op.CanRollback() == nil:
		return "Put right what the error says, then retry. Or roll back: the directory in git becomes what it was. Or fail it: nothing more is done until the next request or commit."
	case op.State == lcm.FailedTemp:
		return "Put right what the error says, then retry; or fail it, after which nothing more is done until the next request or commit."
	case op.State == lcm.Failed:
		return "Nothing is done to the instance until the next request or commit, which lifts that."
	case op.State == lcm.RolledBack:
		return "The directory in git is what it was before. Put right what the error says, and ask again."
	}
	return ""
}

// controls are what a person may ask of the operation.
func controls(op *lcm.Operation, rights rights) []button {
	var list []button
	for _, c := range []struct {
		action, text string
		event        lcm.Event
	}{{"retry", "Retry", lcm.RetryAsked}, {"rollback", "Roll back", lcm.RollbackAsked}, {"fail", "Fail", lcm.FailAsked}, {"cancel", "Cancel", lcm.CancelAsked}} {
		b := button{Action: c.action, Text: c.text, Why: rights.operate}
		if b.Why == "" {
			b.Why = impossible(op, c.event)
		}
		list = append(list, b)
	}
	return list
}

// impossible says why the event can't be asked of the operation, "" where it can.
func impossible(op *lcm.Operation, e lcm.Event) string {
	_, err := lcm.Next(op.State, e)
	if err == nil && e == lcm.RollbackAsked {
		err = op.CanRollback()
	}
	switch {
	case err == nil && e == lcm.CancelAsked && op.CancelMode == lcm.Forceful: // a graceful one that takes too long can become forceful
		return "it is being cancelled already"
	case err == nil:
		return ""
	case op.State.Ended():
		return "the operation has ended: " + string(op.State)
	case errors.Is(err, lcm.ErrState) && err.Error() != "":
		return err.Error()
	}
	return "it is " + string(op.State)
}

// explained is an error of the lifecycle as a person reads it.
func (s *Service) explained(err error, what, id string) error {
	if err == nil || failureOf(err) != nil {
		return err
	}
	status := s.Lifecycle.Status(err)
	switch {
	case status == http.StatusNotFound:
		return Missing(what, id)
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Status: http.StatusServiceUnavailable, Title: "It took too long", Detail: err.Error(), Remedy: "Try again in a moment. Nothing was changed."}
	case status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable:
		return err
	}
	return &Failure{Status: status, Title: titleOf(status), Detail: err.Error(), Remedy: remedyFor(status)}
}

func titleOf(status int) string {
	switch status {
	case http.StatusForbidden:
		return "You may not do this"
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "Not now"
	case http.StatusServiceUnavailable:
		return "Not available now"
	}
	return "Refused"
}

// remedyFor is what to do about a refusal with an HTTP status.
func remedyFor(status int) string {
	switch status {
	case http.StatusForbidden:
		return "Log in as somebody who may, or propose it as a branch for them to merge."
	case http.StatusConflict:
		return "Look at the instance: something is under way on it, or it is in another state. Ask again when that has ended."
	case http.StatusPreconditionFailed:
		return "It has changed since the page was drawn. Look at it again."
	case http.StatusServiceUnavailable:
		return "Try again in a moment."
	}
	return "Change what you ask for, and try again. Nothing was changed."
}
