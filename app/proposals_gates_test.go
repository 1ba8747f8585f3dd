package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAnNFVOIsAskedBeforeAPullRequestIsOpenedAndWhatItGrantsIsCommittedAfterItsMerge(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	n := nfvo.New(t)
	p := newProposing(t, "{pullRequest: [INSTANTIATE, SCALE]}", map[string]string{
		"peers.yaml":    "- {name: nfvo-a, type: nfvo, endpoint: \"" + n.URL + "\"}\n",
		"granting.yaml": "nfvo: {name: nfvo-a}\n",
	})
	n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{Refused: "no room in the north"} })
	op := p.scaleOut()
	p.rolledBack(op, "no room in the north")
	p.tidied(op)
	if pr := p.api.of(branchOf(op)); pr.number != 0 {
		t.Errorf("it was proposed as %+v", pr)
	}

	n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{} })
	p.Await(t, p.ask(http.StatusAccepted, "terminate", map[string]any{"terminationType": "FORCEFUL"}), "COMPLETED")
	asked := len(n.Asked())
	n.Decide(func(nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{
			With: map[string]any{"zones": []any{map[string]any{"id": "z", "zoneId": "zone-1"}}},
			Each: func(resource, info map[string]any) {
				if resource["type"] == "COMPUTE" {
					info["zoneId"] = "z"
				}
			},
		}
	})
	op = p.ask(http.StatusAccepted, "instantiate", map[string]any{"flavourId": "simple"})
	pr := p.opened(op)
	if got := len(n.Asked()); got != asked+1 {
		t.Errorf("the NFVO was asked %d times before the merge, want %d", got, asked+1)
	}
	p.restart()
	p.opened(op)
	p.merge(pr, "squash", nil)
	p.Await(t, op, "COMPLETED")
	if got := len(n.Asked()); got != asked+1 {
		t.Errorf("the NFVO was asked %d times, want %d", got, asked+1)
	}
	p.work.Pull()
	if got := p.work.Read("instances/a/granted.yaml"); !strings.Contains(got, "zone-1") {
		t.Errorf("granted.yaml says %q", got)
	}
	p.units(1)
}

func TestWhatIsMergedInAFreezeBeginsWhenItIsOver(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	frozen := fmt.Sprintf("freezes:\n- {from: %s, until: %s, reason: new year}\n", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	freeze := func(is bool) {
		t.Helper()
		p.work.Pull()
		if is {
			p.work.Write("maintenance.yaml", frozen)
		} else {
			p.work.Remove("maintenance.yaml")
		}
		p.work.Push("Freeze, or not")
		p.told()
	}
	op := p.scaleOut()
	pr := p.opened(op)
	freeze(true)
	p.merge(pr, "merge", nil)
	waitsFor(t, p.Server, proposedID, "is merged; it can't begin now: frozen (new year)")
	p.ask(http.StatusConflict, "heal", map[string]any{})
	p.cloud.Lose("Workload/a/vdu1")
	p.repaired()
	p.units(1)

	// In a freeze, a request can be made: who reviews it has the time.
	freeze(false)
	p.Await(t, op, "COMPLETED")
	p.units(2)
	freeze(true)
	kit.Eventually(t, func() error {
		a, err := p.Do(t.Context(), http.MethodPost, process.Instances+"/"+proposedID+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"}, "Jibe-Override", "emergency calls fail")
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		if err == nil {
			op = a.ID()
		}
		return err
	})
	p.merge(p.opened(op), "merge", nil)
	p.Await(t, op, "COMPLETED")
	p.units(3)
}

func TestAHealThatWouldBeProposedWhileACommitWaitsIsRefusedAndSaysWhatToDo(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	p := newProposing(t, "{pullRequest: [HEAL, SCALE]}", nil)
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	p.work.Pull()
	p.work.Write("maintenance.yaml", "freezes: [{until: "+until+", reason: new year}]\n")
	p.work.Push("Freeze")
	p.work.Write(proposedFile, p.work.Read(proposedFile)+"levels: {front: 1} # tonight\n")
	p.work.Push("One more, tonight")
	p.told()
	waits := func() {
		t.Helper()
		kit.Eventually(t, func() error {
			var in struct {
				Jibe struct {
					Waiting struct{ Operation, For string }
				}
			}
			err := p.Get(t.Context(), process.Instances+"/"+proposedID, &in)
			if err == nil && (in.Jibe.Waiting.Operation != "SCALE" || !strings.HasPrefix(in.Jibe.Waiting.For, "frozen (new year)")) {
				err = fmt.Errorf("nothing waits: %+v", in)
			}
			return err
		})
	}
	waits()
	before := p.steps()
	heal := map[string]any{"additionalParams": map[string]any{"all": false}}
	a := p.Want(t, http.StatusConflict, http.MethodPost, process.Instances+"/"+proposedID+"/heal", heal, nil)
	for _, says := range []string{"SCALE waits: frozen (new year)", "a HEAL that is proposed as a pull request (write in projects/default.yaml) would be merged into that", "leave HEAL out of write there", "revert the commit"} {
		if !strings.Contains(string(a.Body), says) {
			t.Errorf("it is refused by %s, which lacks %q", a.Body, says)
		}
	}
	if after := p.steps(); after != before || p.api.opens() != 0 {
		t.Errorf("there are %s and %d pull requests, before %s", after, p.api.opens(), before)
	}

	// As it says.
	p.work.Write("projects/default.yaml", "write: {pullRequest: [SCALE]}\n")
	p.work.Push("Heal at once")
	p.told()
	var op string
	kit.Eventually(t, func() error {
		a, err := p.Do(t.Context(), http.MethodPost, process.Instances+"/"+proposedID+"/heal", heal)
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		if err == nil {
			op = a.ID()
		}
		return err
	})
	p.Await(t, op, "COMPLETED")
	waits()
	p.units(1)
	p.work.Pull()
	if got := p.work.Read(proposedFile); !strings.Contains(got, "levels: {front: 1} # tonight\n") || !strings.Contains(got, "condemned:") {
		t.Errorf("what waits is\n%s", got)
	}
}
