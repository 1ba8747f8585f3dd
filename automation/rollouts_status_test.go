package automation

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// movingRepo has something happen the first time that somebody looks at instances.
type movingRepo struct {
	RolloutRepo
	happens func()
}

func (r *movingRepo) Heads(after string) iter.Seq[desired.Head] {
	if f := r.happens; f != nil {
		r.happens = nil
		f()
	}
	return r.RolloutRepo.Heads(after)
}

// A ledger of before beside instances of now tells what never was: a rollout at its end of which one instance was
// just taken back.
func TestAStatusIsOfOneMomentAlsoWhereTheLedgerMovesMeanwhile(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, status := range map[string]func(r *Rollouts) (RolloutStatus, error){
		"of all": func(r *Rollouts) (RolloutStatus, error) {
			list, err := r.List(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			return list[0], err
		},
		"of one": func(r *Rollouts) (RolloutStatus, error) {
			st, text, err := r.One(t.Context(), "edge")
			if len(text) == 0 {
				t.Error("its file isn't told")
			}
			return st, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProposing(t)
			w.process = w.newProcess()
			shown := w.newProcess()
			shown.Repo = &movingRepo{RolloutRepo: w.repo, happens: w.goOn} // it begins, and proposes
			st, err := status(shown)
			if err != nil {
				t.Fatal(err)
			}
			if st.ID == "" || st.Started.IsZero() || st.Proposal == nil {
				t.Errorf("it is shown as it was before its ledger was written: %+v", st)
			}
		})
	}
	w := newProposing(t)
	if _, _, err := w.newProcess().One(t.Context(), "core"); err == nil {
		t.Error("one that isn't there is shown")
	}
}

// refusingRepo is on a remote that takes no commits of Jibe's.
type refusingRepo struct {
	RolloutRepo
}

func (refusingRepo) RefusesPushes() error {
	return errors.New("the remote refuses Jibe's commits: protected branch")
}

func TestARolloutSaysThatItWaitsForTheRemote(t *testing.T) {
	t.Parallel()

	w := newProposing(t)
	shown := w.newProcess()
	shown.Repo = refusingRepo{w.repo}

	st, _, err := shown.One(t.Context(), "edge")

	if err != nil || !strings.Contains(st.WaitsFor, "protected branch") {
		t.Errorf("it waits for %q (%v)", st.WaitsFor, err)
	}
}
