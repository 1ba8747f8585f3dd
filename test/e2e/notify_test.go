package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/published"
)

const subscriptions = "/vnflcm/v2/subscriptions"

// receiver is a subscriber's callback.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []object
	seen map[string]bool
	// away makes it answer with 503 that many times.
	away int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	published.Held(t)
	r := &receiver{seen: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		user, password, _ := req.BasicAuth()
		if user != "jibe" || password != "callback-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if req.Method == http.MethodPost {
			if r.away > 0 {
				r.away--
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			body, err := io.ReadAll(req.Body)
			var o object
			if err != nil || json.Unmarshal(body, &o) != nil {
				t.Errorf("notification %q: %v", body, err)
			}
			if err := published.Notification(body); err != nil {
				t.Errorf("the notification %s doesn't conform: %v", body, err)
			}
			if id := o.text("id"); !r.seen[id] { // a repetition has the same id
				r.seen[id] = true
				r.got = append(r.got, o)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// brief is what was received about the instance, a word or two each.
func (r *receiver) brief(instance string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for _, n := range r.got {
		if n.text("vnfInstanceId") != instance {
			continue
		}
		word := strings.TrimSuffix(strings.TrimPrefix(n.text("notificationType"), "VnfIdentifier"), "Notification")
		if n.text("operation") != "" {
			word = n.text("operation") + " " + n.text("operationState")
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func (b *bench) subscribe(r *receiver, filter object) string {
	b.Helper()
	a := b.must(b, 201, "POST", subscriptions, object{"callbackUri": r.URL + "/notify", "verbosity": "FULL", "filter": filter,
		"authentication": object{"authType": []string{"BASIC"}, "paramsBasic": object{"userName": "jibe", "password": "callback-secret"}}})
	if strings.Contains(string(a.Body), "callback-secret") {
		b.Errorf("the subscription shows its password: %s", a.Body)
	}
	id := a.object(b.T).text("id")
	b.Cleanup(func() {
		if a, err := b.process.Do(b.background(), http.MethodDelete, subscriptions+"/"+id, nil); err != nil || a.Status != http.StatusNoContent {
			b.Errorf("delete subscription %s: %v, %v", id, a, err)
		}
	})
	return id
}

func TestSubscribersAreNotifiedOfEveryStateOfRequestsAndPushesInOrder(t *testing.T) {
	b := newBench(t, usual)
	all, failures := newReceiver(t), newReceiver(t)
	mine := object{"vnfInstanceNames": []string{b.Name(), b.namespace}}
	b.subscribe(all, object{"vnfInstanceSubscriptionFilter": mine})
	b.subscribe(failures, object{"vnfInstanceSubscriptionFilter": mine,
		"notificationTypes": []string{"VnfLcmOperationOccurrenceNotification"}, "operationTypes": []string{"SCALE"}, "operationStates": []string{"FAILED_TEMP", "ROLLED_BACK"}})

	all.mu.Lock()
	all.away = 2
	all.mu.Unlock()
	id := b.runs(plain)
	b.quota("1")
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	kit.Eventually(t, func() error {
		a := b.rest(t, "POST", instances+"/"+id+"/terminate", object{"terminationType": "FORCEFUL"})
		if a.Status != http.StatusAccepted {
			return fmt.Errorf("%d: %s", a.Status, a.Body)
		}
		b.await(t, a.Header.Get("Location"), "COMPLETED")
		return nil
	})
	b.must(t, 204, "DELETE", instances+"/"+id, nil)
	want := "Creation, INSTANTIATE STARTING, INSTANTIATE PROCESSING, INSTANTIATE COMPLETED, " +
		"SCALE STARTING, SCALE PROCESSING, SCALE FAILED_TEMP, SCALE ROLLING_BACK, SCALE ROLLED_BACK, " +
		"TERMINATE STARTING, TERMINATE PROCESSING, TERMINATE COMPLETED, Deletion"
	hears(t, all, id, want)
	hears(t, failures, id, "SCALE FAILED_TEMP, SCALE ROLLED_BACK")
	all.mu.Lock()
	for _, n := range all.got {
		switch {
		case n.text("subscriptionId") == "" || n.text("timeStamp") == "" || n.get("_links", "vnfInstance", "href") != b.url+instances+"/"+n.text("vnfInstanceId"):
			t.Errorf("notification %v", n)
		case n.text("operationState") == "FAILED_TEMP" && !strings.Contains(n.text("error", "detail"), "exceeded quota"):
			t.Errorf("the notification of a failure doesn't say why: %v", n)
		case n.text("operation")+n.text("operationState") == "INSTANTIATECOMPLETED" && len(n.list("affectedVnfcs")) != 1:
			t.Errorf("the notification of the result has no affected VNFCs: %v", n)
		}
	}
	all.mu.Unlock()

	b.quota("9")
	d := b.clone(t, "desired.git")
	dir := "instances/heard/" + b.namespace
	d.Write(dir+"/vnf.yaml", fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s}\n", b.namespace, plain))
	d.Push("Run")
	id = b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	d.Pull()
	d.Git("rm", "-r", "--quiet", dir)
	d.Push("Remove")
	hears(t, all, id, "Creation, INSTANTIATE STARTING, INSTANTIATE PROCESSING, INSTANTIATE COMPLETED, TERMINATE STARTING, TERMINATE PROCESSING, TERMINATE COMPLETED, Deletion")
}

func hears(t *testing.T, r *receiver, instance, want string) {
	t.Helper()
	kit.Eventually(t, func() error {
		if got := r.brief(instance); got != want {
			return fmt.Errorf("heard %s\nwant %s", got, want)
		}
		return nil
	})
}

func TestACallbackThatDoesNotAnswerIsRefused(t *testing.T) {
	b := newBench(t, usual)
	r := newReceiver(t)
	a := b.rest(t, "POST", subscriptions, object{"callbackUri": r.URL}) // it wants a password
	if a.Status != http.StatusUnprocessableEntity || !strings.Contains(string(a.Body), "401") {
		t.Errorf("%d: %s", a.Status, a.Body)
	}
	r.Close()
	a = b.rest(t, "POST", subscriptions, object{"callbackUri": r.URL})
	// What was seen there is the log's to say: an outsider could look around by it.
	if said := string(a.Body); a.Status != http.StatusUnprocessableEntity || !strings.Contains(said, "no answer could be had") || strings.Contains(said, "connection refused") {
		t.Errorf("%d: %s", a.Status, a.Body)
	}
}
