package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// backedUp is a backup that a server has answered with.
func backedUp(t *testing.T, s *process.Server) []byte {
	t.Helper()
	a, err := s.Do(t.Context(), http.MethodPost, maintenance.BackupPath, nil)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("backup: %v: %d %.500s", err, a.Status, a.Body)
	}
	return a.Body
}

// restored restores a backup.
func restored(ctx context.Context, archive []byte, o maintenance.Restoring) (*backup.Manifest, error) {
	o.From, o.Log = "backup.tar.gz", slog.New(slog.DiscardHandler)
	return maintenance.Restore(ctx, bytes.NewReader(archive), o)
}

// refuses fails the test unless a restore ends with an error that has these words.
func refuses(t *testing.T, archive []byte, o maintenance.Restoring, words ...string) {
	t.Helper()
	_, err := restored(t.Context(), archive, o)
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("the restore ends with %v, want %q", err, w)
		}
	}
}

// again starts replicas on the data directories of former ones.
func (r *together) again(former ...*process.Server) (list []*process.Server) {
	r.Helper()
	for _, one := range former {
		o := r.options()
		o.Data = one.Data
		s, stop := startWith(r, o)
		r.Cleanup(stop)
		r.stop = append(r.stop, stop)
		list = append(list, s)
	}
	return list
}

func (r *together) end() {
	for _, stop := range r.stop {
		stop()
	}
}

func story(t *testing.T, s *process.Server, op string) string {
	t.Helper()
	a, err := s.Do(t.Context(), http.MethodGet, "/jibe/v1/operations/"+op+"/story", nil)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("story: %v: %d %s", err, a.Status, a.Body)
	}
	return string(a.Body)
}

func TestABackupAmidstOperationsOfReplicasIsRestoredIntoAnEmptiedRedis(t *testing.T) {
	r, s := newReplicas(t, 2)
	var away atomic.Bool
	away.Store(true)
	var late atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost && away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if body, _ := io.ReadAll(q.Body); bytes.Contains(body, []byte("OperationOccurrence")) {
			late.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(slow.Close)
	s[0].Want(t, http.StatusCreated, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": slow.URL}, nil)
	ids := r.create(s[0], 3)
	ended := r.scale(s[0], ids[0])
	s[0].Await(t, ended, "COMPLETED")
	s[1].Await(t, ended, "COMPLETED") // it follows the other one
	was := story(t, s[1], ended)
	var held atomic.Bool
	held.Store(true)
	r.cloud.BeforeStep(func(instance string, _ plan.Step) error {
		if instance == ids[1] && held.Load() {
			return fmt.Errorf("%w: the VIM is busy", drivers.ErrUnavailable)
		}
		return nil
	})
	under := r.scale(s[1], ids[1])
	kit.Eventually(t, func() error {
		if have := history(t, s[0])[under]; !strings.Contains(have, "PROCESSING") {
			return fmt.Errorf("the operation is %s", have)
		}
		return nil
	})

	archive := backedUp(t, s[1])
	into := maintenance.Restoring{Store: replicas.StoreOptions{URL: r.redis.URL()}}
	since := r.scale(s[0], ids[2])
	s[1].Await(t, since, "COMPLETED")
	refuses(t, archive, into, "2 processes serve", "stop all")
	r.end()
	refuses(t, archive, into, "records already", "--force")
	if err := r.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // to repeat it changes nothing
		m, err := restored(t.Context(), archive, into)
		if err != nil {
			t.Fatal(err)
		}
		if m.Records != r.redis.URL() {
			t.Errorf("the manifest says that the records were at %q", m.Records)
		}
	}

	away.Store(false)
	calls := r.cloud.Calls().Scales
	s = r.again(s...)
	if have := story(t, s[1], ended); have != was {
		t.Errorf("the story is\n%s\nwas\n%s", have, was)
	}
	kit.Eventually(t, func() error {
		if n := late.Load(); n < 12 {
			return fmt.Errorf("%d notifications came that weren't delivered before", n)
		}
		return nil
	})
	held.Store(false)
	s[0].Await(t, under, "COMPLETED")
	s[1].Await(t, since, "COMPLETED") // git says so
	for _, id := range ids {
		r.runs(s[0], id, 2)
	}
	if n := r.cloud.Calls().Scales - calls; n != 1 {
		t.Errorf("%d VNFs were scaled, want the one that was not yet", n)
	}
	if n := len(history(t, s[0])); n != 6 {
		t.Errorf("%d operations: %v", n, history(t, s[0]))
	}
	s[0].Await(t, r.scale(s[1], ids[2]), "COMPLETED")
	text, err := os.ReadFile(app.AuditFile(s[0].Data))
	if err != nil || strings.Count(string(text), `"action":"restore"`) != 2 || !strings.Contains(string(text), "records in Redis are that of") {
		t.Errorf("the audit log doesn't tell of each restore once: %v\n%s", err, text)
	}
	want := history(t, s[0])
	archive = backedUp(t, s[0])
	r.end()

	// The same records in a file serve a process without Redis.
	data := filepath.Join(t.TempDir(), "data")
	if _, err := restored(t.Context(), archive, maintenance.Restoring{Data: data}); err != nil {
		t.Fatal(err)
	}
	o := r.options()
	o.Data, o.Store, o.Given = data, replicas.StoreOptions{}, app.Given{}
	one, stop := startWith(t, o)
	remembers(t, one, want)
	if have := story(t, one, ended); have != was {
		t.Errorf("in a file the story is\n%s", have)
	}
	before := late.Load()
	one.Await(t, r.scale(one, ids[0]), "COMPLETED")
	kit.Eventually(t, func() error {
		if n := late.Load() - before; n < 3 {
			return fmt.Errorf("%d notifications of what was done with records in a file", n)
		}
		return nil
	})
	want = history(t, one)
	archive = backedUp(t, one)
	stop()

	// And those go back to Redis, in the place of what is there.
	refuses(t, archive, into, "--force")
	into.Force = true
	into.Data = filepath.Join(t.TempDir(), "other")
	if _, err := restored(t.Context(), archive, into); err != nil {
		t.Fatal(err)
	}
	o.Data, o.Store = into.Data, into.Store
	both, stop := startWith(t, o)
	remembers(t, both, want)
	before = late.Load()
	both.Await(t, r.scale(both, ids[0]), "COMPLETED")
	kit.Eventually(t, func() error {
		if n := late.Load() - before; n < 3 {
			return fmt.Errorf("%d notifications of what was done with records in Redis again", n)
		}
		return nil
	})
	stop()
}

func TestARestoreIntoRedisIsCarriedOnAndRefusedForAnotherInstallation(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 1)
	ids := r.create(s[0], 2)
	s[0].Await(t, r.scale(s[0], ids[0]), "COMPLETED")
	want, archive := history(t, s[0]), backedUp(t, s[0])
	r.end()

	// One that was interrupted has left some of its records and some of others.
	open := func() *redis.Store {
		t.Helper()
		st, err := redis.Open(t.Context(), redis.Options{URL: r.redis.URL()})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := open()
	recs, err := st.List(t.Context(), "operation", "", 1)
	if err == nil && len(recs) == 1 {
		_, err = st.Put(t.Context(), store.Record{Key: "unfinished", Value: []byte("restore")}, store.Record{Key: "other", Value: []byte("x")},
			store.Record{Key: recs[0].Key, Version: recs[0].Version, Delete: true})
	}
	if err != nil || len(recs) != 1 {
		t.Fatal(recs, err)
	}
	st.Close()
	o := r.options()
	o.Data = s[0].Data
	if err := app.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Run jibe restore again") {
		t.Errorf("the start on a part of a backup ends with %v", err)
	}
	into := maintenance.Restoring{Store: replicas.StoreOptions{URL: r.redis.URL()}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := restored(ctx, archive, into); err == nil {
		t.Error("a restore that was cancelled says that it is done")
	}
	if _, err := restored(t.Context(), archive, into); err != nil {
		t.Fatal(err)
	}
	st = open()
	if rec, err := st.Get(t.Context(), "other"); err == nil {
		t.Errorf("what isn't in the backup is there still: %s", rec.Value)
	}
	st.Close()
	s = r.again(s...)
	remembers(t, s[0], want)
	r.end()

	// Another installation's records are kept, whoever forces what.
	st = open()
	rec, err := st.Get(t.Context(), "installation")
	if err != nil {
		t.Fatal(err)
	}
	var common map[string]string
	if err := json.Unmarshal(rec.Value, &common); err != nil {
		t.Fatal(err)
	}
	theirs := maps.Clone(common)
	theirs["key"] = "0123456789abcdef"
	rec.Value, _ = json.Marshal(theirs)
	if _, err := st.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	st.Close()
	into.Force = true
	refuses(t, archive, into, "key 0123456789abcdef", "name another database or prefix")
	into.Store.URL = strings.Replace(into.Store.URL, "?", "?prefix=other&", 1)
	if _, err := restored(t.Context(), archive, into); err != nil {
		t.Errorf("under another prefix: %v", err)
	}
}
