package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// requestWait bounds one request or push; only a hang takes so long.
const requestWait = 3 * time.Minute

// Expect is what a caller tolerates of the installation that it breaks. Its zero value tolerates only that an instance is
// busy, or that a push that removed it was faster.
type Expect struct {
	// Answers are the statuses with which a request may be refused at any time without having begun anything that was
	// promised; nil is 409 and 404.
	Answers []int
	// Sure has each request be in order even after one whose outcome is unknown; otherwise what that came to may be a
	// reason for 400.
	Sure bool
	// Superseded permits that an operation ends for a newer one: pushes don't wait their turn.
	Superseded bool
	// Operation returns an error where an operation, whose commits are given, did not end as it may; nil has every one
	// complete. Where it is set, an operation may have been taken back by a commit.
	Operation func(ctx context.Context, h *process.History, op Occurrence, commits []string) error
	// Held permits that changes of many VNFs are held until they are accepted: pushes go to a forge, where no hook
	// reads the count that they say.
	Held bool
}

// Request is a request to the API: CREATE (201), DELETE (204), or one that begins an operation (202).
type Request struct {
	What, Operation, Instance, Dir string
	// Late reports whether an answer of 400 says that something else was faster than the request.
	Late func(*process.Answer) bool
	// Wants returns an error where the commit of the request, between two states of the instance, isn't what was asked for.
	Wants func(before, after *desired.Instance) error
}

// Ask makes a request on the instance in a directory, "" for the collection, and remembers it where it is acknowledged:
// then it returns it.
func (p *Person) Ask(ctx context.Context, server *process.Server, method, dir, task string, body any, r Request) (*Request, error) {
	signal(p.Sent)
	began := time.Now()
	target := process.Instances
	if dir != "" {
		r.Instance, r.Dir = process.Identity(dir), dir
		target += "/" + r.Instance + task
	}
	a, err := server.Do(ctx, method, target, body)
	if err != nil {
		p.unsure = p.unsure || dir != ""
		return nil, p.Unanswered(ctx, began, r.Instance, r.What, err)
	}

	p.note(r.Instance, "%s: %d %s %s", r.What, a.Status, a.ID(), a.Body)
	switch {
	case a.Status == http.StatusCreated && dir == "":
		r.Instance, r.Dir = a.ID(), desired.APIDir(a.ID())
	case a.Status == http.StatusAccepted:
		r.Operation = a.ID()
	case a.Status == http.StatusNoContent:
	case a.Status == http.StatusBadRequest && (r.Late != nil && r.Late(a) || dir != "" && p.unsure && !p.Expect.Sure):
		p.count(r.What, a)
		return nil, nil
	default:
		p.unsure = p.unsure || dir != "" && a.Status >= http.StatusInternalServerError
		return nil, p.refused(began, r, a)
	}
	p.Acknowledge(r)
	return &r, nil
}

// Acknowledge remembers a request that was acknowledged.
func (w *World) Acknowledge(r Request) {
	signal(w.Acked)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
}

// Unanswered counts a request whose outcome is unknown. That a connection was cut is no failure of the test, a request that
// hangs is one.
func (w *World) Unanswered(ctx context.Context, began time.Time, instance, what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s of instance %s: no answer in %s: %w", what, instance, requestWait, err)
	}
	w.note(instance, "%s: no answer: %v", what, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unanswered++
	w.failed = append(w.failed, failure{began, fmt.Sprintf("%s: no answer: %v", what, err)})
	return nil
}

// refused counts a refusal. One that the caller doesn't expect is an error.
func (w *World) refused(began time.Time, r Request, a *process.Answer) error {
	expected := w.Expect.Answers
	if expected == nil {
		expected = []int{http.StatusConflict, http.StatusNotFound}
	}
	if !slices.Contains(expected, a.Status) {
		return fmt.Errorf("%s of instance %s was answered with %d: %s", r.What, r.Instance, a.Status, a.Body)
	}
	w.count(r.What, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Status >= http.StatusInternalServerError {
		w.failed = append(w.failed, failure{began, fmt.Sprintf("%s: %d %s", r.What, a.Status, a.Body)})
	}
	return nil
}

// count counts a refusal.
func (w *World) count(what string, a *process.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals[fmt.Sprintf("%s %d", what, a.Status)]++
}

func (w *World) note(instance, format string, args ...any) {
	if w.Note != nil {
		w.Note(instance, fmt.Sprintf(format, args...))
	}
}

// Edit pushes an edit of the file of the instance in a directory. Where no operation may be superseded, it waits its turn:
// each push that is accepted is to be operated on.
func (p *Person) Edit(ctx context.Context, server *process.Server, dir, message string, changes ...desired.KeyValue) error {
	return p.push(ctx, server, dir, message, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, nil // it went meanwhile
		}
		all := changes
		if !p.Expect.Superseded {
			all = append([]desired.KeyValue{{Path: []string{"supersede"}, Value: desired.SupersedeNever}}, all...)
		}
		return desired.Edit(path.Join(dir, desired.InstanceFile), old, all...)
	})
}

// push pushes what next makes of an instance's file; nil removes its directory. It is in order, so that a refusal is an error.
func (p *Person) push(ctx context.Context, server *process.Server, dir, message string, next func(old []byte) ([]byte, error)) error {
	if p.apiOnly.Load() {
		return nil
	}
	instance, began := process.Identity(dir), time.Now()
	commit, err := p.Clone.ChangeInstance(ctx, func() string {
		signal(p.Sent)
		switch {
		case p.Remote != nil:
			return p.Remote(server, p.Rng)
		case p.Rng.IntN(2) == 0:
			return server.Desired()
		}
		return server.DesiredURL()
	}, dir, message, next)
	switch {
	case errors.Is(err, process.ErrUnanswered):
		p.note(instance, "push %s: no answer: %v", message, err)
		p.World.mu.Lock()
		defer p.World.mu.Unlock()
		p.unanswered++
	case err != nil:
		return fmt.Errorf("push to instance %s (%s) since %s: %s: %w", instance, dir, began.Format(time.TimeOnly), message, err)
	case commit != "":
		p.note(instance, "push %s %s", commit[:7], message)
		signal(p.Acked)
		p.World.mu.Lock()
		defer p.World.mu.Unlock()
		p.pushes = append(p.pushes, process.Push{Commit: commit, Instance: instance, Dir: dir})
	}
	return nil
}

// acceptPause is that between two looks for what is held.
const acceptPause = time.Second

// AcceptEnds accepts, until stop is closed, what is held because it ends many VNFs. What is held for another reason stays, and
// [World.Prove] reports it.
func (w *World) AcceptEnds(ctx context.Context, stop <-chan struct{}) error {
	for kit.Rest(ctx, stop, acceptPause) {
		_ = w.Accept(ctx)
	}
	return nil
}

// Accept accepts the branch as a person does, where it is held because pushes that each end one VNF have come from a forge
// at once. It returns an error where it is held for another reason, or can't be accepted now.
func (w *World) Accept(ctx context.Context) error {
	server := w.Servers.Present()
	if !w.Expect.Held || server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	var held struct {
		Why  string   `json:"why"`
		To   string   `json:"to"`
		Ends []string `json:"ends"`
	}
	if err := server.Get(ctx, acceptPath, &held); err != nil || held.Why == "" {
		return err
	}
	if !strings.Contains(held.Why, "would terminate or remove") {
		return errors.New(held.Why)
	}
	a, err := server.Do(ctx, http.MethodPost, acceptPath+"?commit="+url.QueryEscape(held.To), nil)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("accept %d ends: %d: %s", len(held.Ends), a.Status, a.Body)
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted++
	return nil
}

// acceptPath is the resource of what is held back.
const acceptPath = "/jibe/v1/accept"
