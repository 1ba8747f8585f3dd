package sol_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
)

// frozen has all types but heals wait, unless bound says so.
func frozen(e *env, bound ...lcm.Type) {
	e.view.mu.Lock()
	defer e.view.mu.Unlock()
	e.view.closed = func(t lcm.Type) (string, time.Time, error) {
		if t == lcm.Heal && len(bound) == 0 {
			return "", time.Time{}, nil
		}
		return "frozen, by maintenance.yaml", time.Time{}, nil
	}
}

// waits is an instance with a VNFC, of which a commit of a person waits that changes it.
func waits(t *testing.T, change func(text string) string) (e *env, repo *gitrepo.Repo, id string, operated, head desired.Revision) {
	t.Helper()
	e, repo, _ = onGit(t)
	id = e.instantiated()
	e.view.mu.Lock()
	e.view.units[id] = []plan.Unit{pod("a", "VDU1", "vdu1-1")}
	e.view.mu.Unlock()
	operated, _ = repo.Lookup(id)
	head, err := repo.Write(t.Context(), desired.Write{Instance: id, Subject: "for tonight", By: "Ann <ann@example.org>", Change: func(_ desired.Revision, now desired.Files) (desired.Files, error) {
		return desired.Files{desired.InstanceFile: []byte(change(string(now[desired.InstanceFile])))}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	frozen(e)
	return e, repo, id, operated, head
}

func scaledOut(text string) string { return text + "# for tonight\nlevels: {vdu1_aspect: 2}\n" }

func TestAHealBuildsOnWhatWasOperatedOnLastWhileACommitWaitsForItsWindow(t *testing.T) {
	e, repo, id, operated, waiting := waits(t, scaledOut)
	path := api + "/vnf_instances/" + id
	e.want(409, "POST", path+"/scale", scaleOut)
	e.want(409, "PATCH", path, `{"vnfInstanceName": "smf"}`)
	first := e.begun(e.want(202, "POST", path+"/heal", `{"cause": "hangs", "additionalParams": {"all": false}}`))
	op, err := e.oplog.Operation(t.Context(), first)
	if err != nil || op.Before != operated || op.Beside.Tree != waiting.Tree || op.Beside.Commit != waiting.Commit {
		t.Fatalf("the operation is %+v, %v", op, err)
	}
	read := func(rev desired.Revision) *desired.Instance {
		t.Helper()
		in, err := repo.Read(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if made := read(op.After); made.Levels["vdu1_aspect"] != 0 || len(made.Condemned) == 0 {
		t.Errorf("it brings about %+v", made)
	}
	head, _ := repo.Lookup(id)
	if at := read(head); at.Levels["vdu1_aspect"] != 2 || len(at.Condemned) == 0 {
		t.Errorf("head is %+v", at)
	}
	files, _ := repo.Files(t.Context(), head)
	if !strings.Contains(string(files[desired.InstanceFile]), "# for tonight\n") {
		t.Errorf("head has\n%s", files[desired.InstanceFile])
	}
	e.want(409, "POST", path+"/heal", `{}`) // one at a time
	e.finish(first, pod("b", "VDU1", "vdu1-2"))
	e.view.mu.Lock()
	e.view.units[id] = []plan.Unit{pod("b", "VDU1", "vdu1-2")}
	e.view.mu.Unlock()
	second := e.begun(e.want(202, "POST", path+"/heal", `{"additionalParams": {"all": false}}`))
	if again, err := e.oplog.Operation(t.Context(), second); err != nil || again.Before.Tree != op.After.Tree || read(again.After).Levels["vdu1_aspect"] != 0 {
		t.Errorf("a second heal is %+v, %v", again, err)
	}
}

func TestAHealBuildsOnNothingThatGitDoesNotProve(t *testing.T) {
	e, repo, id, operated, _ := waits(t, scaledOut)
	head := repo.Head()
	e.view.mu.Lock()
	e.view.unproven = &desired.UnprovenError{Revision: operated}
	e.view.mu.Unlock()

	e.want(409, "POST", api+"/vnf_instances/"+id+"/heal", `{"cause": "hangs", "additionalParams": {"all": false}}`)

	if repo.Head() != head {
		t.Error("a commit was made of it")
	}
}

func TestAHealIsRefusedWhereWhatWaitsCannotBeLeftAlone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(string) string
		also   func(e *env, repo *gitrepo.Repo, id string)
		says   string
	}{
		"it is suspended":   {change: func(s string) string { return scaledOut(s) + "suspend: true\n" }, says: "suspended"},
		"heals are bound":   {change: scaledOut, also: func(e *env, _ *gitrepo.Repo, _ string) { frozen(e, lcm.Heal) }, says: "HEAL of VNF instance"},
		"the window opened": {change: scaledOut, also: func(e *env, _ *gitrepo.Repo, _ string) { e.view.closed = nil }, says: "has not begun yet"},
	} {
		t.Run(name, func(t *testing.T) {
			e, repo, id, _, head := waits(t, test.change)
			if test.also != nil {
				test.also(e, repo, id)
			}
			if a := e.want(409, "POST", api+"/vnf_instances/"+id+"/heal", `{}`); !strings.Contains(string(a.body), test.says) {
				t.Errorf("it is refused by %s", a.body)
			}
			if now, _ := repo.Lookup(id); now != head {
				t.Errorf("head is %+v", now)
			}
		})
	}
}

func TestAHealIsRefusedWhereWhatItBuildsOnIsOperatedOnAnewMeanwhile(t *testing.T) {
	e, repo, id, _, head := waits(t, scaledOut)
	asked := false
	e.view.closed = func(typ lcm.Type) (string, time.Time, error) {
		if typ != lcm.Heal {
			return "frozen", time.Time{}, nil
		}
		if !asked { // the window opens, and what waited begins and ends before the heal is prepared
			asked = true
			if _, err := e.oplog.Born(t.Context(), lcm.Operation{ID: "opened", Instance: id, Type: lcm.Scale, After: head}); err != nil {
				t.Error(err)
			}
			if _, err := e.oplog.Record(t.Context(), "opened", func(op *lcm.Operation, _ *lcm.Instance) error {
				return errors.Join(op.Advance(lcm.Granted, op.Started, nil), op.Advance(lcm.Converged, op.Started, nil))
			}); err != nil {
				t.Error(err)
			}
		}
		return "", time.Time{}, nil
	}
	a := e.want(409, "POST", api+"/vnf_instances/"+id+"/heal", `{"additionalParams": {"all": false}}`)
	if !strings.Contains(string(a.body), "repeat the request") {
		t.Errorf("it is refused by %s", a.body)
	}
	if now, _ := repo.Lookup(id); now != head {
		t.Errorf("head is %+v", now)
	}
	if rec, err := e.oplog.Instance(t.Context(), id); err != nil || rec.Prepared != "" {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestAHealBesideACommitIsFoundAgainWhereTheProcessEndedAfterItsCommit(t *testing.T) {
	e, repo, id, operated, waiting := waits(t, scaledOut)
	op := lcm.Operation{ID: "op-1", Instance: id, Type: lcm.Heal, Before: operated, Beside: waiting}
	if err := e.oplog.Prepare(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	base, err := repo.Files(t.Context(), operated)
	if err != nil {
		t.Fatal(err)
	}
	made, err := repo.Write(t.Context(), desired.Write{Instance: id, Subject: "HEAL", Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: "op-1"}},
		Change: func(_ desired.Revision, now desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: append(now[desired.InstanceFile], "condemned: {Pod/a/vdu1-1: a}\n"...)}, nil
		},
		Beside: &desired.Beside{From: operated, Subject: "Put back", Change: func(waits, made desired.Files) (desired.Files, error) {
			return desired.Carry(operated.Dir, base, made, waits)
		}}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(ctx context.Context, commit, instance string) (desired.Revision, error) {
		s, err := repo.At(ctx, commit)
		if err != nil {
			return desired.Revision{}, err
		}
		rev, _ := s.Lookup(instance)
		return rev, nil
	}
	if ids, err := sol.Recover(t.Context(), repo, nil, at, e.oplog, e.config.Log); err != nil || len(ids) != 1 {
		t.Fatalf("%v, %v", ids, err)
	}
	begun, err := e.oplog.Operation(t.Context(), "op-1")
	if err != nil || begun.State != lcm.Starting || begun.After.Tree != made.Tree || begun.Beside.Tree != waiting.Tree {
		t.Errorf("%+v, %v", begun, err)
	}
	if rec, err := e.oplog.Instance(t.Context(), id); err != nil || rec.Operated.Tree != made.Tree {
		t.Errorf("%+v, %v", rec, err)
	}
}
