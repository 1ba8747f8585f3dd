package app_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// together are several on one Redis and one remote, and the cloud that they work on.
type together struct {
	*testing.T
	redis    *redisserver.Server
	remote   string
	identity string // a file
	cloud    *sim.Cloud
	stop     []func()
	work     *process.WorkTree
	change   func(*app.Options) // nil for none
}

// newReplicas starts a number of replicas.
func newReplicas(t *testing.T, n int) (*together, []*process.Server) {
	t.Helper()
	return newReplicasWith(t, n, nil)
}

// newReplicasWith starts a number of replicas with other options.
func newReplicasWith(t *testing.T, n int, change func(*app.Options)) (*together, []*process.Server) {
	t.Helper()
	p := process.NewBare(t)
	addSmall(p)
	packages := p.Dir
	r := &together{T: t, redis: redisserver.Start(t), cloud: sim.NewCloud(), change: change}
	r.remote = process.NewForge(t, map[string]string{
		"repositories.yaml": "- {name: small, url: " + packages + ", path: small, branch: main}\n",
		"vims/cloud.yaml":   "type: sim\ndefault: true\n",
	})
	r.work = process.NewWorkTree(t, r.remote)
	var list []*process.Server
	for range n {
		list = append(list, r.start())
	}
	return r, list
}

func (r *together) options() app.Options {
	o := app.Options{Data: r.TempDir(), Remote: r.remote, Cloud: r.cloud, Store: replicas.StoreOptions{URL: r.redis.URL()},
		Given: app.Given{Identity: r.identity}, Log: slog.New(slog.NewTextHandler(r.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))}
	if r.change != nil {
		r.change(&o)
	}
	return o
}

// start starts one more. All have the key of the first.
func (r *together) start() *process.Server {
	r.Helper()
	s, stop := startWith(r, r.options())
	if r.identity == "" {
		r.identity = filepath.Join(s.Data, secret.IdentityFile)
	}
	r.Cleanup(stop)
	r.stop = append(r.stop, stop)
	return s
}

// members waits until a replica sees that many, and returns them.
func (r *together) members(s *process.Server, n int) (list []replicas.Member) {
	r.Helper()
	kit.Eventually(r, func() error {
		if err := s.Get(r.Context(), "/jibe/v1/members", &list); err != nil {
			return err
		}
		if len(list) != n {
			return fmt.Errorf("%d members, want %d: %+v", len(list), n, list)
		}
		return nil
	})
	return list
}

// create makes instances by pushes to the remote, and waits until all run.
func (r *together) create(s *process.Server, n int) (ids []string) {
	r.Helper()
	files := map[string]string{}
	for i := range n {
		id := fmt.Sprintf("3a5c1f0e-0000-4000-8000-%012d", i)
		files[fmt.Sprintf("instances/n%d/vnf.yaml", i)] = strings.Replace(instance("id: "+id+"\n"), "namespace: a", fmt.Sprintf("namespace: n%d", i), 1)
		ids = append(ids, id)
	}
	r.work.WriteFiles(files)
	r.work.Push("Add instances")
	r.poke(s)
	for _, id := range ids {
		r.runs(s, id, 1)
	}
	return ids
}

// poke tells one replica of a push, as a forge's webhook does. The others learn of it from that one.
func (r *together) poke(s *process.Server) {
	r.Helper()
	if a, err := s.Do(r.Context(), http.MethodPost, "/webhook", nil); err != nil || a.Status != http.StatusAccepted {
		r.Fatalf("webhook: %v: %+v", err, a)
	}
}

type shown struct {
	State string `json:"instantiationState"`
	Info  struct {
		Units []struct {
			ID string `json:"id"`
		} `json:"vnfcResourceInfo"`
	} `json:"instantiatedVnfInfo"`
}

// runs waits until a replica shows that many units of an instance, and nothing is under way on it.
func (r *together) runs(s *process.Server, id string, n int) {
	r.Helper()
	kit.Eventually(r, func() error {
		var in shown
		if err := s.Get(r.Context(), process.Instances+"/"+id, &in); err != nil {
			return err
		}
		if len(in.Info.Units) != n {
			return fmt.Errorf("instance %s is %s with %d units, want %d", id, in.State, len(in.Info.Units), n)
		}
		return done(r.T, s, id)
	})
}

// done returns an error while an operation works on an instance: units are shown as the VIM has them, before the
// operation that made them is known to have ended.
func done(t *testing.T, s *process.Server, id string) error {
	all, err := process.All[process.Operation](t.Context(), s, process.Operations+"?filter=(eq,vnfInstanceId,"+id+")")
	for _, op := range all {
		if op.State == "PROCESSING" || op.State == "ROLLING_BACK" {
			return fmt.Errorf("instance %s has its units, and operation %s is %s still", id, op.ID, op.State)
		}
	}
	return err
}

// scale asks a replica for one more unit, and returns the operation's id. A replica may only say that the instance
// is unknown or busy where it has waited as long as a request may for what others have done, or for a repair, as on
// a starved machine. It is asked again then: nothing was begun.
func (r *together) scale(s *process.Server, id string) string {
	r.Helper()
	for {
		began := time.Now()
		a, err := s.Do(r.Context(), http.MethodPost, process.Instances+"/"+id+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
		switch {
		case err == nil && a.Status == http.StatusAccepted:
			return a.ID()
		case err != nil || a.Status != http.StatusConflict && a.Status != http.StatusServiceUnavailable || time.Since(began) < time.Second:
			r.Fatalf("scale, after %s: %v: %+v", time.Since(began), err, a)
		}
	}
}

// atOnce asks a replica for what another has answered. It may only lack it where it has waited for the
// news as long as it may, a second, as on a starved machine.
func atOnce(t *testing.T, ask func() error) {
	t.Helper()
	for {
		began := time.Now()
		err := ask()
		if err == nil {
			return
		}
		if took := time.Since(began); took < time.Second || t.Context().Err() != nil {
			t.Fatalf("another replica doesn't show an operation, after %s: %v", took, err)
		}
	}
}

func TestReplicasShareTheWorkAndEachServesTheWholeAPI(t *testing.T) {
	r, s := newReplicas(t, 3)
	for _, one := range s {
		r.members(one, 3)
	}
	told, _ := listen(t, s[1])
	ids := r.create(s[0], 12)
	// The names of members are made up: now and then one gets none of twelve.
	kit.Eventually(t, func() error {
		list, all, work := r.members(s[2], 3), 0, 0
		for _, m := range list {
			if m.Instances > 0 {
				work++
			}
			all += m.Instances
		}
		if all != len(ids) || work < 2 {
			return fmt.Errorf("%d of %d instances are dealt, to %d members: %+v", all, len(ids), work, list)
		}
		return nil
	})
	made := r.cloud.Calls().Scales
	for n, id := range ids {
		// Taken by one, seen at once by the next, done by whoever has it.
		op := r.scale(s[n%3], id)
		atOnce(t, func() error {
			var seen process.Operation
			return s[(n+1)%3].Get(t.Context(), process.Operations+"/"+op, &seen)
		})
		atOnce(t, func() error {
			var list []process.Operation
			if err := s[(n+2)%3].Get(t.Context(), process.Operations+"?filter=(eq,id,"+op+")", &list); err != nil || len(list) != 1 {
				return errors.Join(fmt.Errorf("the list is %v", list), err)
			}
			return nil
		})
		s[(n+2)%3].Await(t, op, "COMPLETED")
		r.runs(s[(n+1)%3], id, 2)
	}
	if n := r.cloud.Calls().Scales - made; n != int64(len(ids)) {
		t.Errorf("%d instances were scaled %d times", len(ids), n)
	}
	for _, id := range ids {
		told.tells(t, id, "Creation, INSTANTIATE STARTING, INSTANTIATE PROCESSING, INSTANTIATE COMPLETED, SCALE STARTING, SCALE PROCESSING, SCALE COMPLETED")
	}
}

func TestTheInstancesOfAReplicaThatEndsAreTakenOver(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 3)
	ids := r.create(s[0], 8)
	r.stop[0]()
	r.members(s[1], 2)
	for n, id := range ids {
		s[1+n%2].Await(t, r.scale(s[1+n%2], id), "COMPLETED")
		// Drift, which somebody has to put right.
		r.cloud.Resize(fmt.Sprintf("Workload/n%d/vdu1", n), 1)
	}
	for _, id := range ids {
		r.runs(s[2], id, 2)
	}
	next := r.start()
	r.members(next, 3)
	for _, id := range ids {
		next.Await(t, r.scale(next, id), "COMPLETED")
	}
}

func TestAReplicaThatDiffersIsRefused(t *testing.T) {
	t.Parallel()

	r, _ := newReplicas(t, 1)
	refused := func(o app.Options, words ...string) {
		t.Helper()
		err := app.Run(t.Context(), o)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("the start ends with %v, want %q", err, w)
			}
		}
	}
	o := r.options()
	o.Given.Identity = ""
	refused(o, "another key", "--identity")
	o = r.options()
	o.Remote = ""
	refused(o, "replicas with --remote", "--remote")
	o = r.options()
	o.Branch = "other"
	refused(o, "follow branch main", "other")
	o = r.options()
	if err := os.WriteFile(filepath.Join(o.Data, "installation"), []byte("elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(o, "installation elsewhere")
	o = r.options()
	o.Confinement.Unconfined = true
	if err := o.AllowHooks.Set("small"); err != nil {
		t.Fatal(err)
	}
	refused(o, "--unconfined-hooks")
}

func TestAReplicaIsRefusedWhereAProcessHasTheStoreForItself(t *testing.T) {
	t.Parallel()

	r, _ := newReplicas(t, 0)
	o := r.options()
	o.Remote = ""
	_, stop := startWith(t, o)
	t.Cleanup(stop)
	o = r.options()
	if err := app.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a process without --remote serves from this store") {
		t.Errorf("the start ends with %v", err)
	}
}

func TestALocalPackageRepositoryIsNotFetchedByReplicas(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 1)
	r.work.WriteFiles(map[string]string{"repositories.yaml": "- {name: packages, url: packages.git, branch: main}\n"})
	r.work.Push("Name a folder")
	r.poke(s[0])
	kit.Eventually(t, func() error {
		a, err := s[0].Do(t.Context(), http.MethodPost, "/vnfpkgm/v2/vnf_packages", map[string]any{}, "Version", "2.1.0")
		if err != nil {
			return err
		}
		if a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "git server") {
			return fmt.Errorf("an upload is answered with %d %s", a.Status, a.Body)
		}
		return nil
	})
}
