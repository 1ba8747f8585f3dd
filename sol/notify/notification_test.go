package notify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/published"
)

func TestNotificationsLookAsSOL003Says(t *testing.T) {
	published.Held(t)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(id, name string) plan.Unit {
		return plan.Unit{ID: id, Name: name, VDU: "vdu1", Kind: "Deployment", Metadata: map[string]string{"node": "n1"}}
	}
	operation := func(t lcm.Type, s lcm.State, p *lcm.ProblemDetails) oplog.Event {
		op := &lcm.Operation{ID: "op1", Instance: "amf", Type: t, State: s, Attempt: 1, Error: p,
			UnitsBefore: []plan.Unit{pod("u1", "vdu1-a"), pod("u2", "vdu1-b")}, UnitsAfter: []plan.Unit{pod("u1", "vdu1-a"), pod("u3", "vdu1-c")}}
		if t == lcm.ModifyInfo {
			op.UnitsBefore, op.UnitsAfter = nil, nil
			op.ChangedInfo = json.RawMessage(`{"vnfInstanceName":"new"}`)
		}
		if t == lcm.ChangePackage {
			op.PkgChange = json.RawMessage(`{"vnfdId":"d2","vnfSoftwareVersion":"2.0"}`)
		}
		return oplog.Event{Seq: 7, Type: oplog.OperationEvent, Time: at, Instance: "amf", Operation: op}
	}
	server := func(id string) plan.Unit {
		return plan.Unit{ID: id, Key: "Server/VDU1/a", Name: "s1", VDU: "VDU1", Kind: "OS::Nova::Server", VIM: "core"}
	}
	port := func(id, network string, external bool) plan.Resource {
		return plan.Resource{Kind: plan.LinkPort, ID: id, Type: "OS::Neutron::Port", Name: "CP1", Unit: "Server/VDU1/a", VIM: "core", Network: network, External: external,
			Addresses: []plan.Address{{IP: "10.0.0.8"}}}
	}
	connected := operation(lcm.ChangeExtConn, lcm.Completed, nil)
	connected.Operation.UnitsBefore, connected.Operation.UnitsAfter = []plan.Unit{server("s1@t1")}, []plan.Unit{server("s1@t2")}
	connected.Operation.ResourcesBefore, connected.Operation.ResourcesAfter = []plan.Resource{port("p1", "ext1", true)}, []plan.Resource{port("p2", "ext2", true)}
	connected.Operation.ExtLinks = []desired.ExtVirtualLink{{ID: "right", ResourceID: "ext2", ExtCps: []desired.ExtCp{{CpdID: "CP1", CpConfig: map[string]desired.ExtCpConfig{"a": {LinkPortID: "given"}}}},
		ExtLinkPorts: []desired.ExtLinkPort{{ID: "given", ResourceHandle: desired.ResourceHandle{ResourceID: "p2"}}}}}
	connected.Operation.Params = json.RawMessage(`{"extVirtualLinks":[{"id":"right","resourceId":"ext2","extLinkPorts":[{"id":"given","resourceHandle":{"resourceId":"p2"}}]}]}`)
	problem := &lcm.ProblemDetails{Status: 500, Title: "Deployment failed", Detail: "Deployment/amf/vdu1: image pull"}
	var b bytes.Buffer
	for _, c := range []struct {
		name, verbosity string
		event           oplog.Event
	}{
		{"identifier created", notify.Full, oplog.Event{Seq: 1, Type: oplog.CreatedEvent, Time: at, Instance: "amf"}},
		{"identifier deleted", notify.Short, oplog.Event{Seq: 9, Type: oplog.DeletedEvent, Time: at, Instance: "amf"}},
		{"starting", notify.Full, operation(lcm.Scale, lcm.Starting, nil)},
		{"processing", notify.Full, operation(lcm.Scale, lcm.Processing, problem)},
		{"completed", notify.Full, operation(lcm.Scale, lcm.Completed, nil)},
		{"completed, short", notify.Short, operation(lcm.Scale, lcm.Completed, nil)},
		{"failed for now", notify.Full, operation(lcm.Scale, lcm.FailedTemp, problem)},
		{"failed for now, short", notify.Short, operation(lcm.Scale, lcm.FailedTemp, problem)},
		{"package was changed", notify.Full, operation(lcm.ChangePackage, lcm.Completed, nil)},
		{"package was changed, short", notify.Short, operation(lcm.ChangePackage, lcm.Completed, nil)},
		{"change of package failed for now", notify.Full, operation(lcm.ChangePackage, lcm.FailedTemp, problem)},
		{"info is being modified", notify.Full, operation(lcm.ModifyInfo, lcm.Processing, nil)},
		{"info was modified", notify.Full, operation(lcm.ModifyInfo, lcm.Completed, nil)},
		{"connected to another network by a port that was given", notify.Full, connected},
		{"connected to another network, short", notify.Short, connected},
	} {
		text, err := json.MarshalIndent(notify.NewNotification("6d1ad17d-6a4c-4a4c-8d3a-1c2f2d1f9d11", c.verbosity, "http://vnfm", c.event), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "-- %s --\n%s\n", c.name, text)
		if err := published.Notification(text); err != nil {
			t.Errorf("%s: it doesn't conform: %v", c.name, err)
		}
	}
	kit.Golden(t, filepath.Join("testdata", "notifications.txt"), b.Bytes())
}

func TestFilterMatch(t *testing.T) {
	vnf := lcm.VNF{Name: "amf-1", VnfdID: "d1", Provider: "acme", ProductName: "AMF", SoftwareVersion: "1.0", VnfdVersion: "2.0"}
	scale := oplog.Event{Type: oplog.OperationEvent, Instance: "i1", VNF: vnf, Operation: &lcm.Operation{Type: lcm.Scale, State: lcm.Completed}}
	created := oplog.Event{Type: oplog.CreatedEvent, Instance: "i1", VNF: vnf}
	for _, c := range []struct {
		filter         string
		scale, created bool
	}{
		{`{}`, true, true},
		{`{"notificationTypes":["VnfIdentifierCreationNotification"]}`, false, true},
		{`{"notificationTypes":["VnfLcmOperationOccurrenceNotification"]}`, true, false},
		{`{"operationTypes":["SCALE"]}`, true, true},
		{`{"operationTypes":["HEAL"]}`, false, true},
		{`{"operationTypes":["HEAL","SCALE"],"operationStates":["COMPLETED"]}`, true, true},
		{`{"operationTypes":["SCALE"],"operationStates":["STARTING"]}`, false, true},
		{`{"vnfInstanceSubscriptionFilter":{}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfInstanceIds":["i1"]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfInstanceIds":["i2"]}}`, false, false},
		{`{"vnfInstanceSubscriptionFilter":{"vnfInstanceNames":["amf-2","amf-1"]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfInstanceNames":["amf-2"]}}`, false, false},
		{`{"vnfInstanceSubscriptionFilter":{"vnfdIds":["d1"]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfdIds":["d1"],"vnfInstanceIds":["i2"]}}`, false, false},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"acme"}]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"other"}]}}`, false, false},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"acme","vnfProducts":[{"vnfProductName":"AMF"}]}]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"acme","vnfProducts":[{"vnfProductName":"SMF"}]}]}}`, false, false},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"acme","vnfProducts":[{"vnfProductName":"AMF","versions":[{"vnfSoftwareVersion":"1.0"}]}]}]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"acme","vnfProducts":[{"vnfProductName":"AMF","versions":[{"vnfSoftwareVersion":"1.0","vnfdVersions":["2.0"]}]}]}]}}`, true, true},
		{`{"vnfInstanceSubscriptionFilter":{"vnfProductsFromProviders":[{"vnfProvider":"acme","vnfProducts":[{"vnfProductName":"AMF","versions":[{"vnfSoftwareVersion":"1.0","vnfdVersions":["9"]}]}]}]}}`, false, false},
	} {
		var f *notify.Filter
		if err := json.Unmarshal([]byte(c.filter), &f); err != nil {
			t.Fatal(err)
		}
		if got := f.Match(scale); got != c.scale {
			t.Errorf("%s matches a scale: %v", c.filter, got)
		}
		if got := f.Match(created); got != c.created {
			t.Errorf("%s matches a creation: %v", c.filter, got)
		}
	}
}
