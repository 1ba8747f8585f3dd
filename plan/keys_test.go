package plan_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/plan"
)

// What a journal holds is text in the store, and operations outlive the process that began
// them, so that the text may never change.
const writtenBefore = `{"operation":"HEAL","granted":true,"hooks":["heal_start","coordinate_new@Server/web/a"],"begun":["heal_start"],` +
	`"issued":["apply:Deployment/amf/vdu1","scale:Stack/vnf-1=2@web","delete:ClusterRole//a@b@c1",` +
	`"deleteUnit:Server/web/a@s1@2026-01-02T03:04:05Z of Stack/vnf-1","renew:Server/web/b@s2@1 of Stack/vnf-1"],` +
	`"touched":true,"targets":["Server/web/a@s1@2026-01-02T03:04:05Z","ClusterRole//a@b@c1"]}`

func TestAJournalThatWasWrittenBeforeIsReadAndWrittenAsItWas(t *testing.T) {
	var j plan.Journal
	if err := json.Unmarshal([]byte(writtenBefore), &j); err != nil {
		t.Fatal(err)
	}
	for _, s := range []plan.Step{
		{Action: plan.Apply, Object: "Deployment/amf/vdu1", From: 1, To: 2},
		{Action: plan.Scale, Object: "Stack/vnf-1", From: 1, To: 2, VDU: "web"},
		{Action: plan.Delete, Object: "ClusterRole//a@b", Incarnation: "c1"},
		{Action: plan.DeleteUnit, Object: "Server/web/a", Incarnation: "s1@2026-01-02T03:04:05Z", Owner: "Stack/vnf-1"},
		{Action: plan.Renew, Object: "Server/web/b", Incarnation: "s2@1", Owner: "Stack/vnf-1"},
	} {
		if !slices.Contains(j.Issued, s.Key()) {
			t.Errorf("%s isn't among what was issued: it has the key %q", s, s.Key())
		}
		if _, fresh := j.Issue([]plan.Step{s}); fresh {
			t.Errorf("%s would be issued as if it had not been before", s)
		}
	}
	for key, want := range map[string]bool{
		"Deployment/amf/vdu1": true, "Deployment/amf/vdu": false, "Deployment/amf/vdu10": false, "Stack/vnf-1": true, "Stack/vnf": false,
		"ClusterRole//a@b": true, "Server/web/a": true, "Server/web/b": true, "Server/web": false,
	} {
		if got := j.IssuedOn(key); got != want {
			t.Errorf("IssuedOn(%q) is %v", key, got)
		}
	}
	for key, incarnation := range map[string]string{"Server/web/a": "s1@2026-01-02T03:04:05Z", "ClusterRole//a@b": "c1"} {
		if !slices.Contains(j.Targets, plan.TargetOf(key, incarnation)) {
			t.Errorf("%s of %s is no target", incarnation, key)
		}
	}
	if script, unit := plan.HookUnit(j.Hooks[1]); script != plan.CoordinateNew || unit != "Server/web/a" {
		t.Errorf("the hook is %q for %q", script, unit)
	}
	if again, err := json.Marshal(j); err != nil || string(again) != writtenBefore {
		t.Errorf("written again as\n%s, want\n%s (%v)", again, writtenBefore, err)
	}
}
