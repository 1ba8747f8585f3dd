package v1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func object(t testing.TB, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return m
}

func TestRequestsOfV1BecomeThoseOfV2(t *testing.T) {
	for name, tt := range map[string]struct{ v1, v2 string }{
		"connections": {
			`{"vimConnectionInfo": [{"id": "a", "vimType": "x"}, {"id": "b", "vimType": "y"}]}`,
			`{"vimConnectionInfo": {"a": {"vimType": "x"}, "b": {"vimType": "y"}}}`},
		"none":          {`{"vimConnectionInfo": [], "x": 1}`, `{"x": 1}`},
		"taken away":    {`{"vimConnectionInfoDeleteIds": ["a"]}`, `{"vimConnectionInfo": {"a": null}}`},
		"keys":          {`{"metadataDeleteList": ["a"], "extensions": {"c": 1}, "extensionsDeleteList": ["b"]}`, `{"metadata": {"a": null}, "extensions": {"b": null, "c": 1}}`},
		"virtual links": {`{"extManagedVirtualLinks": [{"id": "a", "virtualLinkDescId": "v"}]}`, `{"extManagedVirtualLinks": [{"id": "a", "vnfVirtualLinkDescId": "v"}]}`},
		"connection points": {
			`{"extVirtualLinks": [{"extCps": [{"cpdId": "c", "cpConfig": [{"cpInstanceId": "i", "linkPortId": "p"}]}, {"cpdId": "d", "cpConfig": [{"a": 1}, {"b": 1}]}]}]}`,
			`{"extVirtualLinks": [{"extCps": [{"cpdId": "c", "cpConfig": {"1": {"linkPortId": "p"}}}, {"cpdId": "d", "cpConfig": {"1": {"a": 1}, "2": {"b": 1}}}]}]}`},
		"what both have": {`{"flavourId": "f", "additionalParams": {"vimConnectionInfo": [1]}}`, `{"flavourId": "f", "additionalParams": {"vimConnectionInfo": [1]}}`},
	} {
		got := object(t, tt.v1)
		if err := Request(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(object(t, tt.v2), got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestNotificationsOfV1HaveItsAttributesAlone(t *testing.T) {
	type link struct {
		Href string `json:"href"`
	}
	got, err := Notification(struct {
		ID          string            `json:"id"`
		Size        uint64            `json:"size"`
		Verbosity   string            `json:"verbosity"`
		Ports       []string          `json:"affectedExtLinkPorts"`
		PkgChange   map[string]string `json:"modificationsTriggeredByVnfPkgChange"`
		ChangedInfo json.RawMessage   `json:"changedInfo"`
		Links       map[string]link   `json:"_links"`
	}{"n", 1<<53 + 1, "FULL", []string{"p"}, map[string]string{"vnfdId": "d"}, json.RawMessage(`{"vimConnectionInfo": {"a": {"vimType": "x"}}}`),
		map[string]link{"subscription": {"https://h/s"}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"_links":{"subscription":{"href":"https://h/s"}},"changedInfo":{"vimConnectionInfo":[{"id":"a","vimType":"x"}]},"id":"n","size":9007199254740993}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
}

// FuzzRequest holds that any body is translated or refused for a reason, and that what is
// translated shows the same connections again.
func FuzzRequest(f *testing.F) {
	f.Add(`{"vimConnectionInfo": [{"id": "a", "vimType": "x"}], "vimConnectionInfoDeleteIds": ["b"], "metadataDeleteList": ["k"]}`)
	f.Add(`{"extVirtualLinks": [{"extCps": [{"cpConfig": [{"cpInstanceId": 1}, null]}]}], "extManagedVirtualLinks": [{"virtualLinkDescId": 1}]}`)
	f.Add(`{"vimConnectionInfo": null, "extensions": [], "extensionsDeleteList": [null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var body, was map[string]any
		if json.Unmarshal([]byte(text), &body) != nil || json.Unmarshal([]byte(text), &was) != nil || body == nil {
			return
		}
		if err := Request(body); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatalf("%q is refused without a reason", text)
			}
			return
		}
		had, _ := was[connections].([]any)
		Answer(body)
		has, _ := body[connections].([]any)
		if len(had) != len(has) {
			t.Fatalf("%q: %v became %v", text, had, has)
		}
	})
}

// FuzzAnswer holds that whatever handlers show can be shown to clients of v1.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"vimConnectionInfo": {"a": {}, "b": null}, "_links": {"changeCurrentVnfPkg": {}}, "instantiatedVnfInfo": {"extVirtualLinkInfo": [{"currentVnfExtCpData": []}]}}`)
	f.Add(`{"operationParams": {"extVirtualLinks": [{"extCps": [{"cpConfig": {"a": null, "b": {}}}]}]}, "resourceChanges": {"affectedExtLinkPorts": []}, "changedExtConnectivity": [1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var body map[string]any
		if json.Unmarshal([]byte(text), &body) != nil || body == nil {
			return
		}
		Answer(body)
		if _, still := body[connections].(map[string]any); still {
			t.Fatalf("%q: a map of connections is left", text)
		}
	})
}
