package load

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// maxLevel is the highest scale level of the small package's aspect.
const maxLevel = 4

// Slot works on one instance at a time, one change after another, through the API or by
// git, as its dice choose. Where the instance is gone, it makes the next one.
type Slot struct {
	Person // Name is part of the names of its instances

	dir string // of the present instance, "" before the first
}

// gitDir is where the slot puts the instances that it makes by git. There it is always
// the same, so that a VNF is made again where one was removed a moment ago.
func (s *Slot) gitDir() string { return "instances/crash/" + s.Name }

// Work makes changes until stop is closed. Its error is of what must not happen.
func (s *Slot) Work(ctx context.Context, stop <-chan struct{}) error {
	return s.Person.Work(ctx, stop, s.change)
}

// change makes one change of what head says now.
func (s *Slot) change(ctx context.Context, server *process.Server) error {
	now, err := s.intent(ctx, s.dir)
	if err != nil {
		return err
	}
	dice := s.Rng.IntN(100)
	switch {
	case now == nil && dice < 50:
		return s.create(ctx, server)
	case now == nil:
		s.dir = s.gitDir()
		namespace, err := s.namespace(ctx, s.dir)
		if err != nil {
			return err
		}
		return s.push(ctx, server, s.dir, "Bring "+s.Name, func([]byte) ([]byte, error) {
			return desired.Format(&desired.Instance{
				Name: s.Name, VnfdID: process.SmallVnfd, State: desired.Instantiated, Flavour: "simple",
				Levels: map[string]int{"front": s.Rng.IntN(maxLevel + 1)}, Params: params(namespace),
				Supersede: desired.SupersedeNever,
			})
		})
	case now.State == desired.NotInstantiated && dice < 20:
		return s.ask(ctx, server, "DELETE", http.MethodDelete, "", nil)
	case now.State == desired.NotInstantiated:
		namespace, err := s.namespace(ctx, s.dir)
		if err != nil {
			return err
		}
		if dice < 60 {
			return s.ask(ctx, server, "INSTANTIATE", http.MethodPost, "/instantiate", map[string]any{"flavourId": "simple", "additionalParams": params(namespace)})
		}
		return s.Edit(ctx, server, s.dir, "Instantiate "+s.Name,
			desired.KeyValue{Path: []string{"state"}, Value: desired.Instantiated},
			desired.KeyValue{Path: []string{"flavour"}, Value: "simple"},
			desired.KeyValue{Path: []string{"params"}, Value: params(namespace)})
	case now.State == desired.Stopped && dice < 40:
		return s.ask(ctx, server, "OPERATE", http.MethodPost, "/operate", map[string]any{"changeStateTo": "STARTED"})
	case now.State == desired.Stopped && dice < 60:
		return s.Edit(ctx, server, s.dir, "Start "+s.Name, desired.KeyValue{Path: []string{"state"}, Value: desired.Instantiated})
	case dice < 20:
		return s.Scale(ctx, server, s.dir, now.Levels["front"], maxLevel)
	case dice < 38:
		return s.Level(ctx, server, s.dir, now, maxLevel)
	case dice < 70:
		to := process.SmallVnfd
		if now.VnfdID == to {
			to = NextVnfd
		}
		return s.Upgrade(ctx, server, s.dir, now, to, configPaths())
	case dice < 80:
		return s.ask(ctx, server, "TERMINATE", http.MethodPost, "/terminate", map[string]any{"terminationType": "FORCEFUL"})
	case dice < 85:
		return s.ask(ctx, server, "MODIFY_INFO", http.MethodPatch, "", map[string]any{"vnfInstanceDescription": fmt.Sprintf("number %d", s.Rng.IntN(1e6))})
	case dice < 88:
		return s.Edit(ctx, server, s.dir, "End "+s.Name, desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
	case dice < 92:
		return s.ask(ctx, server, "OPERATE", http.MethodPost, "/operate", map[string]any{"changeStateTo": "STOPPED"})
	case dice < 96 || s.dir != s.gitDir():
		// A removal goes before an operation under way that was asked for while nothing said that it may not.
		return s.Edit(ctx, server, s.dir, "Stop "+s.Name, desired.KeyValue{Path: []string{"state"}, Value: desired.Stopped})
	}
	return s.push(ctx, server, s.dir, "Remove "+s.Name, func([]byte) ([]byte, error) { return nil, nil })
}

func params(namespace string) map[string]any {
	return map[string]any{"namespace": namespace, "lcm-kubernetes-def-files": process.SmallManifests()}
}

// create makes an instance through the API.
func (s *Slot) create(ctx context.Context, server *process.Server) error {
	// One that it makes although the answer is lost stays NOT_INSTANTIATED.
	r, err := s.Ask(ctx, server, http.MethodPost, "", "", map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": s.Name}, Request{What: "CREATE"})
	if r != nil {
		s.dir = r.Dir
	}
	return err
}

// ask makes a request on the slot's instance.
func (s *Slot) ask(ctx context.Context, server *process.Server, what, method, task string, body any) error {
	_, err := s.Ask(ctx, server, method, s.dir, task, body, Request{What: what})
	return err
}

// intent is the slot's instance at head, nil where there is none. It is read with git,
// which works while no server does.
func (w *World) intent(ctx context.Context, dir string) (*desired.Instance, error) {
	return process.Intent(ctx, w.Repository, "main", dir)
}
