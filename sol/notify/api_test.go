package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// colours is the filter of an interface of its own, whose events have a colour.
type colours struct {
	Colours []string `json:"colours"`
}

func (c *colours) Match(e oplog.Event) bool {
	return slices.Contains(c.Colours, string(e.Content))
}

// paints is that interface.
func paints(root string) notify.API {
	return notify.API{
		Root: root, Version: "9.9.9", Events: "paints",
		Filter: func(stored json.RawMessage) (notify.Matcher, error) {
			c := &colours{}
			return c, json.Unmarshal(stored, c)
		},
		Notification: func(sub *notify.Subscription, base string, e oplog.Event) (any, error) {
			return map[string]any{"id": notify.NotificationID(sub.ID, e), "colour": e.Content, "type": e.Type, "at": base + root}, nil
		},
	}
}

// mailbox takes everything, and keeps the bodies and the header Version; once where one comes again after a restart.
func mailbox(t *testing.T) (url string, got func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	seen := map[any]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost {
			var m map[string]any
			if err := json.Unmarshal(body, &m); err != nil {
				t.Error(err)
			}
			if id := m["id"]; id != nil && seen[id] {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			seen[m["id"]] = true
			list = append(list, fmt.Sprint(r.Header.Get("Version"), " ", m["type"], " ", m["colour"], " ", m["at"]))
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func TestAnInterfaceOfItsOwnIsNotifiedOfItsOwnEventsAcrossARestart(t *testing.T) {
	w := newWorldWith(t, func(c *notify.Config) { c.APIs = []notify.API{paints("/paint/v1"), paints("/paint/v2")} })
	s := newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: s.URL})
	url, got := mailbox(t)
	sub, err := w.service.Subscriptions("/paint/v1").Subscribe(t.Context(), notify.Wanted{Owner: nfvo(), CallbackURI: url, Filter: &colours{[]string{`"red"`}}})
	if err != nil {
		t.Fatal(err)
	}
	tell := func(colour string, recs ...store.Record) error {
		return w.oplog.Tell(t.Context(), []oplog.Event{{API: "paints", Type: "painted", Content: json.RawMessage(colour)}}, recs...)
	}
	for _, colour := range []string{`"red"`, `"blue"`} {
		if err := tell(colour, store.Record{Key: "paint/" + colour[1:2], Value: []byte(colour)}); err != nil {
			t.Fatal(err)
		}
	}
	// What was changed meanwhile is told of as little as it is stored.
	if err := tell(`"red"`, store.Record{Key: "paint/r", Value: []byte("again")}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a record that was there: %v", err)
	}
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	w.restart()
	if err := tell(`"red"`); err != nil {
		t.Fatal(err)
	}
	want := "9.9.9 painted red http://vnfm.example/paint/v1"
	kit.Until(t, "two notifications", func() bool { return len(got()) >= 2 })
	if list := got(); fmt.Sprint(list) != fmt.Sprint([]string{want, want}) {
		t.Errorf("got %q", list)
	}
	// Another version shows it as its own, and another interface not at all.
	other, err := w.service.Subscriptions("/paint/v2").Get(t.Context(), nfvo(), sub.ID)
	if err != nil || !strings.HasSuffix(other.Links.Self.Href, "/paint/v2/subscriptions/"+sub.ID) {
		t.Errorf("by another version: %+v, %v", other, err)
	}
	if _, err := w.lcm.Get(t.Context(), nfvo(), sub.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("by another interface: %v", err)
	}
	if err := w.lcm.Delete(t.Context(), nfvo(), sub.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted by another interface: %v", err)
	}
	if list, err := w.lcm.List(t.Context(), nfvo()); err != nil || len(list) != 1 {
		t.Errorf("listed by another interface: %v, %v", list, err)
	}
	if err := w.service.Subscriptions("/paint/v2").Delete(t.Context(), nfvo(), sub.ID); err != nil {
		t.Error(err)
	}
}

func TestAVersionOfTheLifecycleInterfaceShapesItsNotifications(t *testing.T) {
	w := newWorldWith(t, func(c *notify.Config) {
		c.APIs = []notify.API{notify.LifecycleAPI("/vnflcm/v1", "1.3.0", func(n notify.Notification) any {
			return map[string]any{"type": n.Type, "colour": n.Verbosity, "at": n.Links.Instance.Href}
		})}
	})
	url, got := mailbox(t)
	if _, err := w.service.Lifecycle("/vnflcm/v1").Create(t.Context(), nfvo(), notify.Request{CallbackURI: url, Filter: &notify.Filter{OperationStates: []string{"COMPLETED"},
		NotificationTypes: []string{notify.OperationNotification}}}); err != nil {
		t.Fatal(err)
	}
	w.operate("amf", lcm.Scale)
	want := "1.3.0 VnfLcmOperationOccurrenceNotification FULL http://vnfm.example/vnflcm/v1/vnf_instances/amf"
	kit.Until(t, "the notification", func() bool { return len(got()) > 0 })
	if got()[0] != want {
		t.Errorf("got %q, want %q", got()[0], want)
	}
}

func TestTheOperationLogsOwnRecordsAreNotTold(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		event oplog.Event
		rec   store.Record
	}{
		{oplog.Event{Type: "x"}, store.Record{Key: "other/1"}},
		{oplog.Event{API: "x", Type: "x"}, store.Record{Key: "operation/1"}},
		{oplog.Event{API: "x", Type: "x"}, store.Record{Key: "outbox/"}},
	} {
		if err := w.oplog.Tell(t.Context(), []oplog.Event{c.event}, c.rec); err == nil {
			t.Errorf("%+v was told with %s", c.event, c.rec.Key)
		}
	}
}
