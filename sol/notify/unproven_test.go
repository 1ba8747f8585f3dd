package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// fileSecrets resolves references to files as well, as the installation's keeper does.
type fileSecrets struct{ secrets }

func (s fileSecrets) Resolve(ref string) (string, error) {
	if path, ok := strings.CutPrefix(ref, desired.RefFile); ok {
		text, err := os.ReadFile(path)
		return string(text), err
	}
	return s.secrets.Resolve(ref)
}

// listener is the attacker's: it notes each request.
type listener struct {
	*subscriber
	mu   sync.Mutex
	seen []string
}

func newListener(t *testing.T) *listener {
	t.Helper()
	l := &listener{subscriber: newSubscriber(t)}
	l.authorized = func(r *http.Request) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen = append(l.seen, r.Method+" "+r.Header.Get("Authorization"))
		return true
	}
	return l
}

func (l *listener) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

// attacked is a store with subscriptions that an attacker changes, who may write there and doesn't
// have the installation's key.
type attacked struct {
	t               *testing.T
	victim, own     string            // ids
	records         map[string][]byte // by id
	file, encrypted string            // references
	evil, honest    string            // callbacks
}

// with is the record as a change leaves it, with its old seal.
func (a *attacked) with(id string, change func(rec map[string]any)) []byte {
	a.t.Helper()
	var rec map[string]any
	if err := json.Unmarshal(a.records[id], &rec); err != nil {
		a.t.Fatal(err)
	}
	change(rec)
	text, err := json.Marshal(rec)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// sent is a change that would have a secret sent to the attacker.
func (a *attacked) sent(reference string) func(map[string]any) {
	return func(rec map[string]any) {
		rec["callbackUri"] = a.evil
		rec["authentication"] = map[string]any{"authType": []string{"BASIC"}, "paramsBasic": map[string]any{"userName": "jibe", "password": reference}}
	}
}

// seal is the record's seal, and unsealed the record without it.
func (a *attacked) seal(id string) string {
	_, seal := sealed.Split(a.records[id])
	return seal
}

func (a *attacked) unsealed(id string, change func(rec map[string]any)) []byte {
	return a.with(id, func(rec map[string]any) {
		delete(rec, "seal")
		change(rec)
	})
}

// ended is a record with a last member.
func ended(record []byte, member string) []byte {
	return append(record[:len(record)-1:len(record)-1], ","+member+"}"...)
}

// TestAChangedSubscriptionSendsNothing changes records in the store by hand.
func TestAChangedSubscriptionSendsNothing(t *testing.T) {
	t.Parallel()
	none := func(map[string]any) {}
	callback := func(to string) func(map[string]any) { return func(rec map[string]any) { rec["callbackUri"] = to } }
	attacks := map[string]func(a *attacked) (id string, value []byte){
		"callback": func(a *attacked) (string, []byte) { return a.victim, a.with(a.victim, callback(a.evil)) },
		"callback alone": func(a *attacked) (string, []byte) {
			return a.victim, bytes.Replace(a.records[a.victim], []byte(a.honest), []byte(a.evil), 1)
		},
		"no seal": func(a *attacked) (string, []byte) { return a.victim, a.unsealed(a.victim, callback(a.evil)) },
		"second callback": func(a *attacked) (string, []byte) {
			return a.victim, ended(a.records[a.victim], `"callbackUri":"`+a.evil+`"`)
		},
		"file":          func(a *attacked) (string, []byte) { return a.victim, a.with(a.victim, a.sent(a.file)) },
		"file, no seal": func(a *attacked) (string, []byte) { return a.own, a.unsealed(a.own, a.sent(a.file)) },
		"age of git":    func(a *attacked) (string, []byte) { return a.own, a.with(a.own, a.sent(a.encrypted)) },
		"token endpoint": func(a *attacked) (string, []byte) {
			return a.victim, a.with(a.victim, func(rec map[string]any) {
				rec["authentication"] = map[string]any{"authType": []string{"OAUTH2_CLIENT_CREDENTIALS"}, "paramsOauth2ClientCredentials": map[string]any{"clientId": "jibe", "clientPassword": a.encrypted, "tokenEndpoint": a.evil}}
			})
		},
		"swapped": func(a *attacked) (string, []byte) { return a.victim, a.records[a.own] },
		"swapped seal": func(a *attacked) (string, []byte) {
			return a.own, ended(a.unsealed(a.own, none), `"seal":"`+a.seal(a.victim)+`"`)
		},
		"replay, new id": func(a *attacked) (string, []byte) { return uuid.NewString(), a.records[a.own] },
		"replay, renamed": func(a *attacked) (string, []byte) {
			id := uuid.NewString()
			return id, bytes.ReplaceAll(a.records[a.own], []byte(a.own), []byte(id))
		},
		"owner": func(a *attacked) (string, []byte) {
			return a.own, a.with(a.own, func(rec map[string]any) { rec["owner"] = nfvo() })
		},
		"no owner": func(a *attacked) (string, []byte) {
			return a.own, a.with(a.own, func(rec map[string]any) { delete(rec, "owner") })
		},
		"no owner, seal": func(a *attacked) (string, []byte) {
			return a.own, a.unsealed(a.own, func(rec map[string]any) { delete(rec, "owner") })
		},
		"filter": func(a *attacked) (string, []byte) {
			return a.own, a.with(a.own, func(rec map[string]any) { delete(rec, "filter") })
		},
		"interface": func(a *attacked) (string, []byte) {
			return a.own, a.with(a.own, func(rec map[string]any) { rec["api"] = "/vnfpkgm/v2" })
		},
		"no JSON": func(a *attacked) (string, []byte) { return a.victim, []byte("evil") },
	}
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		for name, attack := range attacks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, err := bolt.Open(filepath.Join(t.TempDir(), "jibe.db"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				changedSubscription(t, s, s, attack)
			})
		}
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("needs redis-server")
		}
		server := redisserver.Start(t)
		for name, attack := range attacks {
			t.Run(name, func(t *testing.T) {
				open := func() store.Store {
					s, err := redis.Open(t.Context(), redis.Options{URL: server.URL("prefix=" + uuid.NewSHA1(uuid.Nil, []byte(name)).String())})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = s.Close() })
					return s
				}
				changedSubscription(t, open(), open(), attack)
			})
		}
	})
}

func changedSubscription(t *testing.T, s, attackers store.Store, attack func(*attacked) (id string, value []byte)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("the host's kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, s, func(c *notify.Config) { c.Secrets = fileSecrets{} })
	evil, honest, untouched := newListener(t), newSubscriber(t), newSubscriber(t)
	basic := func(password string) *notify.Authentication {
		return &notify.Authentication{AuthType: []string{notify.Basic}, Basic: &notify.BasicParams{UserName: "jibe", Password: password}}
	}
	victim := w.subscribe(notify.Request{CallbackURI: honest.URL, Authentication: basic("a password of the NFVO")})
	w.subscribe(notify.Request{CallbackURI: untouched.URL})
	mallory := auth.Identity{Name: "mallory", Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Operator, Projects: []string{"nowhere"}}}}
	own, err := w.lcm.Create(t.Context(), mallory, notify.Request{CallbackURI: evil.URL, Authentication: basic("mallory's"),
		Filter: &notify.Filter{NotificationTypes: []string{notify.DeletionNotification}}})
	if err != nil {
		t.Fatal(err)
	}
	tested := len(evil.requests())
	cluster, _ := secrets{}.Encrypt("the token of a cluster, from git")
	a := &attacked{t: t, victim: victim.ID, own: own.ID, records: map[string][]byte{}, file: desired.RefFile + file, encrypted: cluster, evil: evil.URL, honest: honest.URL}
	for _, id := range []string{a.victim, a.own} {
		rec, err := attackers.Get(t.Context(), "subscription/"+id)
		if err != nil {
			t.Fatal(err)
		}
		a.records[id] = rec.Value
	}

	id, value := attack(a)
	before, err := attackers.Get(t.Context(), "subscription/"+id)
	put := []store.Record{{Key: "subscription/" + id, Version: before.Version, Value: value}}
	if errors.Is(err, store.ErrNotFound) {
		put = append(put, store.Record{Key: "cursor/" + id, Value: []byte(`{"after":0}`)})
	}
	if _, err := attackers.Put(t.Context(), put...); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.operate("amf", lcm.Scale)
	untouched.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")

	states, err := w.service.AllStatesOf(t.Context(), administrator())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(states, func(s notify.State) bool {
		return s.ID == id && s.Delivery.Reason == notify.ReasonUnproven && strings.Contains(s.Delivery.Error, "subscribe again")
	}) || w.service.Unproven() != 1 {
		t.Errorf("an administrator isn't shown it, or not it alone (%d)", w.service.Unproven())
	}
	for _, who := range []auth.Identity{nfvo(), mallory} {
		if _, err := w.lcm.Get(t.Context(), who, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := w.lcm.Delete(t.Context(), administrator(), id); err != nil {
		t.Errorf("an administrator can't delete it: %v", err)
	}
	w.stop()
	if got := evil.requests(); len(got) > tested {
		t.Errorf("the attacker was sent %q", got[tested:])
	}
}

// administrator may do everything.
func administrator() auth.Identity {
	return auth.Identity{Name: "root", Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Admin}}}
}

func TestRecordsOfAnEarlierVersionAreSealedOnce(t *testing.T) {
	t.Parallel()
	var sealer sealed.Sealer
	w := newWorldWith(t, func(c *notify.Config) {
		sealer = c.Sealer
		c.Sealer = sealed.Sealer{}
	})
	s := newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{notify.Basic}, Basic: &notify.BasicParams{UserName: "jibe", Password: "a password"}}})
	w.stop()
	record := `{"id":"` + a1 + `","callbackUri":"` + s.URL + `","authentication":{"authType":["BASIC"],"paramsBasic":{"userName":"jibe","password":"file:/etc/passwd"}}}`
	if _, err := w.store.Put(t.Context(), store.Record{Key: "subscription/" + a1, Value: []byte(record)}, store.Record{Key: "cursor/" + a1, Value: []byte(`{"after":0}`)}); err != nil {
		t.Fatal(err)
	}

	if found, err := notify.FindUnproven(t.Context(), w.store, sealer); err != nil || len(found) != 2 || !found[0].Unsealed {
		t.Fatalf("%v, %v", found, err)
	}
	for i, want := range []int{1, 0} {
		if n, err := notify.SealAll(t.Context(), w.store, sealer); err != nil || n != want {
			t.Fatalf("time %d: %d, %v", i, n, err)
		}
	}

	w.change = nil
	w.restart()
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	if found, err := notify.FindUnproven(t.Context(), w.store, sealer); err != nil || len(found) != 1 || found[0].Subscription != a1 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestReplicasThatStartTogetherSealRecordsOnce(t *testing.T) {
	t.Parallel()
	sealer := sealed.Sealer{Key: []byte("the key")}
	there, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Close() })
	record := `{"id":"` + a1 + `","callbackUri":"https://192.0.2.1/"}`
	if _, err := there.Put(t.Context(), store.Record{Key: "subscription/" + a1, Value: []byte(record)}); err != nil {
		t.Fatal(err)
	}

	n, err := notify.SealAll(t.Context(), &overtaken{Store: there}, sealer)

	if n != 0 || err != nil {
		t.Errorf("the one that came second has sealed %d, %v", n, err)
	}
	if found, err := notify.FindUnproven(t.Context(), there, sealer); err != nil || len(found) != 0 {
		t.Errorf("not sealed: %v, %v", found, err)
	}
}

// overtaken is a store in which another replica has made each change just before.
type overtaken struct{ store.Store }

func (o *overtaken) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if _, err := o.Store.Put(ctx, recs...); err != nil {
		return nil, err
	}
	return o.Store.Put(ctx, recs...)
}

const a1 = "0d5a7c1e-6f0b-4b0e-9c55-0f6f2a9e1b01"
