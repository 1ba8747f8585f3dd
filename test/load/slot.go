package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// maxLevel is the highest scale level of the small package's aspect.
const maxLevel = 4

// requestWait bounds one request or push; only a hang takes so long.
const requestWait = 3 * time.Minute

// slotPause is the longest pause between two changes of a slot.
const slotPause = 100 * time.Millisecond

// Slot works on one instance at a time, one change after another, through the API or by
// git, as its dice choose. Where the instance is gone, it makes the next one.
type Slot struct {
	*World
	// Name is part of the names of its instances; Clone is its own, of the desired repository.
	Name  string
	Rng   *rand.Rand
	Clone *process.Clone
	// Pause is the longest pause between two changes, 0 the usual one.
	Pause time.Duration

	dir      string // of the present instance, "" before the first
	doubtful bool   // nobody knows what came of a request
}

// gitDir is where the slot puts the instances that it makes by git. There it is always
// the same, so that a VNF is made again where one was removed a moment ago.
func (s *Slot) gitDir() string { return "instances/crash/" + s.Name }

// Work makes changes until stop is closed. Its error is of what must not happen.
func (s *Slot) Work(ctx context.Context, stop <-chan struct{}) error {
	for {
		server := s.Servers.Await(ctx, stop)
		if server == nil {
			return nil
		}
		if err := s.change(ctx, server); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if !rest(ctx, stop, upTo(s.Rng, cmp.Or(s.Pause, slotPause))) {
			return nil
		}
	}
}

// upTo is a time from none up to a limit.
func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit)))
}

// rest passes time, and says whether it wasn't stopped meanwhile.
func rest(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	default:
	}
	select {
	case <-stop:
		return false
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// change makes one change of what head says now.
func (s *Slot) change(ctx context.Context, server *process.Server) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
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
		return s.push(ctx, server, "Bring "+s.Name, func([]byte) ([]byte, error) {
			return desired.Format(&desired.Instance{
				Name: s.Name, VnfdID: process.SmallVnfd, State: desired.Instantiated, Flavour: "simple",
				Levels: map[string]int{"front": s.Rng.IntN(maxLevel + 1)}, Params: params(namespace),
				Supersede: desired.SupersedeNever,
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
		return s.edit(ctx, server, "Instantiate "+s.Name,
			desired.KeyValue{Path: []string{"state"}, Value: desired.Instantiated},
			desired.KeyValue{Path: []string{"flavour"}, Value: "simple"},
			desired.KeyValue{Path: []string{"params"}, Value: params(namespace)})
	case now.State == desired.Stopped && dice < 40:
		return s.ask(ctx, server, "OPERATE", http.MethodPost, now.ID, "/operate", map[string]any{"changeStateTo": "STARTED"})
	case now.State == desired.Stopped && dice < 60:
		return s.edit(ctx, server, "Start "+s.Name, desired.KeyValue{Path: []string{"state"}, Value: desired.Instantiated})
	case dice < 20:
		direction := "SCALE_OUT"
		if level := now.Levels["front"]; level == maxLevel || level > 0 && s.Rng.IntN(2) == 0 {
			direction = "SCALE_IN"
		}
		return s.ask(ctx, server, "SCALE", http.MethodPost, now.ID, "/scale", map[string]any{"type": direction, "aspectId": "front", "numberOfSteps": 1})
	case dice < 38:
		level := (now.Levels["front"] + 1 + s.Rng.IntN(maxLevel)) % (maxLevel + 1)
		return s.edit(ctx, server, fmt.Sprintf("Let %s be at level %d", s.Name, level), desired.KeyValue{Path: []string{"levels", "front"}, Value: level})
	case dice < 70:
		return s.upgrade(ctx, server, now)
	case dice < 80:
		return s.ask(ctx, server, "TERMINATE", http.MethodPost, now.ID, "/terminate", map[string]any{"terminationType": "FORCEFUL"})
	case dice < 85:
		return s.ask(ctx, server, "MODIFY_INFO", http.MethodPatch, now.ID, "", map[string]any{"vnfInstanceDescription": fmt.Sprintf("number %d", s.Rng.IntN(1e6))})
	case dice < 88:
		return s.edit(ctx, server, "End "+s.Name, desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
	case dice < 92:
		return s.ask(ctx, server, "OPERATE", http.MethodPost, now.ID, "/operate", map[string]any{"changeStateTo": "STOPPED"})
	case dice < 96 || now.Supersede == "": // a removal would go first, where no push has said that it may not
		return s.edit(ctx, server, "Stop "+s.Name, desired.KeyValue{Path: []string{"state"}, Value: desired.Stopped})
	}
	return s.push(ctx, server, "Remove "+s.Name, func([]byte) ([]byte, error) { return nil, nil })
}

func params(namespace string) map[string]any {
	return map[string]any{"namespace": namespace, "lcm-kubernetes-def-files": process.SmallManifests()}
}

// create makes an instance through the API.
func (s *Slot) create(ctx context.Context, server *process.Server) error {
	signal(s.Sent)
	began := time.Now()
	a, err := server.Do(ctx, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": s.Name})
	if err != nil {
		return s.unanswer(ctx, began, "CREATE", err) // one that it made all the same stays NOT_INSTANTIATED
	}
	if a.Status != http.StatusCreated {
		return s.refused(began, "CREATE", a)
	}
	s.dir = desired.APIDir(a.ID())
	s.acknowledge(request{what: "CREATE", instance: a.ID(), dir: s.dir})
	return nil
}

// ask makes a request on the slot's instance. What a former one came to that nobody knows of may
// show at any later moment, also between the slot's look at the instance and this request.
func (s *Slot) ask(ctx context.Context, server *process.Server, what, method, instance, task string, body any) error {
	known, err := s.World.ask(ctx, server, request{what: what, instance: instance, dir: s.dir, doubtful: s.doubtful}, method, task, body)
	s.doubtful = s.doubtful || !known
	return err
}

// ask makes a request on an instance, and says whether it is known what came of it.
func (w *World) ask(ctx context.Context, server *process.Server, r request, method, task string, body any) (known bool, err error) {
	signal(w.Sent)
	began := time.Now()
	a, err := server.Do(ctx, method, process.Instances+"/"+r.instance+task, body)
	if err != nil {
		return false, w.unanswer(ctx, began, r.what, err)
	}
	switch {
	case a.Status == http.StatusAccepted:
		r.operation = a.ID()
		w.acknowledge(r)
	case a.Status == http.StatusNoContent:
		w.acknowledge(r)
	case a.Status == http.StatusBadRequest && r.doubtful:
		w.count(r.what, a)
	default:
		return a.Status < http.StatusInternalServerError, w.refused(began, r.what, a)
	}
	return true, nil
}

// intent is the slot's instance at head, nil where there is none. It is read with git,
// which works while no server does.
func (w *World) intent(ctx context.Context, dir string) (*desired.Instance, error) {
	return process.Intent(ctx, w.Repository, "main", dir)
}

// edit pushes an edit of the instance's file.
func (s *Slot) edit(ctx context.Context, server *process.Server, message string, changes ...desired.KeyValue) error {
	return s.push(ctx, server, message, edited(s.dir, changes...))
}

// edited is what an edit makes of the file of the instance in a directory. It waits its turn: each push
// that is accepted is to be operated on.
func edited(dir string, changes ...desired.KeyValue) func(old []byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, nil // it went meanwhile
		}
		changes := append([]desired.KeyValue{{Path: []string{"supersede"}, Value: desired.SupersedeNever}}, changes...)
		return desired.Edit(path.Join(dir, desired.InstanceFile), old, changes...)
	}
}

func (s *Slot) push(ctx context.Context, server *process.Server, message string, next func(old []byte) ([]byte, error)) error {
	_, err := s.World.push(ctx, server, s.Rng, s.Clone, s.dir, message, next)
	return err
}
