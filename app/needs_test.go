package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// occurrence is what a test sees of an operation that waits.
type occurrence struct {
	ID      string    `json:"id"`
	Type    string    `json:"operation"`
	State   string    `json:"operationState"`
	Entered time.Time `json:"stateEnteredTime"`
	Jibe    struct {
		Waiting struct {
			For string `json:"for"`
		} `json:"waiting"`
	} `json:"jibe"`
}

// waitsFor waits until the last operation of an instance is in STARTING and waits for this.
func waitsFor(t *testing.T, s *process.Server, instance, what string) (op occurrence) {
	t.Helper()
	kit.Eventually(t, func() error {
		op = lastOf(t, s, instance)
		if op.State != "STARTING" || !strings.Contains(op.Jibe.Waiting.For, what) {
			return fmt.Errorf("it doesn't wait for %q: %+v", what, op)
		}
		return nil
	})
	return op
}

// lastOf is the last operation of an instance.
func lastOf(t *testing.T, s *process.Server, instance string) (op occurrence) {
	t.Helper()
	var list []occurrence
	if err := s.Get(t.Context(), process.Operations+"?all_fields&filter=(eq,vnfInstanceId,"+instance+")", &list); err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if op.ID == "" || !x.Entered.Before(op.Entered) {
			op = x
		}
	}
	return op
}

// inFolder is a file of an instance with its own place at the simulator.
func inFolder(name, extra string) string {
	return strings.Replace(instance(extra), "namespace: a", "namespace: "+name, 1)
}

func TestARequestThatHasToWaitIsAnswered202AndShownAndCancelledAtOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	repository(t, s, map[string]string{
		"vims/cloud.yaml":          "type: sim\ndefault: true\n",
		"instances/front/vnf.yaml": inFolder("front", "state: notInstantiated\nneeds: [instances/core]\n"),
		"instances/core/vnf.yaml":  inFolder("core", "state: notInstantiated\n"),
	})
	front, core := desired.DeriveID("instances/front"), desired.DeriveID("instances/core")
	instantiate := func(id string) string {
		t.Helper()
		return s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+id+"/instantiate", map[string]any{"flavourId": "simple"}, nil).ID()
	}
	first := instantiate(front)
	waitsFor(t, s, front, "what it needs: instances/core, which git doesn't ask to be instantiated")
	kit.Until(t, "the metrics tell of it", func() bool {
		shown := scrape(t, s, "text/plain")
		return strings.Contains(shown, `jibe_lcm_operations_waiting_for_instances{type="INSTANTIATE"} 1`) &&
			strings.Contains(shown, `jibe_lcm_operations_waiting_for_instances_since_timestamp_seconds{type="INSTANTIATE"} 1`)
	})
	s.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+first+"/cancel", map[string]any{"cancelMode": "GRACEFUL"}, nil)
	if op := lastOf(t, s, front); op.State != "ROLLED_BACK" {
		t.Errorf("it was cancelled and is %s", op.State)
	}
	kit.Until(t, "the metrics forget it", func() bool {
		return !strings.Contains(scrape(t, s, "text/plain"), "jibe_lcm_operations_waiting_for_instances")
	})
	second := ""
	kit.Eventually(t, func() error { // git is to get the outcome before
		a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+front+"/instantiate", map[string]any{"flavourId": "simple"})
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		if err == nil {
			second = a.ID()
		}
		return err
	})
	waitsFor(t, s, front, "instances/core")
	s.Await(t, instantiate(core), "COMPLETED")
	s.Await(t, second, "COMPLETED")
}

func TestWhatWaitsAtOneReplicaIsWokenByWhatAnotherHasDoneAlsoAfterATakeover(t *testing.T) {
	r, s := newReplicas(t, 3)
	for _, one := range s {
		r.members(one, 3)
	}
	const pairs = 8
	files := map[string]string{}
	dir := func(what string, n int) string { return fmt.Sprintf("instances/%s-%d", what, n) }
	for n := range pairs {
		front, core := dir("front", n), dir("core", n)
		files[front+"/vnf.yaml"] = inFolder(fmt.Sprintf("f%d", n), "needs: ["+core+"]\n")
		files[core+"/vnf.yaml"] = inFolder(fmt.Sprintf("c%d", n), "state: notInstantiated\n")
	}
	r.work.WriteFiles(files)
	r.work.Push("A network")
	r.poke(s[0])
	for n := range pairs {
		waitsFor(t, s[n%3], desired.DeriveID(dir("front", n)), dir("core", n))
	}
	r.stop[0]()
	r.members(s[1], 2)
	stalled := r.stalls()
	for n := range pairs {
		waitsFor(t, s[1+n%2], desired.DeriveID(dir("front", n)), dir("core", n))
		s[1+n%2].Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+desired.DeriveID(dir("core", n))+"/instantiate", map[string]any{"flavourId": "simple"}, nil)
	}
	for n := range pairs {
		front, core := desired.DeriveID(dir("front", n)), desired.DeriveID(dir("core", n))
		r.runs(s[1], front, 1)
		kit.Until(t, "it is recorded", func() bool { return lastOf(t, s[2], front).State == "COMPLETED" })
		// Nobody looks by himself before a quarter of a minute is over.
		was, is := lastOf(t, s[2], core).Entered, lastOf(t, s[2], front).Entered
		if still := stalled(); is.Before(was) || is.Sub(was) > 10*time.Second+still {
			t.Errorf("%s completed %s after the core, and the machine stood still for %s at most", dir("front", n), is.Sub(was), still)
		}
	}
}

// stalls looks after this process and its Redis from now on, and tells the longest time for which one of them stood
// still: a machine that is busy with something else says nothing of who wakes whom.
func (r *together) stalls() (longest func() time.Duration) {
	r.Helper()
	const pause = 20 * time.Millisecond
	var most atomic.Int64
	c := r.redis.Client(r)
	ctx, stop := context.WithCancel(r.Context())
	done := make(chan struct{})
	r.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for last := time.Now(); ctx.Err() == nil; last = time.Now() {
			kit.Pause(ctx, pause)
			_ = c.Ping(ctx).Err()
			most.Store(max(most.Load(), int64(time.Since(last)-pause)))
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}
