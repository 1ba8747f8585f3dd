package sol

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInterfaceInfoTakesBooleansAndNumbersAndShowsABooleanAsOne(t *testing.T) {
	var got VimConnectionInfo
	in := `{"vimType":"t","interfaceInfo":{"endpoint":"https://k","nothing":null,"port":6443,"skipCertificateVerification":true}}`
	if err := json.Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	want := InterfaceInfo{"endpoint": "https://k", "nothing": "", "port": "6443", "skipCertificateVerification": "true"}
	if diff := cmp.Diff(want, got.InterfaceInfo); diff != "" {
		t.Error(diff)
	}
	out, err := json.Marshal(got)
	if want := `{"vimType":"t","interfaceInfo":{"endpoint":"https://k","nothing":"","port":"6443","skipCertificateVerification":true}}`; err != nil || string(out) != want {
		t.Errorf("%s, want %s (%v)", out, want, err)
	}
	for _, bad := range []string{`{"endpoint":{"a":1}}`, `{"endpoint":[]}`, `[]`, `"x"`, `true`} {
		if err := json.Unmarshal([]byte(`{"interfaceInfo":`+bad+`}`), &got); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
