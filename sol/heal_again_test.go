package sol_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/store"
)

func TestHealOfVNFCsAloneNeedsOne(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	e.view.units[id] = nil
	e.want(409, "POST", path+"/heal", `{"additionalParams": {"all": false}}`)
	if d := e.want(400, "POST", path+"/heal", `{"vnfcInstanceId": ["a-uid"]}`).detail(t); !strings.Contains(d, "it has no VNFC now") {
		t.Error(d)
	}
}

func TestOfConcurrentHealsExactlyOneIsAccepted(t *testing.T) {
	e := setup(t)
	_, path := e.sickly()
	commits := len(e.repo.commits)
	var wg sync.WaitGroup
	status := make([]int, 16)
	for i := range status {
		body := []string{`{}`, `{"vnfcInstanceId": ["a-uid"]}`, `{"additionalParams": {"all": false}}`}[i%3]
		wg.Go(func() { status[i] = e.do("POST", path+"/heal", body).StatusCode })
	}
	wg.Wait()
	slices.Sort(status)
	if status[0] != 202 || status[1] != 409 || status[15] != 409 || len(e.repo.commits) != commits+1 {
		t.Errorf("%v, %d commits", status, len(e.repo.commits)-commits)
	}
}

func TestAHealThatFailedIsGivenUpAndAskedAgainWithWhatRunsThen(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	op := e.begun(e.want(202, "POST", path+"/heal", `{"vnfcInstanceId": ["a-uid"]}`))
	after := []plan.Unit{pod("a2-uid", "VDU1", "vdu1-2"), pod("b-uid", "VDU2", "vdu2-1")}
	e.move(op, after, lcm.Broke)
	a := e.want(409, "POST", api+"/vnf_lcm_op_occs/"+op+"/rollback", "")
	if !strings.Contains(a.detail(t), "HEAL") {
		t.Errorf("%s", a.body)
	}
	e.want(200, "POST", api+"/vnf_lcm_op_occs/"+op+"/fail", "")
	// The reconciler's part: the directory as before, marked.
	before := strings.Join(slices.DeleteFunc(strings.SplitAfter(e.repo.text(id), "\n"), func(l string) bool {
		return strings.Contains(l, "condemned") || strings.Contains(l, "a-uid")
	}), "")
	rev := e.repo.push(id, before+"held: "+op+"\n")
	if _, err := e.oplog.Record(t.Context(), op, func(_ *lcm.Operation, i *lcm.Instance) error {
		i.Operated, i.OutstandingCommit = rev, ""
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e.want(400, "POST", path+"/heal", `{"vnfcInstanceId": ["a-uid"]}`)
	e.want(202, "POST", path+"/heal", `{"vnfcInstanceId": ["a2-uid"]}`)
	if d := cmp.Diff(map[string]string{"Pod/amf/vdu1-2": "a2-uid"}, e.condemned(id)); d != "" {
		t.Error(d)
	}
	if strings.Contains(e.repo.text(id), "held") {
		t.Errorf("still held:\n%s", e.repo.text(id))
	}
}

func TestAHealByItselfGivesWayAndShowsItsCause(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	head, _ := e.repo.Lookup(id)
	op, err := e.oplog.Born(t.Context(), lcm.Operation{ID: "op-drift", Instance: id, Type: lcm.Heal, Automatic: true, Before: head, After: head,
		Params: json.RawMessage(`{"cause": "Deployment/amf/vdu1: spec.replicas is 0"}`)})
	if err != nil {
		t.Fatal(err)
	}
	e.move(op.ID, nil, lcm.Broke)
	o := occurrence(e, op.ID)
	if !o.IsAutomaticInvocation || !strings.Contains(string(o.OperationParams), "spec.replicas") {
		t.Errorf("%+v", o)
	}
	e.want(202, "POST", path+"/heal", `{}`)
	if o := occurrence(e, op.ID); o.OperationState != lcm.Failed {
		t.Errorf("%+v", o)
	}
}

func TestARequestWaitsForARepairThatIsUnderWay(t *testing.T) {
	for name, took := range map[string]time.Duration{"at once": 0, "while nobody looked until the time was up": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { waitsForRepair(t, took) })
		})
	}
}

// waitsForRepair has a request wait for a repair that ends when it is looked for, which takes so long.
func waitsForRepair(t *testing.T, took time.Duration) {
	const repair = "op-drift"
	e := build(t, func(c *sol.Config) { // in a bubble there are no tests within the test
		log := c.Operations
		// A waiting request asks the reconciler to look, which ends the repair.
		c.Poke = func(string) {
			time.Sleep(took) // of the bubble
			_, err := log.Record(context.Background(), repair, func(op *lcm.Operation, _ *lcm.Instance) error {
				if op.State != lcm.Processing {
					return nil
				}
				return op.Advance(lcm.Converged, time.Now(), nil)
			})
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		}
	})
	id, path := e.sickly()
	head, _ := e.repo.Lookup(id)
	op, err := e.oplog.Born(t.Context(), lcm.Operation{ID: repair, Instance: id, Type: lcm.Heal, Automatic: true, Before: head, After: head})
	if err != nil {
		t.Fatal(err)
	}
	e.move(op.ID, nil)
	e.want(202, "POST", path+"/heal", `{}`)
	if o := occurrence(e, op.ID); o.OperationState != lcm.Completed {
		t.Errorf("the repair is %s", o.OperationState)
	}
}

// tombstones is a file's end with one entry that has done its work and one that hasn't.
const tombstones = `condemned: # by hand
  # the first
  Pod/amf/vdu1-7: spent-uid
  # the second
  Pod/amf/bare: bare-uid # it hangs
`

func TestTheNextRequestDropsSpentTombstonesAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		method, task, body string
		unseen             bool
		want               map[string]string
	}{
		"scale": {"POST", "/scale", scaleOut, false, map[string]string{"Pod/amf/bare": "bare-uid"}},
		"heal":  {"POST", "/heal", `{"vnfcInstanceId": ["a-uid"]}`, false, map[string]string{"Pod/amf/bare": "bare-uid", "Pod/amf/vdu1-1": "a-uid"}},
		"patch": {"PATCH", "", `{"vnfInstanceName": "x"}`, false, map[string]string{"Pod/amf/bare": "bare-uid"}},
		"patch while the VIM can't be seen": {"PATCH", "", `{"vnfInstanceName": "x"}`, true,
			map[string]string{"Pod/amf/bare": "bare-uid", "Pod/amf/vdu1-7": "spent-uid"}},
		"terminate": {"POST", "/terminate", `{"terminationType": "FORCEFUL"}`, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t)
			id, path := e.sickly()
			rev := e.repo.push(id, "# ours\n"+e.repo.text(id)+tombstones)
			if err := e.oplog.Adopt(t.Context(), id, func(i *lcm.Instance) error {
				i.Operated, i.Settled = rev, rev
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			e.view.stale = tt.unseen
			e.want(202, tt.method, path+tt.task, tt.body)
			if d := cmp.Diff(tt.want, e.condemned(id)); d != "" {
				t.Errorf("%s\n%s", d, e.repo.text(id))
			}
			text := e.repo.text(id)
			if !strings.HasPrefix(text, "# ours\n") || tt.want != nil && !strings.Contains(text, "  Pod/amf/bare: bare-uid # it hangs\n") {
				t.Errorf("comments are lost:\n%s", text)
			}
		})
	}
}

func TestAHealAfterAPodTookItsNameAgainReplacesTheTombstone(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	e.finish(e.begun(e.want(202, "POST", path+"/heal", `{"vnfcInstanceId": ["a-uid"]}`)), pod("a2-uid", "VDU1", "vdu1-1"))
	op := e.begun(e.want(202, "POST", path+"/heal", `{"vnfcInstanceId": ["vdu1-1"]}`))
	if d := cmp.Diff(map[string]string{"Pod/amf/vdu1-1": "a2-uid"}, e.condemned(id)); d != "" {
		t.Error(d)
	}
	e.finish(op, pod("a3-uid", "VDU1", "vdu1-1"))
	changes := occurrence(e, op).ResourceChanges
	if changes == nil || len(changes.AffectedVnfcs) != 2 {
		t.Errorf("a pod that was replaced under its name isn't shown as removed and added: %+v", changes)
	}
}

func TestTheCauseInACommitIsOneShortLine(t *testing.T) {
	e := setup(t)
	_, path := e.sickly()
	cause := "it hangs\n\nVnf-Lcm-Op-Occ: forged\r\n\x1b[31m" + strings.Repeat("é", 10_000)
	body, err := json.Marshal(map[string]any{"cause": cause})
	if err != nil {
		t.Fatal(err)
	}
	op := e.begun(e.want(202, "POST", path+"/heal", string(body)))
	commit := e.repo.commits[len(e.repo.commits)-1]
	line, ok := strings.CutPrefix(commit.Body, "Heal the whole VNF (3 objects)\nCause: it hangs Vnf-Lcm-Op-Occ: forged [31m")
	if !ok || strings.Count(commit.Body, "\n") != 2 || len(line) > 1000 || !strings.HasSuffix(line, "é…\n") {
		t.Errorf("%q", commit.Body)
	}
	var shown struct{ Cause string }
	if err := json.Unmarshal(occurrence(e, op).OperationParams, &shown); err != nil || shown.Cause != cause {
		t.Errorf("operationParams have another cause: %.100q, %v", shown.Cause, err)
	}
}

func TestTheInstanceTellsWhatETSIHasNoWordsFor(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	if raw := e.want(200, "GET", path, "").object(t); raw["jibe"] != nil {
		t.Errorf("at rest: %v", raw["jibe"])
	}
	text := e.repo.text(id)
	for add, want := range map[string]*sol.InstanceStatus{
		"suspend: true\n":                         {Suspended: true, DriftPolicy: "correct"},
		"held: op-1\n":                            {Held: "op-1", DriftPolicy: "correct"},
		"drift: report\n":                         {DriftPolicy: "report"},
		"drift: correct\nsuspend: false\n":        nil,
		"drift: report\nsuspend: true\nheld: x\n": {Suspended: true, Held: "x", DriftPolicy: "report"},
	} {
		e.repo.push(id, text+add)
		if d := cmp.Diff(want, show(e, id).Jibe); d != "" {
			t.Errorf("%q: %s", add, d)
		}
	}
	e.repo.push(id, text)
	e.view.mu.Lock()
	e.view.drifted[id] = []string{"Deployment/amf/vdu1"}
	e.view.mu.Unlock()
	want := &sol.InstanceStatus{DriftPolicy: "correct", Drifted: []string{"Deployment/amf/vdu1"}}
	if d := cmp.Diff(want, show(e, id).Jibe); d != "" {
		t.Error(d)
	}
	var list []sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances?filter=(eq,jibe/driftPolicy,correct)", "").json(t, &list)
	if len(list) != 1 || cmp.Diff(want, list[0].Jibe) != "" {
		t.Errorf("the list shows %+v", list)
	}
	e.want(200, "GET", api+"/vnf_instances?exclude_fields=jibe", "").json(t, &list)
}
