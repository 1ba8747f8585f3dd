package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/process"
)

// user is a person who looks after some of the instances, through the API and by git.
type user struct {
	*world
	clone *process.Clone
	vnfs  []*vnf
}

// request is an acknowledged request that began an operation (202).
type request struct {
	what, operation string
	vnf             *vnf
	// pods are the UIDs of the pods that it asked to heal; steps the scale steps, less
	// than none for in.
	pods  []string
	steps int
	// vnfd is the version that it asked for, and blueGreen the way.
	vnfd      string
	blueGreen bool
	method    string // "" is POST
}

// userEvery is the mean time between two changes that a person asks for.
const userEvery = 250 * time.Millisecond

func (u *user) work(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	for u.rest(stop, time.Duration(rng.Int64N(int64(2*userEvery)))) {
		s := u.Await(ctx, stop)
		if s == nil {
			return nil
		}
		if err := u.change(ctx, s, rng, u.vnfs[rng.IntN(len(u.vnfs))]); err != nil {
			return err
		}
	}
	return nil
}

// change asks for one change that makes sense for what the instance is now.
func (u *user) change(ctx context.Context, s *process.Server, rng *rand.Rand, v *vnf) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	now, err := process.Intent(ctx, u.repository, "main", v.dir)
	if err != nil {
		return err
	}
	level := now.Levels["front"]
	other := (level + 1 + rng.IntN(maxLevel)) % (maxLevel + 1)
	edit := func(message string, path []string, value any) error {
		return u.push(ctx, s, rng, v, message, desired.KeyValue{Path: path, Value: value})
	}
	broken, err := u.broken(ctx, s, v)
	if err != nil {
		return u.unanswered(ctx, v, "look for a failed operation", err)
	}
	if v.calm {
		return u.changeCalmly(ctx, s, rng, v, now, broken)
	}
	dice := rng.IntN(100)
	switch {
	case broken != nil && dice < 75:
		how := []string{"retry", "retry", "fail", "rollback", "rollback", "revert"}[rng.IntN(6)]
		if how == "revert" {
			return u.revert(ctx, s, rng, v)
		}
		return u.resolve(ctx, s, v, broken, how)
	case rng.IntN(100) < upgradePart:
		return u.upgrade(ctx, s, rng, v, now)
	case now.Suspend && dice < 60:
		return edit("Resume "+v.name, []string{"suspend"}, nil)
	case now.Drift == desired.DriftReport && dice < 40:
		return edit("Correct "+v.name, []string{"drift"}, nil)
	case dice < 30:
		return u.healPods(ctx, s, rng, v)
	case dice < 38:
		return u.ask(ctx, s, v, request{what: string(lcm.Heal)}, "/heal", map[string]any{"cause": "a person said so"})
	case dice < 42:
		return u.ask(ctx, s, v, request{what: string(lcm.Heal)}, "/heal", map[string]any{"additionalParams": map[string]any{"all": false}})
	case dice < 60:
		direction, steps := "SCALE_OUT", 1
		if level == maxLevel || level > 0 && rng.IntN(2) == 0 {
			direction, steps = "SCALE_IN", -1
		}
		return u.ask(ctx, s, v, request{what: string(lcm.Scale), steps: steps}, "/scale", map[string]any{"type": direction, "aspectId": "front", "numberOfSteps": 1})
	case dice < 75:
		return edit(fmt.Sprintf("Let %s be at level %d", v.name, other), []string{"levels", "front"}, other)
	case dice < 85:
		units, err := u.units(ctx, s, v)
		if err != nil || len(units) == 0 {
			return u.unanswered(ctx, v, "look for pods", err)
		}
		x := units[rng.IntN(len(units))]
		return edit("Heal "+x.Compute.Name, []string{"condemned", "Pod/" + v.namespace + "/" + x.Compute.Name}, x.ID)
	case dice < 93:
		return edit("Suspend "+v.name, []string{"suspend"}, true)
	}
	return edit("Leave the drift of "+v.name, []string{"drift"}, desired.DriftReport)
}

// unit is what this test reads of a VnfcResourceInfo (SOL003 v3.3.1 clause 5.5.3.5).
type unit struct {
	ID      string `json:"id"`
	VDU     string `json:"vduId"`
	Compute struct {
		Name string `json:"resourceId"`
	} `json:"computeResource"`
}

// shown is what this test reads of a VnfInstance.
type shown struct {
	ID    string `json:"id"`
	Vnfd  string `json:"vnfdId"`
	State string `json:"instantiationState"`
	Info  struct {
		Units []unit `json:"vnfcResourceInfo"`
		Scale []struct {
			Level int `json:"scaleLevel"`
		} `json:"scaleStatus"`
	} `json:"instantiatedVnfInfo"`
}

func (u *user) units(ctx context.Context, s *process.Server, v *vnf) ([]unit, error) {
	var in shown
	err := s.Get(ctx, process.Instances+"/"+v.id, &in)
	return in.Info.Units, err
}

// healPods heals one or two pods that the API shows, by their ids.
func (u *user) healPods(ctx context.Context, s *process.Server, rng *rand.Rand, v *vnf) error {
	units, err := u.units(ctx, s, v)
	if err != nil || len(units) == 0 {
		return u.unanswered(ctx, v, "look for pods", err)
	}
	rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
	r := request{what: string(lcm.Heal)}
	for _, x := range units[:1+rng.IntN(min(2, len(units)))] {
		r.pods = append(r.pods, x.ID)
	}
	if rng.IntN(3) == 0 {
		// Somebody else is rid of one of them at the same moment: it is too late for the
		// request, or Jibe finds that its target was replaced.
		var racing sync.WaitGroup
		defer racing.Wait()
		name, late := units[0].Compute.Name, time.Duration(rng.Int64N(int64(60*time.Millisecond)))
		racing.Go(func() {
			u.rest(nil, late)
			err := u.client.CoreV1().Pods(v.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			u.log.note("chaos", v.id, "delete pod %s while it is asked to heal: %v", name, err)
			u.log.count("fault: delete pods that are asked to heal")
		})
	}
	return u.ask(ctx, s, v, r, "/heal", map[string]any{"vnfcInstanceId": r.pods, "cause": "it looks sick"})
}

// ask makes a request and remembers it where it is acknowledged.
func (w *world) ask(ctx context.Context, s *process.Server, v *vnf, r request, task string, body any) error {
	what := strings.TrimSpace(r.what + " " + strings.Join(r.pods, ","))
	a, err := s.Do(ctx, cmp.Or(r.method, http.MethodPost), process.Instances+"/"+v.id+task, body)
	if err != nil {
		return w.unanswered(ctx, v, what, err)
	}
	w.log.note("user", v.id, "%s: %d %s %s", what, a.Status, a.ID(), a.Body)
	w.log.count(fmt.Sprintf("%s answered with %d", r.what, a.Status))
	switch a.Status {
	case http.StatusAccepted:
		w.mu.Lock()
		defer w.mu.Unlock()
		r.operation, r.vnf = a.ID(), v
		w.requests = append(w.requests, r)
	case http.StatusConflict: // busy, suspended, nothing to heal
	case http.StatusServiceUnavailable: // the VIM is away
	case http.StatusBadRequest:
		// Chaos was faster with one of the pods.
		if len(r.pods) > 0 && slices.ContainsFunc(r.pods, func(id string) bool { return strings.Contains(string(a.Body), id) }) {
			return nil
		}
		fallthrough
	default:
		return w.about(v, "%s was answered with %d: %s", what, a.Status, a.Body)
	}
	return nil
}

// unanswered counts what nobody knows of. That a connection was cut is no failure, a
// request that hangs is one.
func (w *world) unanswered(ctx context.Context, v *vnf, what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return w.about(v, "%s: no answer in %s: %w", what, requestWait, err)
	}
	w.log.note("user", v.id, "%s: no answer: %v", what, err)
	w.log.count("requests without an answer")
	return nil
}

// broken is the instance's operation in FAILED_TEMP that a person asked for, nil where
// there is none. What Jibe began by itself it has to end by itself.
func (w *world) broken(ctx context.Context, s *process.Server, v *vnf) (*occurrence, error) {
	filter := "filter=" + url.QueryEscape("(eq,operationState,FAILED_TEMP);(eq,vnfInstanceId,"+v.id+")")
	failed, err := process.All[occurrence](ctx, s, process.Operations+"?all_fields&"+filter)
	if err != nil || len(failed) == 0 || failed[0].Automatic {
		return nil, err
	}
	return &failed[0], nil
}

// resolve asks for the end of a failed operation.
func (w *world) resolve(ctx context.Context, s *process.Server, v *vnf, op *occurrence, how string) error {
	w.log.note("user", v.id, "%s %s is in FAILED_TEMP: %d %s", op.Type, op.ID, op.Error.Status, op.Error.Detail)
	if op.Error.Detail == "" || op.Error.Status == 0 {
		return w.about(v, "%s %s is in FAILED_TEMP and doesn't say why: %+v", op.Type, op.ID, op.Error)
	}
	w.mu.Lock()
	was := w.ended[op.ID]
	if how != "retry" {
		w.ended[op.ID] += " " + how // before it is known: the answer may get lost
	}
	w.mu.Unlock()
	a, err := s.Do(ctx, http.MethodPost, process.Operations+"/"+op.ID+"/"+how, nil)
	if err != nil {
		return w.unanswered(ctx, v, how, err)
	}
	w.log.note("user", v.id, "%s %s %s: %d %s", how, op.Type, op.ID, a.Status, a.Body)
	w.log.count(fmt.Sprintf("%s answered with %d", how, a.Status))
	switch a.Status {
	case http.StatusOK, http.StatusAccepted:
	case http.StatusConflict:
		w.mu.Lock()
		w.ended[op.ID] = was
		w.mu.Unlock()
	default:
		return w.about(v, "%s of %s was answered with %d: %s", how, op.ID, a.Status, a.Body)
	}
	return nil
}

// push pushes a change of the instance's file.
func (u *user) push(ctx context.Context, s *process.Server, rng *rand.Rand, v *vnf, message string, changes ...desired.KeyValue) error {
	remote := s.Desired()
	if rng.IntN(2) == 0 {
		remote = s.DesiredURL()
	}
	commit, err := u.clone.ChangeInstance(ctx, func() string { return remote }, v.dir, message, func(old []byte) ([]byte, error) {
		return desired.Edit(path.Join(v.dir, desired.InstanceFile), old, changes...)
	})
	switch {
	case errors.Is(err, process.ErrUnanswered):
		return u.unanswered(ctx, v, message, err)
	case err != nil:
		return u.about(v, "%s: %w", message, err)
	case commit != "":
		u.log.note("user", v.id, "push %s %s", commit[:7], message)
		u.log.count("pushes")
		u.mu.Lock()
		defer u.mu.Unlock()
		u.pushes = append(u.pushes, process.Push{Commit: commit, Instance: v.id, Dir: v.dir})
	}
	return nil
}
