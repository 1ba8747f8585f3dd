package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/automation/rollout"
)

const fileOf = `select: {folders: [instances/**]}
to: {vnfdId: amf-2, package: cccccccccccccccccccccccccccccccccccccccc%s}
order: [{percent: 10}, {percent: 40}, {percent: 100}]
atOnce: %d
perVIM: %d
after: {soak: 5m}
failures: {budget: %d, then: %s}
write: %s
state: %s
`

// Whatever fails, whatever is lost between a commit and its record, and however often the file is
// edited in the middle: the limits hold, the budget stops it, nothing is begun twice for one target,
// and where nothing fails any more the end is reached.
func TestLimitsAndBudgetHoldAndNothingIsBegunTwiceAndTheEndIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		atOnce, perVIM := rapid.IntRange(1, 8).Draw(t, "atOnce"), rapid.IntRange(1, 5).Draw(t, "perVIM")
		budget := rapid.IntRange(1, 4).Draw(t, "budget")
		drain, state, write := "", "running", rapid.SampledFrom([]string{"direct", "pull-request"}).Draw(t, "write")
		then := rapid.SampledFrom([]string{"halt", "rollback", "rollbackAll"}).Draw(t, "then")
		edit := func() {
			if err := w.set(fmt.Sprintf(fileOf, drain, atOnce, perVIM, budget, then, write, state)); err != nil {
				t.Fatal(err)
			}
		}
		edit()
		for i := range rapid.IntRange(1, 40).Draw(t, "sites") {
			w.add(fmt.Sprintf("instances/s%02d", i), fmt.Sprintf("vim-%d", i%3))
		}
		moves := 0
		failures := func() (n int) {
			for _, list := range w.l.Attempts {
				for _, a := range list {
					if a.Failed() && !a.Back && a.Target == w.r.To.Digest() {
						n++
					}
				}
			}
			return n - w.l.Forgiven
		}
		next := func(lost bool) {
			d := w.decide()
			for _, dir := range d.Back {
				if a := d.Ledger.Of(dir, d.Ledger.Target); a.Outcome != "failed" && (then != "rollbackAll" || a.Outcome != "completed") {
					t.Fatalf("%s is taken back although it is %q and the file says %s", dir, a.Outcome, then)
				}
			}
			if lost { // a kill before the commit: nothing of it has happened but at the forge
				return
			}
			if err := w.carryOut(d); err != nil {
				t.Fatal(err)
			}
			for _, dir := range slices.Concat(d.Start, d.Propose) {
				if f := w.facts[dir]; f.Away != "" {
					t.Fatalf("%s is begun with while %s is away", dir, f.VIM)
				}
			}
			occupied, at := 0, map[string]int{}
			for _, f := range w.facts {
				if f.Found.Occupies() {
					occupied++
					at[f.VIM]++
				}
			}
			if len(d.Propose) > 0 { // it may be merged at once
				for _, dir := range d.Propose {
					occupied++
					at[w.facts[dir].VIM]++
				}
				switch {
				case write != "pull-request" || d.Ledger.Proposal != nil:
					t.Fatalf("%v are proposed, the file says %s, and there is %+v", d.Propose, write, d.Ledger.Proposal)
				case failures() >= budget || state != "running":
					t.Fatalf("%v are proposed after %d failures, and the file says %s", d.Propose, failures(), state)
				}
			}
			for vim, n := range at {
				if len(d.Start)+len(d.Propose) > 0 && n > perVIM {
					t.Fatalf("%d are under way at %s, and perVIM is %d", n, vim, perVIM)
				}
			}
			switch {
			case len(d.Start) > 0 && write != "direct":
				t.Fatalf("%v are begun, and not proposed", d.Start)
			case len(d.Start)+len(d.Propose) > 0 && occupied > atOnce:
				t.Fatalf("%d are under way, and atOnce is %d", occupied, atOnce)
			case len(d.Start) > 0 && len(d.Back) > 0:
				t.Fatalf("%v are begun and %v taken back at once", d.Start, d.Back)
			case len(d.Back) > 0 && (state != "running" || failures() < budget && w.l.Wave == 0 && w.l.Halted == nil):
				t.Fatalf("%v are taken back although the file says %s and %d failed", d.Back, state, failures())
			case len(d.Start) > 0 && failures() >= budget:
				t.Fatalf("%v were begun after %d failures, and the budget is %d", d.Start, failures(), budget)
			case len(d.Start) > 0 && (state != "running" || d.Phase != rollout.Running):
				t.Fatalf("%v were begun although the file says %s and the rollout is %s", d.Start, state, d.Phase)
			}
			for key, n := range w.begun {
				if n > 1 {
					t.Fatalf("%s was begun %d times", key, n)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			next(rapid.Bool().Draw(t, "killed"))
			dirs := w.underWay(rollout.UnderWay, rollout.Waiting)
			switch what := rapid.SampledFrom([]string{"ends", "ends", "ends", "fails", "unseen", "vim", "healed", "joins", "held", "time", "edit", "target", "pause", "merge", "merge", "part", "close", "moves", "away", "write"}).Draw(t, "what"); what {
			case "merge", "part": // of whatever is open, wanted still or not
				if !w.pull.open || w.l.Proposal == nil {
					break
				}
				var some []string
				if what == "part" {
					some = []string{rapid.SampledFrom(w.dirs()).Draw(t, "which")}
				}
				w.merge(some...)
			case "close":
				w.pull.open = false
			case "moves":
				if f := w.facts[rapid.SampledFrom(w.dirs()).Draw(t, "which")]; !f.Reached && f.Found == rollout.Nothing {
					moves++
					f.Tree = fmt.Sprintf("%040d", moves)
				}
			case "away":
				w.away = rapid.SampledFrom([]string{"", "", "connection refused"}).Draw(t, "why")
			case "write":
				write = rapid.SampledFrom([]string{"direct", "pull-request"}).Draw(t, "how")
				edit()
			case "ends", "fails":
				if len(dirs) == 0 {
					break
				}
				f := w.facts[rapid.SampledFrom(dirs).Draw(t, "which")]
				f.Ended = w.now
				if f.Found = rollout.Completed; what == "fails" {
					f.Found = rapid.SampledFrom([]rollout.Found{rollout.FailedTemp, rollout.Failed, rollout.Superseded, rollout.Unknown}).Draw(t, "how")
				}
			case "unseen":
				if dirs = slices.DeleteFunc(dirs, func(dir string) bool { return w.facts[dir].Back }); len(dirs) > 0 {
					w.unseen(w.facts[rapid.SampledFrom(dirs).Draw(t, "which")])
				}
			case "vim":
				vim, why := fmt.Sprintf("vim-%d", rapid.IntRange(0, 2).Draw(t, "which")), rapid.SampledFrom([]string{"", "no answer"}).Draw(t, "why")
				for _, f := range w.facts {
					if f.VIM == vim {
						f.Away = why
					}
				}
			case "healed": // by hand
				for _, dir := range w.underWay(rollout.FailedTemp) {
					w.facts[dir].Found = rollout.Completed
				}
			case "joins":
				if dir := fmt.Sprintf("instances/j%02d", len(w.facts)); len(w.facts) < 60 {
					w.add(dir, "vim-0")
				}
			case "held":
				dir := rapid.SampledFrom(w.dirs()).Draw(t, "which")
				w.facts[dir].Passed = rapid.SampledFrom([]string{"", "held"}).Draw(t, "why")
			case "time":
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
			case "edit":
				then = rapid.SampledFrom([]string{"halt", "rollback", "rollbackAll"}).Draw(t, "then")
				atOnce, budget = rapid.IntRange(1, 8).Draw(t, "atOnce"), rapid.IntRange(1, 4).Draw(t, "budget")
				edit()
			case "target":
				drain = rapid.SampledFrom([]string{"", ", drain: 1s", ", drain: 2s"}).Draw(t, "drain")
				if w.l.Ended == nil {
					edit()
				}
			case "pause":
				state = rapid.SampledFrom([]string{"running", "paused"}).Draw(t, "state")
				edit()
			}
		}
		// From here on everything goes well.
		state, w.away = "running", ""
		edit()
		for n := 0; w.l.Ended == nil; n++ {
			if n > 2000 {
				d := w.decide()
				t.Fatalf("the rollout doesn't end: it is %s and waits for %s", d.Phase, d.Waits)
			}
			if w.l.Halted != nil {
				if err := w.does([]string{"resume"}); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range w.facts {
				f.Passed, f.Busy, f.Away = "", "", ""
				if f.Found.Occupies() {
					f.Found, f.Ended = rollout.Completed, w.now
				}
			}
			w.now = w.now.Add(time.Minute)
			next(false)
			if w.pull.open && w.l.Proposal != nil && w.l.Proposal.Withdrawn == "" {
				w.merge()
			}
		}
		if w.pull.open {
			t.Fatalf("pull request %d is open at the end", w.pull.number)
		}
	})
}

func TestAVIMThatOnlyOneInstanceNeverSeesIsAFailureInTheEnd(t *testing.T) {
	w := newWorld()
	if err := w.set(fmt.Sprintf(fileOf, "", 1, 1, 1, "halt", "direct", "running")); err != nil {
		t.Fatal(err)
	}
	w.add("instances/s01", "vim-0")
	for n := 0; ; n++ {
		d := w.decide()
		if d.Phase == rollout.Halted {
			if n != 6 || d.Counts.Failed != 1 {
				t.Errorf("halted after %d attempts, with %+v", n, d.Counts)
			}
			return
		}
		if n > 6 || len(d.Start) != 1 {
			t.Fatalf("attempt %d: %+v", n, d)
		}
		if err := w.carryOut(d); err != nil {
			t.Fatal(err)
		}
		w.unseen(w.facts["instances/s01"])
	}
}
