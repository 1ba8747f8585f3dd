package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
)

// user is a person who looks after some of the instances, through the API and by git.
type user struct {
	*world
	load.Person
	vnfs []*vnf
}

// userPause is the longest pause between two changes that a person asks for.
const userPause = 500 * time.Millisecond

func (u *user) work(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	u.Rng = rng
	return u.Work(ctx, stop, func(ctx context.Context, s *process.Server) error {
		return u.change(ctx, s, u.vnfs[rng.IntN(len(u.vnfs))])
	})
}

// change asks for one change that makes sense for what the instance is now.
func (u *user) change(ctx context.Context, s *process.Server, v *vnf) error {
	now, err := process.Intent(ctx, u.repository, "main", v.dir)
	if err != nil {
		return err
	}
	edit := func(message string, path []string, value any) error {
		return u.Edit(ctx, s, v.dir, message, desired.KeyValue{Path: path, Value: value})
	}
	broken, err := u.broken(ctx, s, v)
	if err != nil {
		return u.unanswered(ctx, v, "look for a failed operation", err)
	}
	if v.calm {
		return u.changeCalmly(ctx, s, v, now, broken)
	}
	dice := u.Rng.IntN(100)
	switch {
	case broken != nil && dice < 75:
		how := []string{"retry", "retry", "fail", "rollback", "rollback", "revert"}[u.Rng.IntN(6)]
		if how == "revert" {
			return u.revert(ctx, s, v)
		}
		return u.resolve(ctx, s, v, broken, how)
	case u.Rng.IntN(100) < upgradePart:
		paths := configPaths()
		if now.VnfdID == trioStuck {
			paths = nil // a container update would lie on the version that gets stuck
		}
		return u.Upgrade(ctx, s, v.dir, now, another(u.Rng, now), paths)
	case now.Suspend && dice < 60:
		return edit("Resume "+v.name, []string{"suspend"}, nil)
	case now.Drift == desired.DriftReport && dice < 40:
		return edit("Correct "+v.name, []string{"drift"}, nil)
	case dice < 30:
		return u.healPods(ctx, s, v)
	case dice < 38:
		return u.Heal(ctx, s, v.dir, map[string]any{"cause": "a person said so"})
	case dice < 42:
		return u.Heal(ctx, s, v.dir, map[string]any{"additionalParams": map[string]any{"all": false}})
	case dice < 60:
		return u.Scale(ctx, s, v.dir, now.Levels["front"], maxLevel)
	case dice < 75:
		return u.Level(ctx, s, v.dir, now, maxLevel)
	case dice < 85:
		units, err := u.units(ctx, s, v)
		if err != nil || len(units) == 0 {
			return u.unanswered(ctx, v, "look for pods", err)
		}
		x := units[u.Rng.IntN(len(units))]
		return u.Condemn(ctx, s, v.dir, v.namespace, x.Compute.Name, x.ID)
	case dice < 93:
		return edit("Suspend "+v.name, []string{"suspend"}, true)
	}
	return edit("Leave the drift of "+v.name, []string{"drift"}, desired.DriftReport)
}

// unanswered counts a look that had no answer.
func (u *user) unanswered(ctx context.Context, v *vnf, what string, err error) error {
	return u.Unanswered(ctx, time.Now(), v.id, what, err)
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
	} `json:"instantiatedVnfInfo"`
}

func (u *user) units(ctx context.Context, s *process.Server, v *vnf) ([]unit, error) {
	var in shown
	err := s.Get(ctx, process.Instances+"/"+v.id, &in)
	return in.Info.Units, err
}

// healPods heals one or two pods that the API shows, by their ids.
func (u *user) healPods(ctx context.Context, s *process.Server, v *vnf) error {
	rng := u.Rng
	units, err := u.units(ctx, s, v)
	if err != nil || len(units) == 0 {
		return u.unanswered(ctx, v, "look for pods", err)
	}
	rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
	var uids []string
	for _, x := range units[:1+rng.IntN(min(2, len(units)))] {
		uids = append(uids, x.ID)
	}
	if rng.IntN(3) == 0 {
		// Somebody else is rid of one of them at the same moment: it is too late for the
		// request, or Jibe finds that its target was replaced.
		var racing sync.WaitGroup
		defer racing.Wait()
		name, late := units[0].Compute.Name, time.Duration(rng.Int64N(int64(60*time.Millisecond)))
		racing.Go(func() {
			kit.Pause(ctx, late)
			err := u.client.CoreV1().Pods(v.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			u.log.note("chaos", v.id, "delete pod %s while it is asked to heal: %v", name, err)
			u.log.count("fault: delete pods that are asked to heal")
		})
	}
	return u.Heal(ctx, s, v.dir, map[string]any{"vnfcInstanceId": uids, "cause": "it looks sick"})
}

// broken is the instance's operation in FAILED_TEMP that a person asked for, nil where
// there is none. What Jibe began by itself it has to end by itself.
func (u *user) broken(ctx context.Context, s *process.Server, v *vnf) (*load.Occurrence, error) {
	failed, err := u.Occurrences(ctx, s, "(eq,operationState,FAILED_TEMP);(eq,vnfInstanceId,"+v.id+")")
	if err != nil || len(failed) == 0 || failed[0].Automatic {
		return nil, err
	}
	return &failed[0], nil
}

// resolve asks for the end of a failed operation.
func (u *user) resolve(ctx context.Context, s *process.Server, v *vnf, op *load.Occurrence, how string) error {
	u.log.note("user", v.id, "%s %s is in FAILED_TEMP: %d %s", op.Type, op.ID, op.Error.Status, op.Error.Detail)
	if op.Error.Detail == "" || op.Error.Status == 0 {
		return u.about(v, "%s %s is in FAILED_TEMP and doesn't say why: %+v", op.Type, op.ID, op.Error)
	}
	u.mu.Lock()
	was := u.ended[op.ID]
	if how != "retry" {
		u.ended[op.ID] += " " + how // before it is known: the answer may get lost
	}
	u.mu.Unlock()
	a, err := s.Do(ctx, http.MethodPost, process.Operations+"/"+op.ID+"/"+how, nil)
	if err != nil {
		return u.unanswered(ctx, v, how, err)
	}
	u.log.note("user", v.id, "%s %s %s: %d %s", how, op.Type, op.ID, a.Status, a.Body)
	u.log.count(fmt.Sprintf("%s answered with %d", how, a.Status))
	switch a.Status {
	case http.StatusOK, http.StatusAccepted:
	case http.StatusConflict:
		u.mu.Lock()
		u.ended[op.ID] = was
		u.mu.Unlock()
	default:
		return u.about(v, "%s of %s was answered with %d: %s", how, op.ID, a.Status, a.Body)
	}
	return nil
}
