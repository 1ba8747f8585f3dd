package sol_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/store"
)

const scaleOut = `{"type": "SCALE_OUT", "aspectId": "vdu2_aspect"}`

func TestASecondRequestWhileOneRunsIsRefused(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	op := e.begun(e.want(202, "POST", path+"/scale", scaleOut))
	for _, r := range [][3]string{{"POST", "/scale", scaleOut}, {"POST", "/terminate", `{"terminationType": "FORCEFUL"}`}, {"PATCH", "", `{"vnfInstanceName": "x"}`}, {"DELETE", "", ""}} {
		a := e.want(409, r[0], path+r[1], r[2])
		if !strings.Contains(a.detail(t), op) {
			t.Errorf("%s %s doesn't name the operation: %s", r[0], r[1], a.body)
		}
	}
	e.move(op, nil, lcm.Broke)
	a := e.want(409, "POST", path+"/scale", scaleOut)
	if !strings.Contains(a.detail(t), "FAILED_TEMP") {
		t.Errorf("%s", a.body)
	}
}

func TestOfConcurrentRequestsExactlyOneIsAccepted(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	commits := len(e.repo.commits)
	var wg sync.WaitGroup
	status := make([]int, 16)
	for i := range status {
		wg.Go(func() { status[i] = e.do("POST", api+"/vnf_instances/"+id+"/scale", scaleOut).StatusCode })
	}
	wg.Wait()
	accepted := 0
	for _, s := range status {
		switch s {
		case 202:
			accepted++
		case 409:
		default:
			t.Errorf("status %d", s)
		}
	}
	if accepted != 1 || len(e.repo.commits) != commits+1 {
		t.Errorf("%d accepted, %d commits", accepted, len(e.repo.commits)-commits)
	}
}

func TestAPushThatWaitsForItsOperationGoesFirst(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	e.repo.push(id, strings.Replace(e.repo.text(id), "flavour: simple", "flavour: simple\nlevels: {vdu1_aspect: 1}", 1))
	a := e.want(409, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
	if !strings.Contains(a.detail(t), "SCALE") {
		t.Errorf("%s", a.body)
	}
}

func TestAPushedCommentIsNoReasonToRefuse(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	e.repo.push(id, "# a comment\n"+e.repo.text(id))
	e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
	if !strings.HasPrefix(e.repo.text(id), "# a comment\n") {
		t.Errorf("the comment is lost:\n%s", e.repo.text(id))
	}
}

func TestAPushDuringTheRequestRefusesItAndNothingIsLost(t *testing.T) {
	for _, method := range []string{"scale", "delete"} {
		e := setup(t)
		id := e.instantiated()
		path := api + "/vnf_instances/" + id
		if method == "delete" {
			e.finish(e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)))
		}
		pushed := false
		e.repo.before = func() {
			if !pushed {
				pushed = true
				e.repo.push(id, "# pushed\n"+e.repo.text(id))
			}
		}
		if method == "delete" {
			e.want(409, "DELETE", path, "")
			e.want(204, "DELETE", path, "")
			continue
		}
		e.want(409, "POST", path+"/scale", scaleOut)
		if !strings.HasPrefix(e.repo.text(id), "# pushed\n") || strings.Contains(e.repo.text(id), "levels") {
			t.Errorf("after the refused request:\n%s", e.repo.text(id))
		}
		e.want(202, "POST", path+"/scale", scaleOut) // nothing was left reserved
	}
}

func TestIfMatchHoldsTheRequestToWhatWasRead(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	tag := e.want(200, "GET", path, "").Header.Get("ETag")
	e.want(412, "POST", path+"/scale", scaleOut, "If-Match", `"other"`)
	e.want(412, "POST", path+"/scale", scaleOut, "If-Match", "W/"+tag)
	e.want(412, "PATCH", path, `{"vnfInstanceName": "x"}`, "If-Match", `"other"`)
	e.want(412, "DELETE", path, "", "If-Match", `"other"`)
	op := e.begun(e.want(202, "POST", path+"/scale", scaleOut, "If-Match", `"other", `+tag))
	e.finish(op)
	e.want(412, "POST", path+"/scale", scaleOut, "If-Match", tag)
	e.finish(e.begun(e.want(202, "POST", path+"/scale", scaleOut, "If-Match", "*")))

	opPath := api + "/vnf_lcm_op_occs/" + op
	tag = e.want(200, "GET", opPath, "").Header.Get("ETag")
	e.want(412, "POST", opPath+"/retry", "", "If-Match", `"other"`)
	e.want(409, "POST", opPath+"/retry", "", "If-Match", tag)
}

func TestAFailedCommitLeavesNoOperation(t *testing.T) {
	for cause, status := range map[error]int{fmt.Errorf("push: %w", desired.ErrUnavailable): 503, errBroken: 500, context.DeadlineExceeded: 503} {
		e := setup(t)
		id := e.instantiated()
		e.repo.fails = cause
		e.want(status, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
		e.repo.fails = nil
		if open, err := e.oplog.Unresolved(t.Context()); err != nil || len(open) != 0 {
			t.Errorf("%v: left %v, %v", cause, open, err)
		}
		e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
	}
}

func TestAnErrorAfterTheCommitIsNoFailure(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	e.repo.fails, e.repo.late = errBroken, true
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut))
	if o := occurrence(e, op); o.OperationState != lcm.Starting {
		t.Errorf("%+v", o)
	}
}

func TestAClientThatGoesAwayDoesNotStopItsRequest(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	ctx, cancel := context.WithCancel(t.Context())
	e.repo.before = cancel
	r := e.request("POST", api+"/vnf_instances/"+id+"/scale", scaleOut).WithContext(ctx)
	a := e.send(r)
	if a.StatusCode != 202 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	occurrence(e, e.begun(a))
}

// TestRecoverFinishesWhatAnEndOfTheProcessInterrupted stops a request between
// each two of its steps.
func TestRecoverFinishesWhatAnEndOfTheProcessInterrupted(t *testing.T) {
	e := setup(t)
	committed, forgotten := e.instantiated(), e.instantiated()
	quiet := slog.New(slog.DiscardHandler)
	for _, id := range []string{committed, forgotten} {
		head, _ := e.repo.Lookup(id)
		if err := e.oplog.Prepare(t.Context(), lcm.Operation{ID: "op-" + id, Instance: id, Type: lcm.Scale, Before: head}); err != nil {
			t.Fatal(err)
		}
	}
	text := e.repo.text(committed)
	if _, err := e.repo.Write(t.Context(), desired.Write{Instance: committed, Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: "op-" + committed}},
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(text + "levels: {vdu1_aspect: 1}\n")}, nil
		}}); err != nil {
		t.Fatal(err)
	}
	made, _ := e.repo.Lookup(committed)
	e.repo.push(committed, e.repo.text(committed)+"# pushed since\n")
	e.want(409, "POST", api+"/vnf_instances/"+forgotten+"/scale", scaleOut)

	for range 2 { // the second time there is nothing to do
		if _, err := sol.Recover(t.Context(), e.repo, nil, e.repo.locate, e.oplog, quiet); err != nil {
			t.Fatal(err)
		}
	}
	op, err := e.oplog.Operation(t.Context(), "op-"+committed)
	if err != nil || op.State != lcm.Starting || op.After != made {
		t.Errorf("committed: %+v, %v; want After %+v", op, err, made)
	}
	if _, err := e.oplog.Operation(t.Context(), "op-"+forgotten); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("not committed: %v", err)
	}
	e.want(202, "POST", api+"/vnf_instances/"+forgotten+"/scale", scaleOut)
}

func TestSecretsNeverReachLogsOrAnswers(t *testing.T) {
	e := setup(t)
	id := e.create()
	body := `{"flavourId": "simple", ` + inlineVIM + `, "additionalParams": {"lcm-kubernetes-def-files": ["a"],
		"vdu_params": [{"vdu_id": "VDU1", "new_vnfc_param": {"username": "u", "password": "very-secret"}}], "api_token": {"x": ["very-secret"]}}}`
	e.finish(e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", body)))
	e.repo.fails = errBroken
	e.do("POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
	e.do("POST", api+"/vnf_instances/"+id+"/instantiate", strings.Replace(body, `"flavourId"`, `"very-secret`, 1))
	for what, text := range map[string]string{
		"log":       e.logged.String(),
		"file":      e.repo.text(id),
		"instance":  string(e.do("GET", api+"/vnf_instances/"+id, "").body),
		"instances": string(e.do("GET", api+"/vnf_instances?all_fields", "").body),
		"op occs":   string(e.do("GET", api+"/vnf_lcm_op_occs?all_fields", "").body),
	} {
		if strings.Contains(text, "very-secret") {
			t.Errorf("%s: %s", what, text)
		}
		if what != "file" && strings.Contains(text, "age:") {
			t.Errorf("%s shows a ciphertext: %s", what, text)
		}
	}
}

func TestASuspendedInstanceIsLeftAlone(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	e.repo.push(id, e.repo.text(id)+"suspend: true\n")
	a := e.want(409, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
	if !strings.Contains(a.detail(t), "suspend") {
		t.Errorf("%s", a.body)
	}
}

func TestTheNextRequestLiftsAHold(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	rev := e.repo.push(id, e.repo.text(id)+"held: op-1\n")
	if err := e.oplog.Adopt(t.Context(), id, func(i *lcm.Instance) error {
		i.Operated, i.Settled = rev, rev
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := show(e, id).InstantiatedVnfInfo.Metadata["held"]; got != "op-1" {
		t.Errorf("held %v", got)
	}
	e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut)
	if strings.Contains(e.repo.text(id), "held") {
		t.Errorf("still held:\n%s", e.repo.text(id))
	}
}
