package lcm_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

func at(tree string) desired.Revision {
	return desired.Revision{Instance: "i", Dir: "instances/i", Commit: "c-" + tree, Tree: tree}
}

// request is an operation that a request has begun, n seconds after the beginning.
func request(id string, typ lcm.Type, n int, before, after string) lcm.Told {
	return lcm.Told{ID: id, Instance: "i", Begun: &lcm.Begun{At: time.Unix(int64(n), 0), Type: typ, By: "nfvo", Before: at(before), After: at(after)}}
}

// noted is the operation with a state in the note of its commit.
func noted(t *testing.T, told lcm.Told, state lcm.State, n int) lcm.Told {
	t.Helper()
	op := lcm.Operation{ID: told.ID, Instance: told.Instance, Type: told.Begun.Type, State: state, Attempt: 1, RequestedBy: told.Begun.By,
		Started: told.Begun.At, StateEntered: time.Unix(int64(n), 0), Before: told.Begun.Before, After: told.Begun.After}
	_, text, ok := op.Attest(false)
	var f lcm.Facts
	if !ok || json.Unmarshal(text, &f) != nil {
		t.Fatalf("%s of %s isn't kept in git: %s", state, told.ID, text)
	}
	told.Facts = append(told.Facts, f)
	return told
}

// placed is the operation with the place of its commit in the history.
func placed(told lcm.Told, place int) lcm.Told {
	told.Place = place
	return told
}

func TestRecordsAreMadeOfWhatGitSays(t *testing.T) {
	born := noted(t, request("1", lcm.Instantiate, 1, "", "a"), lcm.Completed, 2)
	scaled := request("2", lcm.Scale, 3, "a", "b")
	settled := func(told lcm.Told, state lcm.State) lcm.Told {
		told.Outcome, told.Settled, told.SettledFrom = state, at("back"), "b"
		return told
	}
	for name, c := range map[string]struct {
		told              []lcm.Told
		state             lcm.State // of the last operation
		open, outstanding string
		operated, settled string // trees
		blank, rollback   bool
	}{
		"it has ended": {told: []lcm.Told{noted(t, scaled, lcm.Completed, 4), born}, state: lcm.Completed, operated: "b", settled: "b"},
		"it is open":   {told: []lcm.Told{born, scaled}, state: lcm.Starting, open: "2", operated: "b", settled: "a", blank: true},
		"it is open, as all are that change no VIM":        {told: []lcm.Told{born, request("2", lcm.ModifyInfo, 3, "a", "b")}, state: lcm.Processing, open: "2", operated: "b", settled: "a", blank: true},
		"it has failed, and a person decides":              {told: []lcm.Told{born, noted(t, scaled, lcm.FailedTemp, 4)}, state: lcm.FailedTemp, open: "2", operated: "b", settled: "a"},
		"it is rolled back now":                            {told: []lcm.Told{born, noted(t, noted(t, scaled, lcm.FailedTemp, 4), lcm.RollingBack, 5)}, state: lcm.RollingBack, open: "2", operated: "b", settled: "a", rollback: true},
		"its end is the last, whatever the clock said":     {told: []lcm.Told{born, noted(t, noted(t, scaled, lcm.Completed, 4), lcm.FailedTemp, 5)}, state: lcm.Completed, operated: "b", settled: "b"},
		"it was rolled back, and git is still to get that": {told: []lcm.Told{born, noted(t, scaled, lcm.RolledBack, 5)}, state: lcm.RolledBack, outstanding: "2", operated: "b", settled: "a"},
		"it was rolled back":                               {told: []lcm.Told{born, settled(noted(t, scaled, lcm.RolledBack, 5), lcm.RolledBack)}, state: lcm.RolledBack, operated: "back", settled: "back"},
		"it was failed, and the note is lost":              {told: []lcm.Told{born, settled(scaled, lcm.Failed)}, state: lcm.Failed, operated: "back", settled: "a"},
		"hooks found something":                            {told: []lcm.Told{born, settled(noted(t, scaled, lcm.Completed, 5), lcm.Completed)}, state: lcm.Completed, operated: "back", settled: "back"},
		"the machine that began it was an hour behind": {told: []lcm.Told{placed(noted(t, request("2", lcm.Scale, -3600, "a", "b"), lcm.Completed, -3599), 2), placed(born, 1)},
			state: lcm.Completed, operated: "b", settled: "b"},
		"the machine that began the one before was an hour ahead": {told: []lcm.Told{placed(scaled, 2), placed(noted(t, request("1", lcm.Instantiate, 3600, "", "a"), lcm.Completed, 3601), 1)},
			state: lcm.Starting, open: "2", operated: "b", settled: "a", blank: true},
		"it failed by the clock of a machine that was behind": {told: []lcm.Told{born, noted(t, noted(t, request("2", lcm.ModifyInfo, 3, "a", "b"), lcm.FailedTemp, -3600), lcm.Failed, -3599)},
			state: lcm.Failed, outstanding: "2", operated: "b", settled: "a"},
		"the end of the one before is lost": {told: []lcm.Told{request("1", lcm.Instantiate, 1, "", "a"), noted(t, scaled, lcm.Completed, 4)}, state: lcm.Completed, operated: "b", settled: "b"},
	} {
		inst, ops := lcm.Rebuild("i", c.told)
		last := ops[len(ops)-1]
		if len(ops) != 2 || last.ID != "2" || last.State != c.state || last.RequestedBy != "nfvo" || last.Before.Tree != "a" || last.After.Tree != "b" || ops[0].State != lcm.Completed {
			t.Errorf("%s: the operations are %+v, %+v", name, ops[0], last)
		}
		if inst.Open != c.open || inst.OutstandingCommit != c.outstanding || inst.Operated.Tree != c.operated || inst.Settled.Tree != c.settled || inst.Seq != 2 || inst.Last != "2" {
			t.Errorf("%s: the instance is %+v", name, inst)
		}
		if last.Journal.Rebuilt != c.blank || last.Journal.Rollback != c.rollback || !last.Rebuilt {
			t.Errorf("%s: the journal is %+v", name, last.Journal)
		}
	}
}

func TestAnOperationOfAPushIsKeptInGitFromItsBirth(t *testing.T) {
	op := lcm.Operation{ID: "1", Instance: "i", Type: lcm.Scale, State: lcm.Prepared, After: at("b"), Params: []byte(`{"type":"SCALE_IN"}`)}
	if err := op.Advance(lcm.Committed, time.Unix(1, 0), nil); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := op.Attest(false); ok {
		t.Error("the birth of an operation is kept twice: its commit says it already")
	}
	_, text, ok := op.Attest(true)
	var f lcm.Facts
	if !ok || json.Unmarshal(text, &f) != nil {
		t.Fatalf("kept is %s", text)
	}
	if _, ops := lcm.Rebuild("i", []lcm.Told{{ID: "1", Instance: "i", Facts: []lcm.Facts{f}}}); ops[0].State != lcm.Starting || ops[0].CanRollback() == nil && ops[0].Journal.Touched || string(ops[0].Params) != string(op.Params) {
		t.Errorf("it is rebuilt as %+v", ops[0])
	}
	op.Automatic = true
	if _, _, ok := op.Attest(true); ok {
		t.Error("each attempt of a repair is kept")
	}
}
