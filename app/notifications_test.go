package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
)

// heard is what a subscriber was told, by instance: a word or two for each notification.
type heard struct {
	mu   sync.Mutex
	seen map[string]bool
	of   map[string][]string
}

// listen subscribes to everything.
func listen(t *testing.T, s *process.Server) (h *heard, subscription string) {
	t.Helper()
	published.Held(t)
	h = &heard{seen: map[string]bool{}, of: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
			if err := published.Notification(body); err != nil {
				t.Errorf("%s doesn't conform: %v", body, err)
			}
			h.add(t, body)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	var a *process.Answer
	kit.Eventually(t, func() (err error) { // just after its store was emptied, a server asks to come again
		if a, err = s.Do(t.Context(), http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": server.URL}); err == nil && a.Status != http.StatusCreated {
			if err = fmt.Errorf("subscribe: %d: %s", a.Status, a.Body); a.Status != http.StatusServiceUnavailable {
				err = kit.Final(err)
			}
		}
		return err
	})
	var sub struct{ ID string }
	if err := json.Unmarshal(a.Body, &sub); err != nil {
		t.Fatal(err)
	}
	return h, sub.ID
}

func (h *heard) add(t *testing.T, body []byte) {
	var n notify.Notification
	if err := json.Unmarshal(body, &n); err != nil {
		t.Error(err)
		return
	}
	word := strings.TrimSuffix(strings.TrimPrefix(n.Type, "VnfIdentifier"), "Notification")
	if n.OperationPart != nil {
		word = fmt.Sprint(n.Operation, " ", n.State)
		if n.Automatic {
			word += " by itself"
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.seen[n.ID] {
		h.seen[n.ID] = true
		h.of[n.InstanceID] = append(h.of[n.InstanceID], word)
	}
}

// tells waits until exactly this was heard of the instance, and forgets it.
func (h *heard) tells(t *testing.T, instance, want string) {
	t.Helper()
	kit.Eventually(t, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if got := strings.Join(h.of[instance], ", "); got != want {
			return fmt.Errorf("heard %q\nwant  %q", got, want)
		}
		delete(h.of, instance)
		return nil
	})
}

func TestSubscribersHearOfOperationsWhicheverDoorTheyCameBy(t *testing.T) {
	t.Parallel()
	f := newForged(t)
	h, subscription := listen(t, f.Server)
	passes := func(operation, by string) string {
		return operation + " STARTING" + by + ", " + operation + " PROCESSING" + by + ", " + operation + " COMPLETED" + by
	}

	// A pull request that was merged on the forge.
	const b = "3a5c1f0e-0000-4000-8000-0000000000b0"
	files := map[string]string{"instances/b/vnf.yaml": strings.NewReplacer(followID, b, "namespace: a", "namespace: b").Replace(f.file(""))}
	kit.Until(t, "nobody commits meanwhile", func() bool {
		head := f.desired.Head()
		merge := f.desired.Commit("Merge pull request: b", files, head, f.desired.Commit("Propose b", files, head))
		return f.desired.MoveFrom("refs/heads/main", merge, head)
	})
	poke(t, f.Server)
	h.tells(t, b, "Creation, "+passes("INSTANTIATE", ""))

	// Drift.
	f.cloud.Drift(followObject)
	h.tells(t, followID, passes("HEAL", " by itself"))

	// A request.
	a, err := f.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances/"+b+"/heal", map[string]any{})
	if err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("heal: %v: %+v", err, a)
	}
	h.tells(t, b, passes("HEAL", ""))

	// The follower of versions.
	f.onForge("Follow", map[string]string{"instances/a/vnf.yaml": f.file("follow: ~1.4\n")})
	f.runs("1.4.1")
	h.tells(t, followID, passes("CHANGE_VNFPKG", "")) // a commit as any other

	// A directory that goes, and identifiers that come and go by requests.
	f.onForge("Remove b", map[string]string{"instances/b": ""})
	h.tells(t, b, passes("TERMINATE", "")+", Deletion")
	a, err = f.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances", map[string]any{"vnfdId": vnfdID("1.4.0"), "vnfInstanceName": "c"})
	if err != nil || a.Status != http.StatusCreated {
		t.Fatalf("create: %v: %+v", err, a)
	}
	var c struct{ ID string }
	if err := json.Unmarshal(a.Body, &c); err != nil {
		t.Fatal(err)
	}
	if a, err = f.Do(t.Context(), http.MethodDelete, "/vnflcm/v2/vnf_instances/"+c.ID, nil); err != nil || a.Status != http.StatusNoContent {
		t.Fatalf("delete: %v: %+v", err, a)
	}
	h.tells(t, c.ID, "Creation, Deletion")

	// How all of this went is shown.
	h.mu.Lock()
	n := len(h.seen)
	h.mu.Unlock()
	metrics(t, f.Server, fmt.Sprintf("jibe_notifications_delivered_total{subscription=%q} %d", subscription, n),
		fmt.Sprintf("jibe_notifications_waiting{subscription=%q} 0", subscription), fmt.Sprintf("jibe_notification_lag_seconds{subscription=%q} 0", subscription))
	var state map[string]any
	if err := f.Get(t.Context(), "/jibe/v1/subscriptions/"+subscription, &state); err != nil {
		t.Fatal(err)
	}
	if d, _ := state["delivery"].(map[string]any); d["delivered"] != float64(n) || d["lastDelivery"] == nil || state["api"] != "/vnflcm/v2" {
		t.Errorf("%v", state)
	}
	if a, err := f.Do(t.Context(), http.MethodGet, "/jibe/v1/subscriptions/none", nil); err != nil || a.Status != http.StatusNotFound {
		t.Errorf("an unknown one: %v, %+v", err, a)
	}
}
