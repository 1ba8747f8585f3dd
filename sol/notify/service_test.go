package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestNotificationsComeInOrder(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.operate("amf", lcm.Instantiate) // before the subscription: without a notification
	sub := w.subscribe(notify.Request{CallbackURI: s.URL + "/cb"})
	w.create("smf")
	w.operate("amf", lcm.Scale)
	w.operate("smf", lcm.Instantiate)
	s.waitFor(t, "VnfIdentifierCreationNotification smf",
		"op002 STARTING", "op002 PROCESSING", "op002 COMPLETED", "op003 STARTING", "op003 PROCESSING", "op003 COMPLETED")
	ids := map[any]bool{}
	for _, n := range s.all() {
		ids[n["id"]] = true
		if n["subscriptionId"] != sub.ID {
			t.Errorf("of subscription %v", n["subscriptionId"])
		}
	}
	if len(ids) != 7 {
		t.Errorf("%d ids for 7 notifications", len(ids))
	}
	if s.tests != 1 {
		t.Errorf("the callback was tested %d times", s.tests)
	}
}

func TestANotificationIsSentAgainUntilItIsTaken(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	var tries atomic.Int64
	seen := make(chan any, 100)
	s.set(func(n notification, _ *http.Request) int {
		seen <- n["id"]
		switch tries.Add(1) % 4 {
		case 1:
			return http.StatusInternalServerError
		case 2:
			return http.StatusNotFound
		case 3:
			return http.StatusFound
		}
		return http.StatusNoContent
	})
	w.subscribe(notify.Request{CallbackURI: s.URL})
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	if s.refusals() != 12 {
		t.Errorf("%d refusals, want 12", s.refusals())
	}
	first := <-seen
	for range 3 {
		if again := <-seen; again != first {
			t.Errorf("sent again under another id: %v, %v", first, again)
		}
	}
}

func TestDeliveryGoesOnAfterARestart(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: s.URL, Filter: &notify.Filter{NotificationTypes: []string{notify.OperationNotification}}})
	w.operate("amf", lcm.Instantiate)
	s.waitFor(t, "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	s.set(func(notification, *http.Request) int { return http.StatusServiceUnavailable })
	w.operate("amf", lcm.Scale)
	refused := s.refusals()
	kit.Until(t, "a refused delivery", func() bool { return s.refusals() > refused })
	w.stop()
	w.operate("amf", lcm.Heal) // recorded while nobody delivers
	// The stop cut off a delivery whose request may still be on its way. The subscriber then
	// takes it, and gets it again, as Jibe never saw an answer.
	s.set(nil)
	w.restart()
	s.waitForAgain(t, "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED",
		"op002 STARTING", "op002 PROCESSING", "op002 COMPLETED", "op003 STARTING", "op003 PROCESSING", "op003 COMPLETED")
	// A delivered notification isn't delivered again. The subscriber has it a
	// moment before the cursor says so; the outbox is empty once it does.
	kit.Until(t, "an empty outbox", func() bool {
		events, err := w.oplog.Events(t.Context(), 0, 0)
		return err == nil && len(events) == 0
	})
	w.restart()
	w.operate("amf", lcm.Terminate)
	s.waitForAgain(t, "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED",
		"op002 STARTING", "op002 PROCESSING", "op002 COMPLETED", "op003 STARTING", "op003 PROCESSING", "op003 COMPLETED",
		"op004 STARTING", "op004 PROCESSING", "op004 COMPLETED")
}

func TestADeadSubscriberHoldsUpNobodyElse(t *testing.T) {
	w, dead, alive := newWorld(t), newSubscriber(t), newSubscriber(t)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	asked := make(chan struct{}, 1)
	dead.set(func(notification, *http.Request) int {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-hang
		return http.StatusInternalServerError
	})
	one := w.subscribe(notify.Request{CallbackURI: dead.URL})
	w.subscribe(notify.Request{CallbackURI: alive.URL})
	w.operate("amf", lcm.Scale)
	alive.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	<-asked
	// Nor can it hold up its own end, or the process'.
	if err := w.lcm.Delete(t.Context(), nfvo(), one.ID); err != nil {
		t.Fatal(err)
	}
	w.stop()
}

func TestAFilterLeavesOutWhatIsNotWanted(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: s.URL, Filter: &notify.Filter{
		Instances:       &notify.InstanceFilter{IDs: []string{"amf", "upf"}},
		OperationTypes:  []string{"SCALE", "HEAL"},
		OperationStates: []string{"COMPLETED"},
	}})
	w.operate("amf", lcm.Instantiate)
	w.operate("smf", lcm.Scale)
	w.operate("amf", lcm.Scale)
	w.operate("upf", lcm.Heal)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op003 COMPLETED", "VnfIdentifierCreationNotification upf", "op004 COMPLETED")
}

func TestTheOutboxIsEmptiedOnceEverybodyHasTakenIt(t *testing.T) {
	w, fast, slow := newWorld(t), newSubscriber(t), newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: fast.URL})
	w.subscribe(notify.Request{CallbackURI: slow.URL})
	slow.set(func(n notification, _ *http.Request) int {
		if n["operationState"] == "PROCESSING" {
			return http.StatusInternalServerError
		}
		return http.StatusNoContent
	})
	w.operate("amf", lcm.Scale)
	left := func() int {
		events, err := w.oplog.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(events)
	}
	// Created and STARTING are passed by both, PROCESSING and COMPLETED by one only.
	kit.Until(t, "two events are left", func() bool { return left() == 2 })
	fast.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	slow.set(nil)
	slow.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	kit.Until(t, "the outbox is empty", func() bool { return left() == 0 })
}

func TestTheOutboxIsEmptiedWithoutSubscribers(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.operate("amf", lcm.Scale)
	kit.Until(t, "the outbox is empty", func() bool {
		events, err := w.oplog.Events(t.Context(), 0, 0)
		return err == nil && len(events) == 0
	})
	// The numbers go on: a new subscription misses nothing.
	w.restart()
	w.subscribe(notify.Request{CallbackURI: s.URL})
	w.operate("amf", lcm.Heal)
	s.waitFor(t, "op002 STARTING", "op002 PROCESSING", "op002 COMPLETED")
}

func TestANotificationThatNobodyTakesIsGivenUpInTheEnd(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	s.set(func(notification, *http.Request) int { return http.StatusInternalServerError })
	w.subscribe(notify.Request{CallbackURI: s.URL})
	w.operate("amf", lcm.Scale)
	kit.Until(t, "a refused delivery", func() bool { return s.refusals() > 0 })
	w.clock.pass(2 * time.Hour)
	kit.Until(t, "the outbox is empty", func() bool {
		events, err := w.oplog.Events(t.Context(), 0, 0)
		return err == nil && len(events) == 0
	})
	// Only once the first is given up is no try under way any more that began before.
	kit.Until(t, "a warning", func() bool { return strings.Contains(w.logged.String(), "a notification was given up") })
	s.set(nil)
	w.operate("amf", lcm.Heal)
	s.waitFor(t, "op002 STARTING", "op002 PROCESSING", "op002 COMPLETED")
}

const password = "pa55-word-in-clear"

// wantNoSecret looks for the password in the store, the log and what the API shows.
func wantNoSecret(t *testing.T, w *world) {
	t.Helper()
	recs, err := w.store.List(t.Context(), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if strings.Contains(string(rec.Value), password) {
			t.Errorf("%s holds the password", rec.Key)
		}
	}
	subs, err := w.lcm.List(t.Context(), nfvo())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(subs)
	if err != nil || strings.Contains(string(shown), password) || strings.Contains(string(shown), "sealed") || strings.Contains(string(shown), "auth") {
		t.Errorf("the API shows %s, %v", shown, err)
	}
	if log := w.logged.String(); strings.Contains(log, password) || strings.Contains(log, "sealed:") {
		t.Errorf("the log holds a credential:\n%s", log)
	}
}

func TestBasicAuthenticationTowardsTheSubscriber(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	s.authorized = func(r *http.Request) bool {
		user, pass, ok := r.BasicAuth()
		return ok && user == "nfvo" && pass == password
	}
	auth := &notify.Authentication{AuthType: []string{notify.Basic}, Basic: &notify.BasicParams{UserName: "nfvo", Password: password}}
	w.subscribe(notify.Request{CallbackURI: s.URL, Authentication: auth})
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	wantNoSecret(t, w)
	w.restart()
	w.operate("amf", lcm.Heal)
	s.waitForAgain(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED",
		"op002 STARTING", "op002 PROCESSING", "op002 COMPLETED") // with what was decrypted
	wantNoSecret(t, w)
	wrong := &notify.Authentication{AuthType: []string{notify.Basic}, Basic: &notify.BasicParams{UserName: "nfvo", Password: "wrong"}}
	if _, err := w.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: s.URL, Authentication: wrong}); !errors.Is(err, notify.ErrCallback) {
		t.Errorf("with a wrong password: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v", auth, auth, auth); strings.Contains(text, password) {
		t.Errorf("printed as %s", text)
	}
}

func TestOAuth2TokenIsFetchedOnceAndAgainWhenItIsRefused(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	var issued, valid atomic.Int64
	tokens := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id, pass, ok := r.BasicAuth()
		if r.Method != http.MethodPost || !ok || id != "jibe" || pass != password || r.FormValue("grant_type") != "client_credentials" {
			rw.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(rw, "wrong password %s", pass) // a server that says too much
			return
		}
		n := issued.Add(1)
		valid.Store(n)
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, n)
	}))
	t.Cleanup(tokens.Close)
	s.authorized = func(r *http.Request) bool {
		return r.Header.Get("Authorization") == fmt.Sprintf("Bearer token-%d", valid.Load())
	}
	request := func(pass string) notify.Request {
		return notify.Request{CallbackURI: s.URL, Authentication: &notify.Authentication{
			AuthType:          []string{notify.ClientCredentials},
			ClientCredentials: &notify.ClientCredentialsParams{ClientID: "jibe", ClientPassword: pass, TokenEndpoint: tokens.URL + "/token"},
		}}
	}
	w.subscribe(request(password))
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	if n := issued.Load(); n != 2 {
		t.Errorf("%d tokens, want one for the test and one for all notifications", n)
	}
	valid.Store(0) // revoked
	w.operate("amf", lcm.Heal)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED",
		"op002 STARTING", "op002 PROCESSING", "op002 COMPLETED")
	if n := issued.Load(); n != 3 {
		t.Errorf("%d tokens, want 3", n)
	}
	wantNoSecret(t, w)
	_, err := w.lcm.Create(t.Context(), nfvo(), request(password+"-wrong"))
	if !errors.Is(err, notify.ErrCallback) || strings.Contains(err.Error(), password) {
		t.Errorf("with a wrong password: %v", err)
	}
}

func TestARequestThatIsNotAcceptableIsRefusedWhole(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	basic := &notify.BasicParams{UserName: "u", Password: "p"}
	for name, req := range map[string]notify.Request{
		"callbackUri is missing":  {},
		"http":                    {CallbackURI: "file:///etc/passwd"},
		"names no host":           {CallbackURI: "http:///x"},
		"must not contain":        {CallbackURI: "http://user:pass@host/"},
		"no URI":                  {CallbackURI: "http://[::1"},
		"fragment":                {CallbackURI: "http://host/#x"},
		"longer":                  {CallbackURI: "http://host/" + strings.Repeat("x", 3000)},
		"verbosity":               {CallbackURI: s.URL, Verbosity: "LOUD"},
		"authType is missing":     {CallbackURI: s.URL, Authentication: &notify.Authentication{Basic: basic}},
		"paramsBasic":             {CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{"BASIC"}}},
		"colon":                   {CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{"BASIC"}, Basic: &notify.BasicParams{UserName: "a:b"}}},
		"paramsOauth2":            {CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{"OAUTH2_CLIENT_CREDENTIALS"}}},
		"tokenEndpoint":           {CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{"OAUTH2_CLIENT_CREDENTIALS"}, ClientCredentials: &notify.ClientCredentialsParams{ClientID: "x", TokenEndpoint: "ftp://x/"}}},
		"TLS_CERT":                {CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{"TLS_CERT"}}},
		"filter.operationTypes":   {CallbackURI: s.URL, Filter: &notify.Filter{OperationTypes: []string{"SCALEOUT"}}},
		"filter.operationStates":  {CallbackURI: s.URL, Filter: &notify.Filter{OperationStates: []string{"PREPARED"}}},
		"filter.notificationType": {CallbackURI: s.URL, Filter: &notify.Filter{NotificationTypes: []string{"x"}}},
		"vnfProvider is missing":  {CallbackURI: s.URL, Filter: &notify.Filter{Instances: &notify.InstanceFilter{Providers: []notify.ProviderFilter{{}}}}},
	} {
		if _, err := w.lcm.Create(t.Context(), nfvo(), req); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if subs, err := w.lcm.List(t.Context(), nfvo()); err != nil || len(subs) != 0 {
		t.Errorf("stored: %v, %v", subs, err)
	}
	if s.tests != 0 {
		t.Errorf("the callback of a refused request was called")
	}
}

func TestACallbackThatFailsItsTestIsRefused(t *testing.T) {
	w := newWorld(t)
	var followed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/200":
			fmt.Fprint(rw, "internal data")
		case "/302":
			http.Redirect(rw, r, "/inner", http.StatusFound)
		case "/inner":
			followed.Store(true)
			rw.WriteHeader(http.StatusNoContent)
		default:
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}))
	for _, path := range []string{"/200", "/302", "/500?token=" + password} {
		_, err := w.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: server.URL + path})
		if !errors.Is(err, notify.ErrCallback) || strings.Contains(err.Error(), "internal data") || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
	server.Close()
	for _, uri := range []string{server.URL, "http://169.254.169.254/latest/meta-data", "http://[fe80::1]/"} {
		if _, err := w.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: uri}); !errors.Is(err, notify.ErrCallback) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if subs, err := w.lcm.List(t.Context(), nfvo()); err != nil || len(subs) != 0 {
		t.Errorf("stored: %v, %v", subs, err)
	}
}

func TestSubscriptionsAreShownListedAndDeleted(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	ctx := t.Context()
	one := w.subscribe(notify.Request{CallbackURI: s.URL + "/1", Verbosity: notify.Short})
	two := w.subscribe(notify.Request{CallbackURI: s.URL + "/2"})
	if one.Verbosity != notify.Short || two.Verbosity != notify.Full || one.Links.Self.Href != "http://vnfm.example/vnflcm/v2/subscriptions/"+one.ID {
		t.Errorf("%+v, %+v", one, two)
	}
	got, err := w.lcm.Get(ctx, nfvo(), one.ID)
	if err != nil || *got != *one {
		t.Errorf("got %+v, %v", got, err)
	}
	if all, err := w.lcm.List(ctx, nfvo()); err != nil || len(all) != 2 || all[0].ID > all[1].ID {
		t.Errorf("listed %v, %v", all, err)
	}
	if err := w.lcm.Delete(ctx, nfvo(), one.ID); err != nil {
		t.Error(err)
	}
	for _, id := range []string{one.ID, "", "x/y", "00000000-0000-0000-0000-000000000000"} {
		if err := w.lcm.Delete(ctx, nfvo(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("delete of %q: %v", id, err)
		}
		if _, err := w.lcm.Get(ctx, nfvo(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("get of %q: %v", id, err)
		}
	}
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	if err := w.lcm.Delete(ctx, nfvo(), two.ID); err != nil {
		t.Error(err)
	}
	for _, prefix := range []string{"subscription/", "cursor/"} {
		if recs, err := w.store.List(ctx, prefix, "", 0); err != nil || len(recs) != 0 {
			t.Errorf("left under %s: %v, %v", prefix, recs, err)
		}
	}
}

func TestThereMayBeNoMoreThanAThousandSubscriptions(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.stop() // the records below are of no subscriptions that could be served
	var recs []store.Record
	for i := range 1000 {
		recs = append(recs, store.Record{Key: fmt.Sprintf("cursor/%04d", i), Value: []byte(`{"after":0}`)})
	}
	if _, err := w.store.Put(t.Context(), recs...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: s.URL}); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "1000 subscriptions") {
		t.Errorf("one more: %v", err)
	}
}
