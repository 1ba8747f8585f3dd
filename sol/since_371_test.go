package sol_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestWhatV371AddedIsShownToClientsThatAskForItAndToNoOthers(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", scaleOut))
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := e.oplog.Record(t.Context(), op, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Coordinations = []lcm.Coordination{
			{ID: "c1", Action: "prepare", Result: lcm.CoordinationContinue, Started: at, Ended: at.Add(time.Second), Delay: at.Add(time.Minute), Endpoint: lcm.EndpointManagement, Outputs: "very-secret"},
			{ID: "c2", Action: "finish", Started: at, Ended: at.Add(time.Hour), Endpoint: lcm.EndpointVNF}}
		op.RejectedCoordinations = []lcm.RejectedCoordination{{Action: "prepare", Rejected: at, Delay: at.Add(time.Second), Endpoint: lcm.EndpointManagement}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	path := api + "/vnf_lcm_op_occs/" + op
	older, newer := e.want(200, "GET", path, ""), e.want(200, "GET", path, "", "Version", "2.3.0")
	if older.Header.Get("Version") != "2.0.0" || newer.Header.Get("Version") != "2.3.0" || older.Header.Get("ETag") != newer.Header.Get("ETag") {
		t.Errorf("%v %v", older.Header, newer.Header)
	}
	got := newer.object(t)
	want := map[string]any{
		"lcmCoordinations": []any{
			map[string]any{"id": "c1", "coordinationActionName": "prepare", "coordinationResult": "CONTINUE", "startTime": "2030-01-02T03:04:05Z",
				"endTime": "2030-01-02T03:04:06Z", "delay": "2030-01-02T03:05:05Z", "endpointType": "MGMT"},
			map[string]any{"id": "c2", "coordinationActionName": "finish", "startTime": "2030-01-02T03:04:05Z", "endTime": "2030-01-02T04:04:05Z", "endpointType": "VNF"}},
		"rejectedLcmCoordinations": []any{map[string]any{"coordinationActionName": "prepare", "rejectionTime": "2030-01-02T03:04:05Z", "delay": "2030-01-02T03:04:06Z", "endpointType": "MGMT"}},
		"warnings":                 []any{"The coordination finish (c2) did not end in time."},
	}
	for attr := range want {
		if d := cmp.Diff(want[attr], got[attr]); d != "" {
			t.Errorf("%s: %s", attr, d)
		}
		if strings.Contains(string(older.body), attr) {
			t.Errorf("%s is shown to a client of v3.3.1", attr)
		}
	}
	for query, shown := range map[string][]string{"": {"rejectedLcmCoordinations"}, "?all_fields": {"lcmCoordinations", "rejectedLcmCoordinations", "warnings"}, "?fields=warnings": {"warnings"}} {
		for version, newer := range map[string]bool{"2.0.0": false, "2.3.0": true} {
			var list []map[string]any
			e.want(200, "GET", api+"/vnf_lcm_op_occs"+query, "", "Version", version).json(t, &list)
			for _, o := range list {
				for attr := range want {
					expected := newer && o["id"] == op && slices.Contains(shown, attr)
					if (o[attr] != nil) != expected {
						t.Errorf("%s of %s by %q: %v", attr, version, query, o[attr])
					}
				}
			}
		}
	}
}
