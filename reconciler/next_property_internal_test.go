package reconciler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// generator makes situations, most of which no instance is ever in: Next has an answer to them, too.
type generator struct{ *rand.Rand }

func (g generator) maybe() bool { return g.IntN(3) == 0 }

func (g generator) tree() desired.Revision {
	return desired.Revision{Tree: []string{"", "a", "b"}[g.IntN(3)], Commit: "0123456789abcdef"}
}

func (g generator) name() string { return []string{"", "", "op"}[g.IntN(3)] }

func (g generator) short() time.Duration { return time.Duration(g.IntN(4)-1) * time.Second }

func (g generator) intent() *desired.Instance {
	if g.maybe() {
		return nil
	}
	states := []string{desired.Instantiated, desired.NotInstantiated, desired.Stopped}

	in := &desired.Instance{ID: "amf", State: states[g.IntN(3)], Suspend: g.IntN(6) == 0, Held: g.name(), Levels: map[string]int{"web": g.IntN(2)}}
	if g.IntN(8) == 0 {
		in.Granted = &desired.Granted{VIM: "lab"}
	}

	return in
}

func (g generator) operation() *lcm.Operation {
	states := []lcm.State{lcm.Starting, lcm.Processing, lcm.RollingBack, lcm.FailedTemp}
	types := []lcm.Type{lcm.Instantiate, lcm.Scale, lcm.Heal, lcm.ModifyInfo, lcm.Terminate}
	op := &lcm.Operation{ID: "op", Type: types[g.IntN(5)], State: states[g.IntN(4)], Before: g.tree(), After: g.tree(), Automatic: g.maybe(), GaveWay: g.maybe(),
		Unproven: g.IntN(8) == 0, CancelMode: []string{"", "", lcm.Forceful, lcm.Graceful}[g.IntN(4)], Contended: g.maybe(), Attempt: 1 + g.IntN(2)}
	if g.maybe() {
		op.AddWait(noon, waitsForNeeded+"instances/udm")
	}
	if g.IntN(8) == 0 {
		op.Proposal = &lcm.Proposal{}
	}
	op.Journal.Rollback = g.maybe()

	return op
}

func (g generator) steps() (steps []plan.Step) {
	actions := []plan.Action{plan.Grant, plan.Hook, plan.Apply, plan.Wait, plan.Drain}
	for stage := range g.IntN(3) {
		steps = append(steps, plan.Step{Stage: stage, Action: actions[g.IntN(5)], Object: "x", Failure: []string{"", "", "no room"}[g.IntN(3)]})
	}

	return steps
}

func (g generator) situation() *told {
	s := newTold()
	s.Record = &lcm.Instance{Seq: uint64(g.IntN(2)), Operated: g.tree(), Settled: g.tree(), Last: g.name()}
	if g.IntN(4) == 0 {
		s.Record.Prepared, s.Record.OutstandingCommit, s.Record.Proposed, s.Record.Care = g.name(), g.name(), g.name(), g.name()
		s.RequestWaits, s.Forge, s.Behind = g.maybe(), g.maybe(), g.maybe()
		s.Record.Withdraw = []string{"op"}
	}
	if g.maybe() {
		s.Operation, s.Record.Open = g.operation(), "op"
	}
	if g.IntN(6) == 0 {
		s.Foreign = errors.New("another instance's")
	}
	s.Head, s.Exists, s.Suspended = g.tree(), g.maybe(), g.IntN(6) == 0
	s.Proposal = ProposalFacts{Merged: g.IntN(6) == 0, Again: g.short()}
	s.Change = ChangeFacts{Before: g.intent(), After: g.intent(), FailedFrom: g.intent(), FailedTo: g.intent(), Next: g.operation(), Due: g.maybe(),
		Requested: g.maybe(), Begun: g.maybe(), Window: WindowFacts{Type: lcm.Scale, Why: g.name()}, Override: override{reason: g.name()}}
	if g.maybe() {
		s.Change.Edits, s.Change.SeenWaiting = []desired.KeyValue{{}}, lcm.Scale
	}
	if g.IntN(6) == 0 {
		s.blocked = Part(g.IntN(int(partCount))).String()
	}
	s.Rest = RestFacts{Stands: &desired.Instance{Suspend: g.IntN(6) == 0, Held: g.name()}, Unseen: g.IntN(6) == 0, Pause: g.short(), Unconfirmed: g.maybe(), Due: g.steps(),
		Examined: g.maybe(), Resting: noon, Pausing: g.short(), Lacks: g.maybe(), Freed: g.maybe(), Ask: g.short(), Refused: g.short(), Hooks: g.name(), Window: WindowFacts{Why: g.name()}}
	s.Attempt = AttemptFacts{Awaits: g.name(), Care: g.maybe(), Pending: g.maybe(), Again: g.short(), Overtaken: g.IntN(6) == 0, Limit: time.Minute, Left: g.short(),
		Steps: g.steps(), MovedOn: g.maybe(), Stood: g.short(), Grace: time.Second, Times: g.IntN(8), Quiet: g.short(), Batches: g.IntN(20), Contended: g.maybe()}

	return s
}

// TestNextHasAnAnswerToEverySituation plays passes of situations that are generated. Each ends, nothing is read or done
// twice on the way, and what is written is what the situation lacks.
func TestNextHasAnAnswerToEverySituation(t *testing.T) {
	t.Parallel()

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	answers := map[Verb]int{}
	for range 20_000 {
		s := g.situation()
		at := s.Situation
		done := map[Verb]bool{}
		for rounds := 0; ; rounds++ {
			a := Next(at)
			if again := Next(at); !reflect.DeepEqual(a, again) {
				t.Fatalf("Next answers %+v, and %+v when it is asked again", a, again)
			}
			if rounds > int(partCount)+int(verbCount) {
				t.Fatalf("no end after %d rounds: %+v of %+v", rounds, a, at)
			}
			if a.Do == Look {
				if at.Seen.Has(a.Part) {
					t.Fatalf("part %s is read twice in %+v", a.Part, at)
				}
				s.read(&at, a)

				continue
			}

			answers[a.Do]++
			if done[a.Do] {
				t.Fatalf("%s is answered twice in %+v", a.Do, at)
			}
			done[a.Do] = true
			if err := lacking(at, a); err != nil {
				t.Fatalf("%s, %v: %+v", a.Do, err, at)
			}
			if !carriedOn(&at, a) {
				break
			}
		}
	}

	for v := range verbCount {
		if v != Look && answers[v] == 0 {
			t.Errorf("no situation was answered by %q", v)
		}
	}
}

// lacking fails where an action writes what isn't its to write in the situation: an operation begins only where none is in
// progress, an attempt ends only where one is, and a commit is made only of what git lacks.
func lacking(s Situation, a Action) error {
	inProgress := s.Operation != nil && s.Operation.State != lcm.FailedTemp
	proposed := s.Attempt.Operation != nil && s.Attempt.Operation.Proposed()
	holds := map[Verb]bool{
		Begin:         !inProgress && s.Head.Tree != s.Record.Operated.Tree,
		FastForward:   !inProgress && s.Head.Tree != s.Record.Operated.Tree,
		BeginRepair:   (!inProgress || s.Rest.Waiting != "") && s.Rest.Failed == nil && len(s.Rest.Due) > 0,
		RetryRepair:   s.Rest.Failed != nil && s.Rest.Failed.State == lcm.FailedTemp,
		Retry:         !inProgress && s.Operation != nil && s.Operation.GaveWay,
		RollBack:      !inProgress && s.Operation != nil,
		FillIn:        !inProgress && len(s.Change.Edits) > 0,
		PinAtRest:     s.Operation == nil && len(s.Change.Edits) > 0,
		CommitOutcome: s.Record.OutstandingCommit != "",
		ForgetRecord:  s.Operation == nil && !s.Exists && s.known(),
		Start:         inProgress && s.Attempt.Issued && len(s.Attempt.Steps) > 0,
		Issue:         inProgress && !s.Attempt.Issued && len(s.Attempt.Steps) > 0,
		Complete:      inProgress && len(s.Attempt.Steps) == 0 && !proposed,
		Park:          inProgress && proposed,
		End:           inProgress && a.Problem != nil,
		TellWait:      inProgress && s.Attempt.Awaits != "",
	}
	if ok, known := holds[a.Do]; known && !ok {
		return fmt.Errorf("which the situation doesn't call for")
	}

	return nil
}

func TestEveryPartAndVerbIsCarriedOut(t *testing.T) {
	t.Parallel()

	for p := range partCount {
		if looking[p] == nil || p.String() == "" {
			t.Errorf("part %d (%s) isn't read by a pass", p, p)
		}
	}
	for v := Look + 1; v < verbCount; v++ {
		if doing[v] == nil || v.String() == "" {
			t.Errorf("verb %d (%s) isn't carried out by a pass", v, v)
		}
	}
}
