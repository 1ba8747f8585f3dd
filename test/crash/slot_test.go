package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"path/filepath"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// maxLevel is the highest scale level of the small package's aspect.
const maxLevel = 4

// requestWait bounds one request or push; only a hang takes so long.
const requestWait = 3 * time.Minute

// slot works on one instance at a time, one change after another, through the API or by
// git, as its dice choose. Where the instance is gone, it makes the next one.
type slot struct {
	*world
	name  string
	rng   *rand.Rand
	clone *process.Clone
	dir   string // of the present instance, "" before the first
}

// gitDir is where the slot puts the instances that it makes by git. There it is always
// the same, so that a VNF is made again where one was removed a moment ago.
func (s *slot) gitDir() string { return "instances/crash/" + s.name }

func (s *slot) work(ctx context.Context, stop <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-stop:
			return
		default:
		}
		server := s.Await(ctx, stop)
		if server == nil {
			return
		}
		if err := s.change(ctx, server); err != nil {
			s.t.Errorf("%s: %v", s.name, err)
			return
		}
		s.pause(time.Duration(s.rng.Int64N(int64(100 * time.Millisecond))))
	}
}

// change makes one change of what head says now.
func (s *slot) change(ctx context.Context, server *process.Server) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	now, err := s.intent(ctx, s.dir)
	if err != nil {
		return err
	}
	dice := s.rng.IntN(100)
	switch {
	case now == nil && dice < 50:
		return s.create(ctx, server)
	case now == nil:
		s.dir = s.gitDir()
		namespace, err := s.namespace(ctx, s.dir)
		if err != nil {
			return err
		}
		return s.push(ctx, server, "Bring "+s.name, func([]byte) ([]byte, error) {
			return desired.Format(&desired.Instance{
				Name: s.name, VnfdID: process.SmallVnfd, State: desired.Instantiated, Flavour: "simple",
				Levels: map[string]int{"front": s.rng.IntN(maxLevel + 1)}, Params: params(namespace),
			})
		})
	case now.State == desired.NotInstantiated && dice < 20:
		return s.ask(ctx, server, "DELETE", http.MethodDelete, now.ID, "", nil)
	case now.State == desired.NotInstantiated:
		namespace, err := s.namespace(ctx, s.dir)
		if err != nil {
			return err
		}
		if dice < 60 {
			return s.ask(ctx, server, "INSTANTIATE", http.MethodPost, now.ID, "/instantiate", map[string]any{"flavourId": "simple", "additionalParams": params(namespace)})
		}
		return s.edit(ctx, server, "Instantiate "+s.name,
			desired.KeyValue{Path: []string{"state"}, Value: desired.Instantiated},
			desired.KeyValue{Path: []string{"flavour"}, Value: "simple"},
			desired.KeyValue{Path: []string{"params"}, Value: params(namespace)})
	case now.State == desired.Stopped && dice < 40:
		return s.ask(ctx, server, "OPERATE", http.MethodPost, now.ID, "/operate", map[string]any{"changeStateTo": "STARTED"})
	case now.State == desired.Stopped && dice < 60:
		return s.edit(ctx, server, "Start "+s.name, desired.KeyValue{Path: []string{"state"}, Value: desired.Instantiated})
	case dice < 20:
		direction := "SCALE_OUT"
		if level := now.Levels["front"]; level == maxLevel || level > 0 && s.rng.IntN(2) == 0 {
			direction = "SCALE_IN"
		}
		return s.ask(ctx, server, "SCALE", http.MethodPost, now.ID, "/scale", map[string]any{"type": direction, "aspectId": "front", "numberOfSteps": 1})
	case dice < 38:
		level := (now.Levels["front"] + 1 + s.rng.IntN(maxLevel)) % (maxLevel + 1)
		return s.edit(ctx, server, fmt.Sprintf("Let %s be at level %d", s.name, level), desired.KeyValue{Path: []string{"levels", "front"}, Value: level})
	case dice < 70:
		return s.upgrade(ctx, server, now)
	case dice < 80:
		return s.ask(ctx, server, "TERMINATE", http.MethodPost, now.ID, "/terminate", map[string]any{"terminationType": "FORCEFUL"})
	case dice < 85:
		return s.ask(ctx, server, "MODIFY_INFO", http.MethodPatch, now.ID, "", map[string]any{"vnfInstanceDescription": fmt.Sprintf("number %d", s.rng.IntN(1e6))})
	case dice < 88:
		return s.edit(ctx, server, "End "+s.name, desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
	case dice < 92:
		return s.ask(ctx, server, "OPERATE", http.MethodPost, now.ID, "/operate", map[string]any{"changeStateTo": "STOPPED"})
	case dice < 96:
		return s.edit(ctx, server, "Stop "+s.name, desired.KeyValue{Path: []string{"state"}, Value: desired.Stopped})
	}
	return s.push(ctx, server, "Remove "+s.name, func([]byte) ([]byte, error) { return nil, nil })
}

func params(namespace string) map[string]any {
	return map[string]any{"namespace": namespace, "lcm-kubernetes-def-files": process.SmallManifests()}
}

// create makes an instance through the API.
func (s *slot) create(ctx context.Context, server *process.Server) error {
	signal(s.sent)
	a, err := server.Do(ctx, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": s.name})
	if err != nil {
		return s.unanswer(ctx, err) // one that it made all the same stays NOT_INSTANTIATED
	}
	if a.Status != http.StatusCreated {
		return s.refused("CREATE", a)
	}
	s.dir = desired.APIDir(a.ID())
	s.acknowledge(request{"CREATE", "", a.ID(), s.dir})
	return nil
}

// ask makes a request on the slot's instance.
func (s *slot) ask(ctx context.Context, server *process.Server, what, method, instance, task string, body any) error {
	signal(s.sent)
	a, err := server.Do(ctx, method, process.Instances+"/"+instance+task, body)
	if err != nil {
		return s.unanswer(ctx, err)
	}
	switch a.Status {
	case http.StatusAccepted:
		s.acknowledge(request{what, a.ID(), instance, s.dir})
	case http.StatusNoContent:
		s.acknowledge(request{what, "", instance, s.dir})
	default:
		return s.refused(what, a)
	}
	return nil
}

func (s *slot) acknowledge(r request) {
	signal(s.acked)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// unanswer counts what nobody knows of. That a connection was cut is no failure, a
// request that hangs is one.
func (s *slot) unanswer(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %s: %w", requestWait, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered++
	return nil
}

// refused counts an answer that says no. Only what a client has to expect is in order:
// the instance is busy, or a push that removed it was faster.
func (s *slot) refused(what string, a *process.Answer) error {
	if a.Status != http.StatusConflict && a.Status != http.StatusNotFound {
		return fmt.Errorf("%s was answered with %d: %s", what, a.Status, a.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[fmt.Sprintf("%s %d", what, a.Status)]++
	return nil
}

// intent is the slot's instance at head, nil where there is none. It is read with git,
// which works while no server does.
func (w *world) intent(ctx context.Context, dir string) (*desired.Instance, error) {
	return process.Intent(ctx, filepath.Join(w.data, "desired.git"), "main", dir)
}

// edit pushes an edit of the instance's file.
func (s *slot) edit(ctx context.Context, server *process.Server, message string, changes ...desired.KeyValue) error {
	return s.push(ctx, server, message, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, nil // it went meanwhile
		}
		return desired.Edit(path.Join(s.dir, desired.InstanceFile), old, changes...)
	})
}

// push pushes what next makes of the instance's file; nil removes its directory.
func (s *slot) push(ctx context.Context, server *process.Server, message string, next func(old []byte) ([]byte, error)) error {
	commit, err := s.clone.ChangeInstance(ctx, func() string {
		signal(s.sent)
		return s.remote(server)
	}, s.dir, message, next)
	switch {
	case errors.Is(err, process.ErrUnanswered):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unanswered++
	case err != nil:
		return err // every push here is in order
	case commit != "":
		signal(s.acked)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pushes = append(s.pushes, process.Push{Commit: commit, Instance: process.Identity(s.dir), Dir: s.dir})
	}
	return nil
}

// remote is the repository's path or URL.
func (s *slot) remote(server *process.Server) string {
	if s.rng.IntN(2) == 0 {
		return server.Desired()
	}
	return server.DesiredURL()
}
