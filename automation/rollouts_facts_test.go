package automation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/automation/rollout"
)

var directFile = strings.Replace(proposingFile, "write: pull-request\n", "", 1)

// head is the tree of the first site at head.
func (w *proposing) head() string {
	w.Helper()
	rev, found := w.repo.Lookup(firstSite)
	if !found {
		w.Fatal("the first site is gone")
	}

	return rev.Tree
}

func TestAbortTakesBackWhatHasNotBegun(t *testing.T) {
	t.Parallel()

	for name, then := range map[string]string{"and leaves the rest": "halt", "whatever comes at failures": "rollbackAll"} {
		t.Run(name, func(t *testing.T) {
			w := newRolling(t, directFile+"failures: {then: "+then+"}\n")
			before := w.head()
			w.goOn() // its commit waits for a window: no operation begins
			if w.head() == before {
				t.Fatal("nothing was begun")
			}

			w.ask(RolloutAbort)
			w.goOn()

			if w.head() != before {
				t.Error("what waits for its window is at the target still")
			}
			if st := w.want(rollout.Aborted, ""); st.Counts.Back != 1 || st.Counts.UnderWay != 0 {
				t.Errorf("it ended as %+v", st.Counts)
			}
		})
	}
}

func TestAbortLeavesWhatHasBegun(t *testing.T) {
	t.Parallel()

	w := newRolling(t, directFile)
	w.goOn()
	target := w.head()
	w.begin()

	w.ask(RolloutAbort)
	w.goOn()
	w.want(rollout.Aborting, "the end of 1 operation")
	w.end()
	w.goOn()

	if st := w.want(rollout.Aborted, ""); w.head() != target || st.Counts.Completed != 1 {
		t.Errorf("it ended as %+v", st.Counts)
	}
}

func TestARevertedWaveIsNotCompleted(t *testing.T) {
	t.Parallel()

	w := newRolling(t, directFile)
	old := "id: " + firstSite + "\nname: s\nvnfdId: x\nflavour: simple\nlevels: {vdu1_aspect: 1}\n"
	w.goOn()
	w.begin()
	w.end()
	w.goOn()
	w.pull()
	w.put("instances/s0/vnf.yaml", old)
	w.push("Take the first wave back")
	w.begin()
	w.end()
	w.goOn()

	st := w.want(rollout.Halted, "wave 1 was taken back by other commits")
	if len(st.Passed) != 1 || st.Passed[0].Reason != rollout.LeftReason {
		t.Errorf("%+v is passed over", st.Passed)
	}
	reverted := w.head()
	w.ask(RolloutResume)
	for range 4 {
		w.goOn()
		w.begin()
		w.end()
	}
	w.goOn()

	if st := w.want(rollout.Done, ""); w.head() != reverted || st.Counts.Completed != 3 || st.Counts.Passed != 1 {
		t.Errorf("it ended as %+v", st.Counts)
	}
}

func TestAnEndedRolloutTellsWhatIs(t *testing.T) {
	t.Parallel()

	w := newRolling(t, directFile)
	for range 5 {
		w.goOn()
		w.begin()
		w.end()
	}
	w.goOn()
	if st := w.want(rollout.Done, ""); st.Counts.Completed != 4 {
		t.Fatalf("it ended as %+v", st.Counts)
	}

	w.pull()
	w.put("instances/s0/vnf.yaml", "id: "+firstSite+"\nname: s\nvnfdId: x\nflavour: simple\nlevels: {vdu1_aspect: 1}\n")
	w.push("Take one back")

	if st := w.want(rollout.Done, ""); st.Counts.Completed != 3 || st.Counts.Passed != 1 || len(st.Passed) != 1 {
		t.Errorf("after a revert it is shown as %+v", st)
	}
}

func TestRolloutFilesNotInEffectAreProblems(t *testing.T) {
	t.Parallel()

	w := newRolling(t, directFile)
	for range 5 {
		w.goOn()
		w.begin()
		w.end()
	}
	w.goOn()
	if list, err := w.process.Problems(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("problems of a good file: %+v, %v", list, err)
	}

	w.pull()
	w.put("rollouts/edge.yaml", strings.Replace(directFile, "vdu1_aspect: 5", "vdu1_aspect: 6", 1))
	w.put("rollouts/other.yaml", directFile)
	w.put("rollouts/wrong.yaml", directFile+"atOnce: 0\n")
	w.push("Bring what can't be in effect")
	list, err := w.process.Problems(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{"rollouts/edge.yaml": "has ended", "rollouts/other.yaml": "it has the id of rollouts/edge.yaml", "rollouts/wrong.yaml": "atOnce"}
	for _, p := range list {
		if !strings.Contains(p.Message, want[p.File]) || p.Remedy == "" {
			t.Errorf("%+v", p)
		}
		delete(want, p.File)
	}
	if len(want) != 0 {
		t.Errorf("of %v there is no problem: %+v", want, list)
	}
	before := w.head()
	w.goOn()
	if w.head() != before {
		t.Error("an ended rollout has brought another target")
	}
	if _, _, err := w.process.One(t.Context(), "edge"); err != nil {
		t.Error(err)
	}
}

func TestGitRevertOfAWaveLeavesItsInstancesAlone(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		begins  bool // before the revert
		commits int
		goesOn  bool // the process, which remembers the ledgers that it wrote
	}{
		"that waits for its window":               {commits: 1},
		"that was begun":                          {begins: true, commits: 1},
		"that was completed":                      {begins: true, commits: 2},
		"with the start of the rollout":           {commits: 2},
		"that waits, without a restart":           {commits: 1, goesOn: true},
		"that was completed, without a restart":   {begins: true, commits: 2, goesOn: true},
		"with the start, and without a restart":   {commits: 2, goesOn: true},
		"that was begun, and without any restart": {begins: true, commits: 1, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRolling(t, directFile+"after: {approve: true}\n")
			before := w.head()
			w.goOn()
			if c.begins {
				w.begin()
				w.end()
			}
			if c.begins && c.commits > 1 {
				w.goOn()
				w.want(rollout.Approving, "")
			}
			w.pull()
			for n := range c.commits { // the newest first
				w.git(w.clone, "revert", "--no-edit", fmt.Sprintf("HEAD~%d", 2*n))
			}
			w.git(w.clone, "push", "-q", "origin", "HEAD:main")
			if err := w.repo.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if w.head() != before {
				t.Fatal("the revert has reverted nothing")
			}
			if !c.goesOn {
				w.process = nil // a restart remembers nothing
			}
			for range 3 {
				w.goOn()
				w.begin()
				w.end()
			}
			w.goOn()
			if w.head() != before {
				t.Fatalf("what was reverted was started again: %+v", w.status())
			}
			st := w.status()
			if len(st.Passed) != 1 || !strings.Contains(st.Passed[0].Reason, "reverted") && st.Passed[0].Reason != rollout.LeftReason {
				t.Errorf("%+v is passed over, in %s", st.Passed, st.Phase)
			}
			if st.Phase != rollout.Halted {
				t.Errorf("the rollout is %s, and would bring to others what was taken back", st.Phase)
			}
		})
	}
}
