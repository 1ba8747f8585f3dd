package rollout_test

import (
	"testing"
	"time"
)

const unmergedFile = `select: {folders: [instances/**]}
to: {vnfdId: amf-2, package: cccccccccccccccccccccccccccccccccccccccc}
atOnce: 2
windows: [{cron: "0 13 * * *", timezone: UTC, lasts: 1h}]
write: pull-request
`

// With nightly windows no pull request is older than a window is long: since when people are waited for has to
// outlast each of them.
func TestSinceWhenNothingIsMergedOutlastsProposalsThatAreMadeAnewAndEndsWithAMergeOrAPersonsWord(t *testing.T) {
	w := newWorld()
	do := func(steps ...string) {
		t.Helper()
		for _, step := range steps {
			var err error
			switch step {
			case "next":
				err = w.carryOut(w.decide())
			case "pause":
				err = w.set(unmergedFile + "state: paused\n")
			case "run":
				err = w.set(unmergedFile)
			default:
				after, perr := time.ParseDuration(step)
				if w.now = w.now.Add(after); perr != nil {
					t.Fatal(perr)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(number int64, since time.Time) {
		t.Helper()
		if w.l.Proposal == nil || w.l.Proposal.Number != number || w.l.Proposal.Withdrawn != "" || !w.l.Unmerged.Equal(since) {
			t.Fatalf("%s: proposal %+v, and nothing is merged since %s; want pull request %d and %s", w.now, w.l.Proposal, w.l.Unmerged, number, since)
		}
	}
	for _, dir := range []string{"instances/a", "instances/b", "instances/c", "instances/d"} {
		w.add(dir, "vim-0")
	}
	do("run", "1h", "next", "next") // at 13:00
	first := w.now
	want(1, first)
	for n := range int64(3) {
		do("1h", "next", "next", "23h", "next", "next") // its window closes, and opens the next day
		want(n+2, first)
	}
	w.facts["instances/a"].Tree = "moved"
	w.facts["instances/b"].Tree = "moved"
	w.facts["instances/c"].Tree = "moved"
	do("5m", "next", "next", "next") // the branch has changed what is proposed
	want(5, first)
	w.merge()
	do("next")
	if w.l.Proposal != nil || !w.l.Unmerged.IsZero() {
		t.Fatalf("after the merge nothing is merged since %s: %+v", w.l.Unmerged, w.l.Proposal)
	}
	for _, dir := range w.dirs() {
		if w.facts[dir].Found.Occupies() {
			w.facts[dir].Found, w.facts[dir].Ended = "completed", w.now
		}
	}
	do("5m", "next", "next")
	second := w.now
	want(6, second)
	do("5m", "pause", "next", "next", "run", "5m", "next", "next") // somebody has looked at it
	want(7, w.now)
	w.merge("instances/nowhere")
	if do("next"); w.l.Proposal != nil || !w.l.Unmerged.IsZero() {
		t.Fatalf("after a merge without any of it nothing is merged since %s: %+v", w.l.Unmerged, w.l.Proposal)
	}
}
