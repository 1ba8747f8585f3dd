package prometheus

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// replicasJob is the job under which replicas are scraped. They have no label that tells their series of a
// VNF instance apart, as somebody may scrape them who hasn't read the guide.
const replicasJob = "jibe-replicas"

// The instances of replicas: how many run, and the one whose file can't be read at first.
const (
	replicated = 3
	misread    = "instances/lab/misread"
)

// replicas are two Jibes on one Redis and one remote.
type replicas struct {
	redis         *redisserver.Server
	first, second *process.Server
	flags         []string // those of the second, but for its address
	files         *process.WorkTree
}

func startReplicas(t *testing.T) *replicas {
	t.Helper()
	testenv.Program(t, "redis-server", "redis-server")
	packages := filepath.Join(t.TempDir(), "packages.git")
	process.InitBare(t, packages)
	p := process.NewWorkTree(t, packages)
	if err := os.CopyFS(p.Dir(), os.DirFS(process.SmallPackage())); err != nil {
		t.Fatal(err)
	}
	p.Push("Add a package")
	files := map[string]string{
		"repositories.yaml":   "- name: packages\n  url: " + packages + "\n  branch: main\n",
		"vims/sim.yaml":       "type: sim\ndefault: true\n",
		misread + "/vnf.yaml": "name: [unread\n",
	}
	for i := range replicated {
		dir := fmt.Sprintf("instances/lab/vnf-%d", i)
		files[dir+"/vnf.yaml"] = small(dir, process.SmallVnfd, params(""))
	}
	bare := process.NewForge(t, files)
	r := &replicas{redis: redisserver.Start(t, "--maxmemory", roomy), files: process.NewWorkTree(t, bare)}
	flags := []string{"--store", r.redis.URL(), "--remote", "file://" + bare, "--poll", "1s"}
	data := filepath.Join(process.ShortTempDir(t), "data")
	r.first = process.Start(t, data, flags...)
	r.flags = append(flags, "--identity", filepath.Join(data, secret.IdentityFile))
	r.second = process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), append(r.flags, "--listen", kit.Free(t))...)
	for i := range replicated {
		completed(t, r.first, desired.DeriveID(fmt.Sprintf("instances/lab/vnf-%d", i)))
	}
	return r
}

// replicasCountOnce fails the test where the fleet of two replicas is shown as two.
func (p *prometheus) replicasCountOnce(t *testing.T) {
	t.Helper()
	for title, want := range map[string]string{"Instances": fmt.Sprint(replicated), "Files not obeyed": "1"} {
		expr := ""
		for _, d := range dashboards(t) {
			for _, x := range d.Panels {
				if d.UID == "jibe-fleet" && x.Title == title {
					expr = strings.ReplaceAll(x.Targets[0].Expr, "$job", replicasJob)
				}
			}
		}
		p.is(t, expr, want)
	}
	p.is(t, `sum(jibe_instances{job="`+replicasJob+`"})`, fmt.Sprint(2*replicated)) // each shows all
	p.is(t, `sum(jibe_instances_owned{job="`+replicasJob+`"})`, fmt.Sprint(replicated))
}

// is waits until an instant query is answered with one value.
func (p *prometheus) is(t *testing.T, expr, want string) {
	t.Helper()
	kit.Eventually(t, func() error {
		list, err := p.now(t.Context(), expr)
		if err == nil && (len(list) != 1 || list[0].Value[1] != want) {
			err = fmt.Errorf("the answer is %v, and not %s", list, want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", expr, err)
		}
		return nil
	})
}

// roomy is memory of which Redis uses hardly any.
const roomy = "1gb"

// lose has Redis run short of memory, and then lose all that it has.
func (r *replicas) lose(t *testing.T, p *prometheus) {
	t.Helper()
	c := r.redis.Client(t)
	text, err := c.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var used int64
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			if used, err = strconv.ParseInt(n, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(used/100*115, 10)).Err(); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { return p.alerts.fired("RedisMemoryShort") })
	if err := errors.Join(c.ConfigSet(t.Context(), "maxmemory", roomy).Err(), c.FlushAll(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { return p.alerts.fired("RedisLostRecords") })
	p.until(t, `sum(jibe_member_session_held{job="`+replicasJob+`"}) == 2`)
}

// fail ends one replica, and once that is told, Redis. A replica is missing only where it was there for as
// long as the alert asks for, in a hurry ten seconds; after Redis lost all, each was the only one for a moment.
func (r *replicas) fail(t *testing.T, p *prometheus) {
	t.Helper()
	p.is(t, `min_over_time(max by (job) (jibe_members{job="`+replicasJob+`"} and on (job, instance) (jibe_member_session_held == 1))[10s:1s])`, "2")
	r.forge(t)
	kit.Eventually(t, func() error { return p.alerts.fired("SubscriptionNotProven") })
	r.second.KillGroup()
	kit.Eventually(t, func() error { return p.alerts.fired("ReplicaIsMissing") })
	r.redis.Kill()
}

// forged is a subscription that no Jibe has made.
const forged = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1be1"

// forge writes a subscription into Redis past the replicas.
func (r *replicas) forge(t *testing.T) {
	t.Helper()
	s, err := redis.Open(t.Context(), redis.Options{URL: r.redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Put(t.Context(),
		store.Record{Key: "subscription/" + forged, Value: []byte(`{"id":"` + forged + `","callbackUri":"https://192.0.2.1/"}`)},
		store.Record{Key: "cursor/" + forged, Value: []byte(`{"after":0}`)})
	if err != nil {
		t.Fatal(err)
	}
}

// mend has both serve again, without the forged subscription. Redis does already.
func (r *replicas) mend(t *testing.T) {
	t.Helper()
	switch a, err := r.first.Do(t.Context(), http.MethodDelete, process.Subscriptions+"/"+forged, nil); {
	case err != nil:
		t.Error(err)
	case a.Status != http.StatusNoContent && a.Status != http.StatusNotFound:
		t.Errorf("the forged subscription stays: %d %s", a.Status, a.Body)
	}
	r.second = process.Start(t, r.second.Data, append(r.flags, "--listen", strings.TrimPrefix(r.second.URL, "http://"))...)
	r.files.PushFiles(map[string]string{misread + "/vnf.yaml": small(misread, process.SmallVnfd, params(""))})
}
