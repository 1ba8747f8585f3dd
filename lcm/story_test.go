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
