package automation

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// records are operations as the log has them.
type records []*lcm.Operation

func (r records) InstanceEntry(string) (*oplog.InstanceEntry, bool) { return nil, false }

func (r records) Operation(_ context.Context, id string) (*lcm.Operation, error) {
	for _, op := range r {
		if op.ID == id {
			return op, nil
		}
	}
	return nil, store.ErrNotFound
}

func (r records) OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry] {
	return func(yield func(oplog.OperationEntry) bool) {
		for _, op := range r {
			if !op.Started.Before(q.From) && !yield(oplog.OperationEntry{ID: op.ID, Instance: op.Instance, State: op.State, Automatic: op.Automatic, Started: op.Started}) {
				return
			}
		}
	}
}

func TestWhatCameOfAnAttemptIsToldByTheTreesOfOperationsAndElseUnknown(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	op := func(before, after string, state lcm.State, more ...func(*lcm.Operation)) *lcm.Operation {
		o := &lcm.Operation{ID: before + after + string(state), Before: desired.Revision{Tree: before}, After: desired.Revision{Tree: after}, State: state, Started: began.Add(time.Second)}
		for _, f := range more {
			f(o)
		}
		return o
	}
	automatic := func(o *lcm.Operation) { o.Automatic = true }
	earlier := func(o *lcm.Operation) { o.Started = began.Add(-10 * time.Second) }
	superseded := func(o *lcm.Operation) { o.SupersededBy = "x" }
	unseen := func(o *lcm.Operation) { o.Unseen = true }
	beside := func(o *lcm.Operation) { o.Beside = desired.Revision{Commit: "c", Tree: "new"} }
	healed := op("old", "old healed", lcm.Completed, beside)
	settled := func(tree string) oplog.InstanceEntry {
		return oplog.InstanceEntry{Operated: desired.Revision{Tree: tree}, Settled: desired.Revision{Tree: tree}}
	}
	for name, c := range map[string]struct {
		ops     records
		head    string // its tree
		reached bool
		entry   oplog.InstanceEntry
		later   time.Duration
		want    rollout.Found
	}{
		"no operation yet":                          {head: "new", reached: true, want: rollout.Waiting},
		"its operation is under way":                {ops: records{op("old", "new", lcm.Processing)}, head: "new", reached: true, want: rollout.UnderWay},
		"its operation waits for a person":          {ops: records{op("old", "new", lcm.FailedTemp)}, head: "new", reached: true, want: rollout.FailedTemp},
		"it was completed":                          {ops: records{op("old", "new", lcm.Completed)}, head: "new", reached: true, want: rollout.Completed},
		"what was granted moved the tree":           {ops: records{op("old", "granted", lcm.Completed)}, head: "granted", reached: true, want: rollout.Completed},
		"it was rolled back":                        {ops: records{op("old", "new", lcm.RolledBack)}, head: "old", want: rollout.Failed},
		"its VIM was away":                          {ops: records{op("old", "new", lcm.RolledBack, unseen)}, head: "old", want: rollout.Unseen},
		"its VIM was away, which git doesn't say":   {ops: records{op("old", "new", lcm.RolledBack, unseen)}, head: "old", entry: oplog.InstanceEntry{OutstandingCommit: "x"}, want: rollout.UnderWay},
		"its VIM was away, which head doesn't say":  {ops: records{op("old", "new", lcm.RolledBack, unseen)}, head: "new", reached: true, want: rollout.UnderWay},
		"a newer commit took its place":             {ops: records{op("old", "new", lcm.Failed, superseded)}, head: "other", want: rollout.Superseded},
		"a person's commit was folded into it":      {ops: records{op("old", "other", lcm.Completed)}, head: "other", want: rollout.Superseded},
		"only a repair has run":                     {ops: records{op("new", "new", lcm.Completed, automatic)}, head: "new", reached: true, want: rollout.Waiting},
		"an earlier operation left the same tree":   {ops: records{op("old", "older", lcm.Completed, earlier)}, head: "new", reached: true, want: rollout.Waiting},
		"it waits, and was healed beside that":      {ops: records{healed}, head: "new healed", reached: true, want: rollout.Waiting},
		"it was begun after such a heal":            {ops: records{healed, op("old healed", "new healed", lcm.Processing)}, head: "new healed", reached: true, want: rollout.UnderWay},
		"it was completed after such a heal":        {ops: records{healed, op("old healed", "new healed", lcm.Completed)}, head: "new healed", reached: true, want: rollout.Completed},
		"nothing had to be done":                    {head: "new", reached: true, entry: oplog.InstanceEntry{Operated: desired.Revision{Tree: "new"}, Settled: desired.Revision{Tree: "new"}}, want: rollout.Completed},
		"another replica's record is still to come": {head: "old", want: rollout.Waiting},
		"the records are lost":                      {head: "old", later: time.Hour, want: rollout.Unknown},
		"it was reverted before anything began":     {head: "old", entry: settled("old"), later: time.Hour, want: rollout.Superseded},
		"it was reverted, and may have begun":       {head: "old", entry: settled("old"), want: rollout.Waiting},
		"it was edited, and nothing is known of it": {head: "other", entry: settled("old"), later: time.Hour, want: rollout.Unknown},
	} {
		r := NewRollouts(RolloutConfig{Oplog: c.ops, Now: func() time.Time { return began.Add(time.Second + c.later) }})
		f := rollout.Fact{Instance: "i", Reached: c.reached}
		a := desired.Attempt{Prior: "old", Tree: "new", Began: began}
		if err := r.find(t.Context(), &f, []desired.Attempt{a}, desired.Head{Revision: desired.Revision{Tree: c.head}}, &c.entry); err != nil || f.Found != c.want {
			t.Errorf("%s: found %q, %v; want %q", name, f.Found, err, c.want)
		}
	}
}

func TestWhatCameOfTakingAnInstanceBackIsToldByItsOwnOperationOrTheRollbackOfTheOneBefore(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	op := func(before, after string, state lcm.State, at time.Duration) *lcm.Operation {
		return &lcm.Operation{ID: before + after + string(state), Before: desired.Revision{Tree: before}, After: desired.Revision{Tree: after}, State: state, Started: began.Add(at)}
	}
	again := op("old", "new", lcm.FailedTemp, -time.Hour)
	again.Journal.Rollback = true
	for name, c := range map[string]struct {
		ops   records
		head  string
		later time.Duration
		want  rollout.Found
	}{
		"the commit isn't seen yet":                   {ops: records{op("old", "new", lcm.FailedTemp, -time.Hour)}, head: "old", want: rollout.Waiting},
		"the operation rolls back":                    {ops: records{op("old", "new", lcm.RollingBack, -time.Hour)}, head: "old", want: rollout.UnderWay},
		"it was rolled back":                          {ops: records{op("old", "new", lcm.RolledBack, -time.Hour)}, head: "old", want: rollout.Completed},
		"the rollback has failed":                     {ops: records{again}, head: "old", want: rollout.FailedTemp},
		"a change of its own is under way":            {ops: records{op("old", "new", lcm.Completed, -time.Hour), op("new", "old", lcm.Processing, time.Second)}, head: "old", want: rollout.UnderWay},
		"a change of its own was completed":           {ops: records{op("old", "new", lcm.Completed, -time.Hour), op("new", "old", lcm.Completed, time.Second)}, head: "old", want: rollout.Completed},
		"an operation before led to where it goes":    {ops: records{op("", "old", lcm.Completed, -time.Second)}, head: "old", want: rollout.Waiting},
		"a person did something else with it":         {ops: records{op("new", "other", lcm.Completed, time.Second)}, head: "other", want: rollout.Superseded},
		"nobody knows":                                {head: "other", later: time.Hour, want: rollout.Unknown},
		"the operation before is no word of this one": {ops: records{op("old", "new", lcm.Completed, -time.Hour)}, head: "other", later: time.Hour, want: rollout.Unknown},
	} {
		r := NewRollouts(RolloutConfig{Oplog: c.ops, Now: func() time.Time { return began.Add(time.Second + c.later) }})
		f := rollout.Fact{Instance: "i"}
		tried := []desired.Attempt{{Target: "t", Prior: "old", Tree: "new", Began: began.Add(-time.Hour), Outcome: desired.OutcomeFailed}, {Target: "t", Back: true, Prior: "new", Tree: "old", Began: began}}
		if err := r.find(t.Context(), &f, tried, desired.Head{Revision: desired.Revision{Tree: c.head}}, &oplog.InstanceEntry{Open: "x"}); err != nil || f.Found != c.want {
			t.Errorf("%s: found %q, %v; want %q", name, f.Found, err, c.want)
		}
	}
}

func TestOnlyWhatIsAsTheAttemptLeftItIsTakenBack(t *testing.T) {
	t.Parallel()

	r := NewRollouts(RolloutConfig{Oplog: records{{ID: "granted", Before: desired.Revision{Tree: "old"}, After: desired.Revision{Tree: "granted"}, State: lcm.Completed}}, Now: time.Now})
	at := func(tree string) desired.Head { return desired.Head{Revision: desired.Revision{Tree: tree}} }
	held, suspended := at("new"), at("new")
	held.Held, suspended.Suspend = "x", true
	settled := &oplog.InstanceEntry{Operated: desired.Revision{Tree: "new"}, Settled: desired.Revision{Tree: "new"}}
	for name, c := range map[string]struct {
		head    desired.Head
		entry   *oplog.InstanceEntry
		found   rollout.Found
		then    string
		outcome string
		back    bool
		stays   bool
		busy    bool
	}{
		"as it was left":                     {head: at("new"), entry: settled, outcome: desired.OutcomeCompleted},
		"back already":                       {head: at("old"), entry: settled, back: true},
		"held":                               {head: held, entry: settled, stays: true},
		"suspended":                          {head: suspended, entry: settled, stays: true},
		"changed since":                      {head: at("other"), entry: settled, stays: true},
		"moved by its grant":                 {head: at("granted"), entry: &oplog.InstanceEntry{Operated: desired.Revision{Tree: "granted"}}, outcome: desired.OutcomeCompleted},
		"healed by a person":                 {head: at("new"), entry: settled, outcome: desired.OutcomeFailed, stays: true},
		"healed, and everything goes back":   {head: at("new"), entry: settled, outcome: desired.OutcomeFailed, then: desired.ThenRollbackAll},
		"failed, and it waits":               {head: at("new"), entry: &oplog.InstanceEntry{Open: "op", Operated: desired.Revision{Tree: "new"}}, found: rollout.FailedTemp, outcome: desired.OutcomeFailed},
		"failed, and its rollback isn't yet": {head: at("new"), entry: &oplog.InstanceEntry{OutstandingCommit: "op"}, found: rollout.Failed, outcome: desired.OutcomeFailed, busy: true},
		"something else is under way":        {head: at("new"), entry: &oplog.InstanceEntry{Open: "op"}, outcome: desired.OutcomeCompleted, busy: true},
	} {
		then := c.then
		if then == "" {
			then = desired.ThenRollback
		}
		f := rollout.Fact{Instance: "i", Found: c.found}
		a := desired.Attempt{Prior: "old", Tree: "new", Outcome: c.outcome}
		if err := r.returns(t.Context(), &f, then, []desired.Attempt{a}, c.head, c.entry); err != nil || f.Back != c.back || (f.Stays != "") != c.stays || (f.Busy != "") != c.busy {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestAnAttemptThatWasMadeAnewIsToldByAnOperationOfItsOwn(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	op := func(id string, state lcm.State, at time.Duration) *lcm.Operation {
		return &lcm.Operation{ID: id, Before: desired.Revision{Tree: "old"}, After: desired.Revision{Tree: "new"}, State: state, Started: began.Add(at)}
	}
	former := op("former", lcm.RolledBack, -5*time.Second)
	for name, c := range map[string]struct {
		ops  records
		want rollout.Found
	}{
		"its own isn't known yet": {records{former}, rollout.Waiting},
		"its own is under way":    {records{former, op("own", lcm.Processing, time.Millisecond)}, rollout.UnderWay},
		"a clock is behind":       {records{former, op("own", lcm.Completed, -time.Second)}, rollout.Completed},
	} {
		r := NewRollouts(RolloutConfig{Oplog: c.ops, Now: func() time.Time { return began.Add(time.Second) }})
		f := rollout.Fact{Instance: "i", Reached: true}
		tried := []desired.Attempt{{Retried: true, Prior: "old", Tree: "new", Began: began.Add(-6 * time.Second), Outcome: desired.OutcomeFailed, Ended: began.Add(-2 * time.Second)}, {Prior: "old", Tree: "new", Began: began}}
		if err := r.find(t.Context(), &f, tried, desired.Head{Revision: desired.Revision{Tree: "new"}}, &oplog.InstanceEntry{Open: "x"}); err != nil || f.Found != c.want {
			t.Errorf("%s: found %q, %v; want %q", name, f.Found, err, c.want)
		}
	}
}

// queries answer as a test has it.
type queries func(q desired.RolloutQuery) (why string, err error)

func (a queries) Ask(_ context.Context, q desired.RolloutQuery, _ time.Time) (string, error) {
	return a(q)
}

func (queries) Unasked(q desired.RolloutQuery) string {
	return map[bool]string{true: "vims/" + q.VIM + ".yaml has no prometheus"}[q.VIM != ""]
}

func TestQueriesOfAGateAreAskedOnceInAWhileAndOneThatNobodyCanTellOfIsNotMet(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	asked := 0
	answers := map[string]error{"down": errors.New("connection refused")}
	c := newChecks(queries(func(q desired.RolloutQuery) (string, error) {
		asked++
		if q.Query == "no" {
			return "it has no answer", nil
		}
		return "", answers[q.Query]
	}))
	ask := func(queries ...string) *rollout.Checked {
		var all []desired.RolloutQuery
		for _, q := range queries {
			all = append(all, desired.RolloutQuery{Query: q})
		}
		return c.ask(t.Context(), all, now)
	}
	if got := ask("a", "b"); !got.Met || asked != 2 {
		t.Errorf("%+v after %d queries", got, asked)
	}
	if got := ask("a", "no"); got.Met || got.Why != "no (it has no answer)" || asked != 3 {
		t.Errorf("%+v after %d queries", got, asked)
	}
	if got := ask("down", "a"); got.Met || got.Why != "down (nobody can tell: connection refused)" || asked != 4 {
		t.Errorf("%+v after %d queries", got, asked)
	}
	answers["down"] = nil
	if got := ask("down"); got.Met || asked != 4 {
		t.Errorf("at once it is asked again: %+v", got)
	}
	now = now.Add(checkedFor)
	if got := ask("down", "a"); !got.Met || asked != 6 {
		t.Errorf("later it is %+v after %d queries", got, asked)
	}
	ro := &desired.Rollout{After: desired.RolloutGate{Prometheus: []desired.RolloutQuery{{Query: "a"}, {Query: "b", VIM: "edge"}}}}
	if _, err := NewRollouts(RolloutConfig{Queries: queries(nil)}).look(t.Context(), &loaded{file: "rollouts/r.yaml", r: ro}, nil); err == nil || !strings.Contains(err.Error(), "rollouts/r.yaml: after.prometheus: vims/edge.yaml has no prometheus") {
		t.Errorf("where there is nobody to ask its file is obeyed: %v", err)
	}
}
