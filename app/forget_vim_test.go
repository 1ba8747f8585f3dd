package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAVIMIsForgottenByTheAPIWhileNoneAnswers(t *testing.T) {
	t.Parallel()

	f := newFollowedWith(t, "", map[string]string{"vims/cloud.yaml": "type: sim\ndefault: true\nendpoint: https://a.example\n"})
	tokens := fmt.Sprintf("tokens:\n- {name: anna, role: admin, token: %s}\n- {name: ops, role: operator, token: token-of-ops-00000}\n", f.Token)
	if err := os.WriteFile(filepath.Join(f.Data, "tokens.yaml"), []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	// ask makes a request that must be answered with status, and an error with words.
	ask := func(status int, words, method, path string, header ...string) *reconciler.FormerVIM {
		t.Helper()
		a, err := f.Do(t.Context(), method, "/jibe/v1/vims/"+path, nil, header...)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != status || !strings.Contains(string(a.Body), words) {
			t.Errorf("%s %s: %d %s, want %d and %q", method, path, a.Status, a.Body, status, words)
		}
		var found reconciler.FormerVIM
		if a.Status == http.StatusOK {
			if err := json.Unmarshal(a.Body, &found); err != nil {
				t.Error(err)
			}
		}
		return &found
	}
	ops := []string{"Authorization", "Bearer token-of-ops-00000"}
	ask(http.StatusForbidden, "", http.MethodGet, "cloud/former", ops...)
	ask(http.StatusForbidden, "", http.MethodPost, "cloud/forget?unreachable=true", ops...)
	ask(http.StatusNotFound, "vims/other.yaml", http.MethodGet, "other/former")
	ask(http.StatusNotFound, "vims/other.yaml", http.MethodPost, "other/forget?unreachable=true")

	// It answers, and is the one at which the VNF runs.
	if found := ask(http.StatusOK, "", http.MethodGet, "cloud/former"); found.Is != "https://a.example" || found.Unreachable != "" || len(found.Instances) != 0 {
		t.Errorf("found %+v", found)
	}
	ask(http.StatusConflict, "nothing was forgotten", http.MethodPost, "cloud/forget?is=https://a.example")
	ask(http.StatusConflict, "nothing was forgotten", http.MethodPost, "cloud/forget?unreachable=true")

	f.cloud.SetVIMAway("cloud", errors.New("no route to host"), false)
	found := ask(http.StatusOK, "", http.MethodGet, "cloud/former")
	if want := (reconciler.FormerInstance{Instance: followID, Dir: "instances/a", Was: "https://a.example"}); found.Is != "" || !strings.Contains(found.Unreachable, "no route to host") || len(found.Instances) != 1 || found.Instances[0] != want {
		t.Errorf("found %+v", found)
	}
	ask(http.StatusConflict, "can't be reached", http.MethodPost, "cloud/forget")
	ask(http.StatusConflict, "can't be reached", http.MethodPost, "cloud/forget?is=https://a.example")
	if found := ask(http.StatusOK, "", http.MethodPost, "cloud/forget?unreachable=true"); len(found.Instances) != 1 {
		t.Errorf("forgotten %+v", found)
	}
	all := records(t, f.Data)
	if r := all[len(all)-1]; r.Identity != "anna" || r.Action != http.MethodPost || !strings.Contains(r.Object, "/jibe/v1/vims/cloud/forget") || r.Outcome != audit.Done {
		t.Errorf("on record is %+v", r)
	}
	ask(http.StatusConflict, "nothing was forgotten", http.MethodPost, "cloud/forget?unreachable=true")

	f.Await(t, f.Ask(t, followID, "terminate", map[string]any{"terminationType": "FORCEFUL"}), "COMPLETED")
	if a, err := f.Do(t.Context(), http.MethodDelete, process.Instances+"/"+followID, nil); err != nil || a.Status != http.StatusNoContent {
		t.Errorf("deleted: %+v, %v", a, err)
	}
}
