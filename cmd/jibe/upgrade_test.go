package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestUpgradeAndUpdateRequestWhatTheirArgumentsSay(t *testing.T) {
	const change, patch = "POST /vnflcm/v2/vnf_instances/id-1/change_vnfpkg ", "PATCH /vnflcm/v2/vnf_instances/id-1 "
	for line, want := range map[string]string{
		"upgrade it's v2":                        change + `{"vnfdId":"v2"}`,
		"upgrade id-1 v2 --strategy rolling":     change + `{"additionalParams":{"upgrade_type":"RollingUpdate"},"vnfdId":"v2"}`,
		"upgrade id-1 v2 --strategy=blue-green":  change + `{"additionalParams":{"upgrade_type":"Blue-Green"},"vnfdId":"v2"}`,
		"upgrade id-1 v2 --drain 30s":            change + `{"additionalParams":{"drain":"30s"},"vnfdId":"v2"}`,
		"upgrade id-1 v2 --files a,b --files c":  change + `{"additionalParams":{"lcm-kubernetes-def-files":["a","b","c"]},"vnfdId":"v2"}`,
		"upgrade id-1 v2 --coordinate-new n.sh":  change + `{"additionalParams":{"lcm-operation-coordinate-new-vnf":"n.sh"},"vnfdId":"v2"}`,
		"upgrade id-1 v2 --coordinate-old o.sh":  change + `{"additionalParams":{"lcm-operation-coordinate-old-vnf":"o.sh"},"vnfdId":"v2"}`,
		"update id-1 v2":                         patch + `{"vnfdId":"v2"}`,
		"update it's v2 --config a --config b,c": patch + `{"metadata":{"configmap_secret_paths":["a","b","c"]},"vnfdId":"v2"}`,
	} {
		h := &healed{}
		out, _, err := execute(t, h, strings.Fields(line)...)
		if err != nil || len(h.asked) != 1 || h.asked[0] != want {
			t.Errorf("%s: asked %q, %v; want %q", line, h.asked, err, want)
		}
		verb, _, _ := strings.Cut(line, " ")
		if out != verb+" asked for: operation op-1; follow it with: jibe get operation op-1 --watch\n" {
			t.Errorf("%s: %q", line, out)
		}
	}
}

func TestUpgradeAndUpdateRequestNothingWhereTheirArgumentsAreUnclear(t *testing.T) {
	for line, says := range map[string]string{
		"upgrade id-1":                      "accepts 2 arg(s)",
		"upgrade id-1 v2 --strategy canary": `--strategy "canary": want rolling or blue-green`,
		"upgrade twin v2":                   "2 VNF instances have the name",
		"update nobody v2":                  `no VNF instance has the id or the name "nobody"`,
	} {
		h := &healed{}
		if out, _, err := execute(t, h, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), says) || len(h.asked) > 0 {
			t.Errorf("%s: asked %q, said %q, %v", line, h.asked, out, err)
		}
	}
}

func TestUpgradeThatWaitsEndsAsItsOperationDoes(t *testing.T) {
	for _, line := range []string{"upgrade id-1 v2 --wait", "update id-1 v2 --wait"} {
		for _, end := range []string{"COMPLETED", "FAILED_TEMP", "ROLLED_BACK"} {
			out, _, err := execute(t, &healed{states: []string{"STARTING", "PROCESSING", end}}, strings.Fields(line)...)
			if want := "op-1 HEAL STARTING\nop-1 HEAL PROCESSING\nop-1 HEAL " + end + "\n"; out != want {
				t.Errorf("%s, %s: %q", line, end, out)
			}
			if (err == nil) != (end == "COMPLETED") {
				t.Errorf("%s, %s: %v", line, end, err)
			}
		}
	}
}

func TestARefusedUpgradeIsPrintedAsTheAPISaysIt(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			(&healed{}).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"status": 400, "detail": "StatefulSet/amf/db has volumeClaimTemplates: it can't stand beside its successor"}`))
	})
	for _, verb := range []string{"upgrade", "update"} {
		if out, _, err := execute(t, h, verb, "id-1", "v2"); err == nil || !strings.Contains(err.Error(), "400 Bad Request: StatefulSet/amf/db has volumeClaimTemplates") {
			t.Errorf("%s: %q, %v", verb, out, err)
		}
	}
}
