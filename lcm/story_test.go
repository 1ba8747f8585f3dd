package lcm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestTheStoryOfAnOperationKeepsItsBeginningAndItsEnd(t *testing.T) {
	op := &lcm.Operation{ID: "a", State: lcm.Prepared, Type: lcm.Scale}
	now := time.Now()
	if err := op.Advance(lcm.Committed, now, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		op.AddToStory(now, fmt.Sprint("line ", i))
	}
	if err := op.Advance(lcm.Granted, now, nil); err != nil {
		t.Fatal(err)
	}
	if err := op.Advance(lcm.Broke, now, &lcm.ProblemDetails{Status: 500, Detail: strings.Repeat("why ", 1000)}); err != nil {
		t.Fatal(err)
	}
	n := len(op.Story)
	if n > 250 || op.Story[0].Text != "STARTING" || op.Story[1].Text != "line 0" || op.Story[n-2].Text != "PROCESSING" || op.Story[n-3].Text != "line 999" {
		t.Errorf("%d lines: %v … %v", n, op.Story[:2], op.Story[n-3:n-1])
	}
	if last := op.Story[n-1].Text; !strings.HasPrefix(last, "FAILED_TEMP: why why") || len([]rune(last)) > 400 {
		t.Errorf("the last line is %q", last)
	}
	cuts := 0
	for _, line := range op.Story {
		if line.Text == "…" {
			cuts++
		}
	}
	if cuts != 1 {
		t.Errorf("%d lines stand for those that are left out", cuts)
	}
}

func TestAnOperationTellsWhatItWaitsForFromItsStory(t *testing.T) {
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	op := &lcm.Operation{State: lcm.Starting}
	waiting := func(want string, since int) {
		t.Helper()
		w, ok := op.Waiting()
		if ok != (want != "") || w.For != want || ok && !w.Since.Equal(began.Add(time.Duration(since)*time.Second)) {
			t.Errorf("it waits (%t) for %q since %v, want %q since second %d", ok, w.For, w.Since, want, since)
		}
	}
	waiting("", 0)
	op.AddToStory(began, "STARTING")
	waiting("", 0)
	for i, what := range []string{"the grant of nfvo-a", "the grant of nfvo-a: 502", "the grant of nfvo-a: 502", "the grant of nfvo-a: 503"} {
		op.AddWait(began.Add(time.Duration(i+1)*time.Second), what)
		waiting(what, 1)
	}
	if n := len(op.Story); n != 4 {
		t.Errorf("the story has %d lines: %v", n, op.Story)
	}
	for i := range 1000 {
		op.AddWait(began.Add(time.Minute), fmt.Sprint("the grant of nfvo-a: ", i))
	}
	waiting("the grant of nfvo-a: 999", 1)
	op.AddToStory(began, "granted by the NFVO")
	waiting("", 0)
	op.AddWait(began.Add(time.Hour), "the termination of VNF instance b")
	waiting("the termination of VNF instance b", 3600)
	op.AddWait(began.Add(2*time.Hour), "VIM a")
	op.AddWait(began.Add(2*time.Hour), "VIM a")
	waiting("VIM a", 3600)
	op.EndWait(began.Add(3*time.Hour), "VIM b", "VIM b is there")
	waiting("VIM a", 3600)
	op.EndWait(began.Add(3*time.Hour), "VIM a", "VIM a is there")
	waiting("the termination of VNF instance b", 3600)
	op.AddToStory(began, "deploy")
	op.AddWait(began.Add(5*time.Hour), "VIM a")
	op.EndWait(began.Add(6*time.Hour), "VIM a", "VIM a is there")
	waiting("", 0)
	if last := op.Story[len(op.Story)-1].Text; last != "VIM a is there" {
		t.Errorf("the story ends with %q", last)
	}
	op.AddWait(began.Add(7*time.Hour), "VIM a")
	op.State = lcm.RolledBack
	waiting("", 0)
}
