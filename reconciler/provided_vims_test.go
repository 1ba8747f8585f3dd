package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// edgeVIM is what the hooks of a cluster write of it.
func edgeVIM(endpoint string) func(hooks.Call) hooks.Output {
	return func(c hooks.Call) hooks.Output {
		if c.Input.Hook != "scale_end" {
			return hooks.Output{}
		}
		return hooks.Output{VIMs: map[string]*hooks.ProvidedVIM{"edge": {Endpoint: endpoint, Token: "hush"}}}
	}
}

// provides is the VIM edge as the settings have it, nil where they have none.
func (w *world) provides() *desired.VIM {
	w.t.Helper()
	settings, err := w.repo.Settings()
	if err != nil {
		w.t.Fatal(err)
	}
	return settings.VIMs["edge"]
}

func TestAClusterIsAVIMUntilItIsTerminated(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	s.leaves(edgeVIM("https://10.0.0.1:6443"))
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	if v := w.provides(); v == nil || v.Instance != id || v.Endpoint != "https://10.0.0.1:6443" || v.Credentials.Token != "env:hush" || v.Default {
		t.Fatalf("the VIM is %+v", v)
	}
	inst, err := w.log.Instance(t.Context(), id)
	if err != nil || inst.Last != op.ID || inst.OutstandingCommit != "" {
		t.Errorf("afterwards the record is %+v (%v)", inst, err)
	}
	// Somebody makes it the default; what it provides next leaves that alone.
	name := desired.VIMFile("edge")
	text := "type: kubernetes\nid: a-name\ninstance: " + id + "\nendpoint: https://10.0.0.1:6443\ncredentials: {token: env:hush}\n"
	if err := w.repo.Seed(t.Context(), map[string][]byte{name: []byte(text)}, "Name it"); err != nil {
		t.Fatal(err)
	}
	s.leaves(edgeVIM("https://10.0.0.2:6443"))
	w.scale(file("instantiated", "levels: {web: 1}\n"), lcm.Completed)
	if v := w.provides(); v == nil || v.Endpoint != "https://10.0.0.2:6443" || v.ID != "a-name" {
		t.Errorf("then it is %+v", v)
	}
	w.commit("")
	w.until("the VIM has gone", func() bool { return w.provides() == nil })
	w.until("the instance is forgotten", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Last == ""
	})
}

// lateRepo is a repository of which no answer comes back when a VIM is written, for as long
// as it is away.
type lateRepo struct {
	desired.Repo
	away  atomic.Bool
	asked atomic.Int64
}

func (r *lateRepo) WriteVIM(ctx context.Context, name, subject string, trailers []desired.Trailer, change func([]byte) ([]byte, error)) (string, error) {
	r.asked.Add(1)
	if commit, err := r.Repo.WriteVIM(ctx, name, subject, trailers, change); err != nil || !r.away.Load() {
		return commit, err
	}
	return "", fmt.Errorf("%w: no answer", desired.ErrUnavailable)
}

// builds is the catalogue with a hook that builds a cluster.
type builds struct{ catalogue }

func (d builds) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := d.catalogue.Open(ctx, tree)
	if err == nil {
		pkg.VNFD.Flavours[0].Hooks = map[string]string{"instantiate_end": "Scripts/new.sh"}
	}
	return pkg, err
}

func TestAClusterIsAVIMBeforeItsOperationHasEnded(t *testing.T) {
	t.Parallel()

	r, s, repo := newRack(), &stage{}, &lateRepo{}
	s.leaves(func(hooks.Call) hooks.Output {
		return hooks.Output{VIMs: map[string]*hooks.ProvidedVIM{"edge": {Endpoint: "https://10.0.0.1:6443"}}}
	})
	w := newWorld(t, func(c *reconciler.Config) {
		c.Packages, c.Hooks = builds{}, s
		c.Driver = func(drivers.VIM) (drivers.Driver, error) { return r, nil }
		repo.Repo = c.Repo
		c.Repo = repo
	})
	instantiated := file("instantiated", twoWebs)
	repo.away.Store(true)
	w.commit(instantiated)
	w.until("it was asked for twice", func() bool { return repo.asked.Load() > 1 })
	op := w.last(lcm.Instantiate, lcm.Processing)
	// What was published in vain is taken back with the rest.
	if _, err := w.log.Cancel(t.Context(), op.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.FailedTemp)
	if w.provides() == nil {
		t.Fatal("nothing was published: the rest proves nothing")
	}
	repo.away.Store(false)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.until("it is rolled back", func() bool {
		op, err := w.log.Operation(t.Context(), op.ID)
		return err == nil && op.State == lcm.RolledBack
	})
	if v := w.provides(); v != nil {
		t.Errorf("after the rollback there is the VIM %+v", v)
	}
}

func TestAClusterOnWhichOthersRunIsNotTerminated(t *testing.T) {
	t.Parallel()

	w, r, s := managed(t)
	s.leaves(edgeVIM("https://10.0.0.1:6443"))
	w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	const other = "0a9de5b4-6b2a-4b5c-8f0a-4f7d0d8f0001"
	_, err := w.repo.Write(t.Context(), desired.Write{Instance: other, Dir: "instances/on-edge", Subject: "A user",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			text := strings.Replace(file("instantiated", "vim: edge\nsuspend: true\n"), id, other, 1)
			return desired.Files{desired.InstanceFile: []byte(text)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	before := w.head()
	for _, after := range []*desired.Instance{nil, {ID: id, State: desired.NotInstantiated}} {
		err := w.recon.View().Check(t.Context(), nil, before, after)
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || !refused.Conflict || !strings.Contains(err.Error(), "instances/on-edge") {
			t.Errorf("to end it gets %v", err)
		}
	}
	serving := r.serves("VDU1")
	w.commit(file("notInstantiated", "levels: {web: 2}\n")) // as in a remote repository, which asks nobody
	op := w.last(lcm.Terminate, lcm.RolledBack)
	if op.Error == nil || !strings.Contains(op.Error.Detail, "instances/on-edge") {
		t.Errorf("the termination ended with %+v", op.Error)
	}
	if now := r.serves("VDU1"); !slices.Equal(now, serving) || w.head().State != desired.Instantiated {
		t.Errorf("afterwards %q run, and git says %s", now, w.head().State)
	}
}

func TestAClusterOnWhichATerminationIsUnderWayStays(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	s.leaves(edgeVIM("https://10.0.0.1:6443"))
	w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	const other = "0a9de5b4-6b2a-4b5c-8f0a-4f7d0d8f0001"
	write := func(state, extra string) {
		t.Helper()
		_, err := w.repo.Write(t.Context(), desired.Write{Instance: other, Dir: "instances/on-edge", Subject: "A user",
			Change: func(desired.Revision, desired.Files) (desired.Files, error) {
				return desired.Files{desired.InstanceFile: []byte(strings.Replace(file(state, "vim: edge\n"+extra), id, other, 1))}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	write("instantiated", "")
	w.until("the other one runs", func() bool {
		inst, err := w.log.Instance(t.Context(), other)
		return err == nil && inst.LastState == lcm.Completed && inst.Open == ""
	})
	write("notInstantiated", "suspend: true\n") // it isn't begun
	end := func() error {
		return w.recon.View().Check(t.Context(), nil, w.head(), nil)
	}
	if err := end(); err == nil || !strings.Contains(err.Error(), "terminate instances/on-edge first") {
		t.Errorf("to end the cluster gets %v", err)
	}
	write("notInstantiated", "")
	w.until("the other one is terminated", func() bool {
		inst, err := w.log.Instance(t.Context(), other)
		if err != nil || inst.Open != "" || inst.Last == "" {
			return false
		}
		op, err := w.log.Operation(t.Context(), inst.Last)
		return err == nil && op.Type == lcm.Terminate && op.State == lcm.Completed
	})
	if err := end(); err != nil {
		t.Errorf("then it gets %v", err)
	}
}

func TestAHookCanTakeNoVIMOfSomebodyElse(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	if err := w.repo.Seed(t.Context(), map[string][]byte{"vims/edge.yaml": []byte("type: sim\n")}, "Another VIM"); err != nil {
		t.Fatal(err)
	}
	s.leaves(edgeVIM("https://10.0.0.1:6443"))
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.FailedTemp)
	if !strings.Contains(op.Error.Detail, "vims/edge.yaml is there already") {
		t.Errorf("it failed with %s", op.Error.Detail)
	}
	if v := w.provides(); v == nil || v.Type != desired.VIMSim {
		t.Errorf("the other one is %+v", v)
	}
	s.leaves(edgeVIM("http://10.0.0.1:6443\nx"))
	if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.until("it has failed again", func() bool {
		now, err := w.log.Operation(t.Context(), op.ID)
		return err == nil && now.Attempt > op.Attempt && now.State == lcm.FailedTemp
	})
}
