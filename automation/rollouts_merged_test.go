package automation

import (
	"testing"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const firstSite = "00000000-0000-4000-8000-000000000000"

func TestWhatWasMergedOtherwiseThanProposedIsTheRolloutsAndIsNotTakenBack(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		edited     bool
	}{
		"as it was proposed":        {},
		"with another name":         {file: "vnf.yaml", text: "id: " + firstSite + "\nname: edited\nvnfdId: x\nflavour: simple\nlevels: {vdu1_aspect: 5}\n", edited: true},
		"with a file more":          {file: "README.md", text: "why\n", edited: true},
		"and an NFVO has placed it": {file: desired.GrantedFile, text: "vim: lab\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProposing(t)
			w.goOn()
			branch := w.open()
			w.pull()
			w.git(w.clone, "merge", "-q", "--squash", "origin/"+branch)
			if c.file != "" {
				w.put("instances/s0/"+c.file, c.text)
			}
			w.push("Merge it")
			w.pulls[branch].Open, w.pulls[branch].Merged = false, w.git(w.clone, "rev-parse", "HEAD")
			w.begin()
			w.goOn()
			w.want(rollout.Running, "the end of 1 operation")
			w.end()
			w.goOn()
			l := w.ledger()
			if a := l.Of(firstSite, l.Target); a == nil || a.Edited != c.edited || a.Outcome != desired.OutcomeCompleted {
				t.Fatalf("%+v", a)
			}
		})
	}
}

func TestWhatIsMergedJustAfterTheInstancesWereLookedAtIsNotPassedOver(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	w := newProposing(t)
	w.goOn()
	w.meanwhile = func() { w.merge() }
	w.goOn()
	w.begin()
	w.end()
	w.goOn()
	l := w.ledger()
	if a := l.Of(firstSite, l.Target); a == nil || a.Outcome != desired.OutcomeCompleted {
		t.Fatalf("%+v", a)
	}
}

func TestWhatAReviewerHasTakenTheTargetFromIsPassedOver(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	w := newProposing(t)
	w.goOn()
	branch := w.open()
	w.pull()
	w.git(w.clone, "merge", "-q", "--squash", "origin/"+branch)
	w.put("instances/s0/vnf.yaml", "id: "+firstSite+"\nname: s\nvnfdId: x\nflavour: simple\nlevels: {vdu1_aspect: 3}\n")
	w.push("Merge it with fewer units")
	w.pulls[branch].Open, w.pulls[branch].Merged = false, w.git(w.clone, "rev-parse", "HEAD")
	w.begin()
	w.end()
	w.goOn()
	if st := w.status(); st.Counts.Passed != 1 || st.Wave != 2 || len(w.pulls) != 2 {
		t.Fatalf("%+v with %d pull requests", st, len(w.pulls))
	}
}
