package app_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAFreezeHoldsRequestsAndPushesAndOnlyAnAdministratorPasses(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	push := p.pushed
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(push("root", "A VIM", map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n", "projects/default.yaml": "vims: [sim]\nnamespaces: [a]\n"}))
	until := time.Now().Add(time.Hour)
	freeze := fmt.Sprintf("freezes:\n- {until: %s, reason: new year}\n", until.Format(time.RFC3339))
	if err := push("ops", "Freeze", map[string]string{"instances/else/maintenance.yaml": "freezes:\n- {until: soon}\n"}); err == nil || !strings.Contains(err.Error(), "instances/else/maintenance.yaml:2") {
		t.Fatalf("a file that can't be read is pushed: %v", err)
	}
	if err := push("ops", "Freeze", map[string]string{"instances/else/amf/maintenance.yaml": freeze}); err == nil || !strings.Contains(err.Error(), "own directory") {
		t.Fatalf("a file in an instance's own directory is pushed: %v", err)
	}
	must(push("ops", "Freeze", map[string]string{"instances/else/maintenance.yaml": freeze}))

	id := desired.DeriveID("instances/else/amf")
	ask := func(who string, status int, header ...string) *process.Answer {
		t.Helper()
		asks := *s
		asks.Token = tokenOf(who)
		return asks.Want(t, status, http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/instantiate", map[string]any{"flavourId": "simple"}, nil, header...)
	}
	refused := ask("ops", http.StatusConflict)
	if said := string(refused.Body); !strings.Contains(said, "frozen (new year), by instances/else/maintenance.yaml") || !strings.Contains(said, until.UTC().Format(time.RFC3339)) || refused.Header.Get("Retry-After") == "" {
		t.Errorf("it is refused by %s, Retry-After %q", said, refused.Header.Get("Retry-After"))
	}
	ask("ops", http.StatusForbidden, "Jibe-Override", "I am in a hurry")
	ask("root", http.StatusBadRequest, "Jibe-Override", "")
	s.Await(t, ask("root", http.StatusAccepted, "Jibe-Override", "emergency calls fail").ID(), "COMPLETED")

	note := func() string {
		out, _, _ := s.CLI(t, "get", "instances")
		return out
	}
	scaled := func(name string) map[string]string {
		text := p.to.Read("instances/else/amf/vnf.yaml")
		return map[string]string{"instances/else/amf/vnf.yaml": strings.Replace(text, "name: amf-else", "name: "+name, 1)}
	}
	must(push("ops", "Rename\n\nOverride: I write this myself", scaled("amf-one-")))
	kit.Until(t, "the commit waits", func() bool { return strings.Contains(note(), "MODIFY_INFO waits: frozen (new year)") })
	metrics(t, s, `jibe_instances_waiting_for_window{end="true",type="MODIFY_INFO"} 1`)
	must(push("root", "Rename\n\nOverride: emergency calls fail still", scaled("amf-one-")))
	if !strings.Contains(note(), "MODIFY_INFO waits") {
		t.Error("an empty commit of an administrator freed somebody else's change")
	}
	must(push("root", "Rename\n\nOverride: emergency calls fail still", map[string]string{"instances/else/amf/vnf.yaml": strings.Replace(p.to.Read("instances/else/amf/vnf.yaml"), "amf-one-", "amf-two-", 1)}))
	kit.Until(t, "the commit is carried out", func() bool { return !strings.Contains(note(), "waits") })
	kit.Until(t, "both overrides are in the audit log", func() bool {
		text, err := os.ReadFile(app.AuditFile(s.Data))
		return err == nil && strings.Contains(string(text), "overrides maintenance windows: emergency calls fail\"") && strings.Contains(string(text), "overrides maintenance windows: emergency calls fail still")
	})
}
