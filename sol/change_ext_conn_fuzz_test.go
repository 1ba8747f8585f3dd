package sol

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// FuzzReconnected holds that any extVirtualLinks are refused for a reason, or say how the
// VNF is connected then: each connection point on the networks asked for and no other, the
// same when asked twice, and what was is not altered.
func FuzzReconnected(f *testing.F) {
	f.Add(`[{"id": "left", "resourceId": "n", "extCps": [{"cpdId": "CP1", "cpConfig": {"a": null, "b": {"linkPortId": "p"}}}], "extLinkPorts": [{"id": "p", "resourceHandle": {"resourceId": "x"}}]}]`)
	f.Add(`[{"id": "right", "resourceId": "n", "extCps": [{"cpdId": "CP1", "cpConfig": {"a": {"createExtLinkPort": true}}}]}, {"id": "left", "resourceId": "n", "extCps": [{"cpdId": "CP1", "cpConfig": {"b": {}}}]}]`)
	f.Add(`[{"id": "left", "resourceId": "n", "extCps": [{"cpdId": "CP1", "cpConfig": {"a": {"cpProtocolData": [{"layerProtocol": "x", "ipOverEthernet": {"ipAddresses": [{"numDynamicAddresses": 1.5}]}}]}}}]}]`)
	config := func() map[string]desired.ExtCpConfig {
		return map[string]desired.ExtCpConfig{"a": {CreateLinkPort: true}}
	}
	have := func() []desired.ExtVirtualLink {
		return []desired.ExtVirtualLink{{ID: "left", ResourceID: "n0", ExtCps: []desired.ExtCp{{CpdID: "CP1", CpConfig: config()}, {CpdID: "CP2", CpConfig: config()}}},
			{ID: "other", ResourceID: "n1", ExtCps: []desired.ExtCp{{CpdID: "CP1", CpConfig: config()}}}}
	}
	f.Fuzz(func(t *testing.T, body string) {
		var asked []any
		if json.Unmarshal([]byte(body), &asked) != nil {
			return
		}
		was := have()
		got, err := reconnected(was, asked)
		if d := cmp.Diff(have(), was); d != "" {
			t.Fatalf("%s: what was is altered: %s", body, d)
		}
		if err != nil {
			var invalid *rest.InvalidError
			if !errors.As(err, &invalid) || invalid.Status != 400 || invalid.Detail == "" {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		ids := map[string]bool{}
		for _, l := range got {
			if ids[l.ID] || len(l.ExtCps) == 0 {
				t.Fatalf("%s: %+v", body, got)
			}
			ids[l.ID] = true
		}
		again, err := reconnected(got, asked)
		if err != nil {
			t.Fatalf("%s: taken once, refused the second time: %v", body, err)
		}
		if !desired.Equal(&desired.Instance{ExtVirtualLinks: got}, &desired.Instance{ExtVirtualLinks: again}) {
			t.Fatalf("%s: %s", body, cmp.Diff(got, again))
		}
	})
}
