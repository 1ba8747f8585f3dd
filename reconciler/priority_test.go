package reconciler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

func put(p *priority, id string, u urgency) {
	p.ask(id, u)
	if p.places[id] == nil {
		p.Push(id)
		return
	}
	p.Touch(id)
}

func drain(p *priority) (ids []string) {
	for p.Len() > 0 {
		ids = append(ids, p.Pop())
	}
	return ids
}

func TestTheMostUrgentGoFirstAndEqualsAsTheyCame(t *testing.T) {
	t.Parallel()

	p := newPriority()
	for i, u := range []urgency{idle, repairing, atWork, wanted, atWork, idle, repairing} {
		put(p, fmt.Sprint(i), u)
	}
	if got, want := drain(p), []string{"2", "4", "3", "1", "6", "0", "5"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAnInstanceThatIsAskedForMovesUpAndNeverDown(t *testing.T) {
	t.Parallel()

	p := newPriority()
	put(p, "a", idle)
	put(p, "b", idle)
	put(p, "b", atWork)
	put(p, "b", idle)
	put(p, "c", repairing)
	if got, want := drain(p), []string{"b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// However much that is urgent keeps coming, whoever waits behind n of the same urgency has
// its turn within a bound that only n decides.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()

	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPriority()
		type waiter struct{ turns, bound int }
		waits := map[string]*waiter{}
		for turn := range 2000 {
			for range 1 + r.IntN(2) { // more come than go
				u := urgency(r.IntN(int(urgencies)))
				if r.IntN(2) == 0 {
					u = atWork
				}
				id := fmt.Sprint(turn, u, r.IntN(100))
				put(p, id, u)
				if waits[id] == nil {
					// The most urgent wait for each other and for the turns of the others.
					bound := (p.waiting[u].Len() + 1) * (patience[u] + int(urgencies))
					waits[id] = &waiter{bound: bound}
				}
			}
			got := p.Pop()
			delete(waits, got)
			for id, w := range waits {
				if w.turns++; w.turns > w.bound {
					t.Fatalf("seed %d: %s waits for %d turns, and should for %d at most", seed, id, w.turns, w.bound)
				}
			}
		}
		if len(p.taken) == 0 || p.Len() != len(waits) {
			t.Fatalf("seed %d: %d wait, want %d", seed, p.Len(), len(waits))
		}
	}
}

func TestARetryIsAsUrgentAsItsOperation(t *testing.T) {
	t.Parallel()

	l := newLine()
	op := oplog.OperationEntry{ID: "op", Instance: "a", State: lcm.Processing}
	l.operationChanged(op)
	for _, id := range []string{"b", "a"} {
		l.moved(id)
	}
	first, _ := l.queue.Get()
	second, _ := l.queue.Get()
	if first != "a" || second != "b" {
		t.Errorf("%s goes before %s, and has no operation under way", first, second)
	}
	if u := l.again("a"); u != atWork {
		t.Errorf("the instance with an operation under way comes back with urgency %d", u)
	}
	if u := l.again("b"); u != repairing {
		t.Errorf("the instance at rest comes back with urgency %d", u)
	}
	op.State = lcm.Completed
	l.operationChanged(op)
	l.addAfter("a", atWork, 0)
	l.queue.Done("a")
	if u := l.urgency("a", idle); u != idle || len(l.open) > 0 {
		t.Errorf("an operation that has ended makes its instance urgent: %d", u)
	}
}
