package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// healed is a server with three instances, of which two have the same name, that
// takes heals and other changes. states are those of the operation, one a look.
type healed struct {
	mu     sync.Mutex
	asked  []string // "method path body"
	states []string
}

func (h *healed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case r.Method != http.MethodGet:
		body, _ := io.ReadAll(r.Body)
		h.asked = append(h.asked, r.Method+" "+r.URL.EscapedPath()+" "+string(body))
		w.Header().Set("Location", "http://elsewhere/vnflcm/v2/vnf_lcm_op_occs/op-1")
		w.WriteHeader(http.StatusAccepted)
	case strings.HasSuffix(r.URL.Path, "/vnf_instances/id-1"):
		answer(object{"id": "id-1", "vnfInstanceName": "it's"})
	case strings.HasSuffix(r.URL.Path, "/vnf_lcm_op_occs/op-1"):
		o := object{"id": "op-1", "operation": "HEAL", "operationState": h.states[0]}
		if h.states[0] != "COMPLETED" {
			o["error"] = object{"detail": "Pod/amf/a is held by finalizer x"}
		}
		if len(h.states) > 1 {
			h.states = h.states[1:]
		}
		answer(o)
	case !strings.HasSuffix(r.URL.Path, "/vnf_instances"):
		http.NotFound(w, r)
	default:
		list := []object{}
		for id, name := range map[string]string{"id-1": "it's", "id-2": "twin", "id-3": "twin"} {
			switch r.URL.Query().Get("filter") {
			case "(eq,id,'" + id + "')", "(eq,vnfInstanceName,'" + strings.ReplaceAll(name, "'", "''") + "')":
				list = append(list, object{"id": id, "vnfInstanceName": name, "instantiationState": "INSTANTIATED"})
			}
		}
		answer(list)
	}
}

func TestAnInstanceIsShownByItsNameToo(t *testing.T) {
	for said, want := range map[string]string{"id-1": "id-1", "it's": "id-1", "twin": "", "nobody": ""} {
		out, _, err := execute(t, &healed{}, "get", "instance", said)
		if (err == nil) != (want != "") || !strings.Contains(out, want) || want == "" && !strings.Contains(err.Error(), "name") {
			t.Errorf("%s: %q, %v", said, out, err)
		}
	}
}

func TestHealRequestsWhatItsArgumentsSay(t *testing.T) {
	const first = "POST /vnflcm/v2/vnf_instances/id-1/heal "
	for line, want := range map[string]string{
		"id-1":                       first + `{}`,
		"it's":                       first + `{}`,
		"it's --delete-data --yes":   first + `{"additionalParams":{"all":true}}`,
		"id-1 --pods --cause hangs":  first + `{"additionalParams":{"all":false},"cause":"hangs"}`,
		"id-1 vdu1-a VDU1-b":         first + `{"vnfcInstanceId":["vdu1-a","VDU1-b"]}`,
		"id-2 a --delete-data --yes": "POST /vnflcm/v2/vnf_instances/id-2/heal " + `{"additionalParams":{"all":true},"vnfcInstanceId":["a"]}`, // the server says no
	} {
		h := &healed{}
		out, _, err := execute(t, h, append([]string{"heal"}, strings.Fields(line)...)...)
		if err != nil || len(h.asked) != 1 || h.asked[0] != want {
			t.Errorf("%s: asked %q, %v; want %q", line, h.asked, err, want)
		}
		if !strings.Contains(out, "operation op-1;") || !strings.Contains(out, "jibe get operation op-1 --watch") {
			t.Errorf("%s: %q", line, out)
		}
	}
}

func TestHealAsksBackForAnInstanceWhoseNameIsNotUnique(t *testing.T) {
	for line, says := range map[string][]string{
		"twin":                      {"2 VNF instances have the name", "id-2 (instantiated)", "id-3 (instantiated)"},
		"nobody":                    {`no VNF instance has the id or the name "nobody"`},
		"id-1 --delete-data --pods": {"delete-data", "pods"},
		"id-1 --all":                {"nothing was healed", "--delete-data"},
		"id-1 --delete-data":        {"nothing was healed", "--yes"},
		"":                          {"at least 1 arg"},
	} {
		h := &healed{}
		_, _, err := execute(t, h, append([]string{"heal"}, strings.Fields(line)...)...)
		if err == nil || len(h.asked) > 0 {
			t.Errorf("%s: asked %q, %v", line, h.asked, err)
			continue
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestHealThatWaitsEndsAsItsOperationDoes(t *testing.T) {
	for _, end := range []string{"COMPLETED", "FAILED_TEMP", "FAILED", "ROLLED_BACK"} {
		out, _, err := execute(t, &healed{states: []string{"STARTING", "PROCESSING", "PROCESSING", end}}, "heal", "id-1", "--wait")
		if want := "op-1 HEAL STARTING\nop-1 HEAL PROCESSING\nop-1 HEAL " + end + "\n"; out != want {
			t.Errorf("%s: %q", end, out)
		}
		switch {
		case end == "COMPLETED" && err != nil, end != "COMPLETED" && (err == nil || !strings.Contains(err.Error(), "finalizer x")):
			t.Errorf("%s: %v", end, err)
		}
	}
}
