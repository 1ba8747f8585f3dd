package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// Connection gives an instance's own connection its endpoint, too.
func (endpoints) Connection(name string, c desired.VIMConnection) (drivers.VIM, error) {
	return drivers.VIM{Name: name, Type: c.VimType, Endpoint: c.InterfaceInfo["endpoint"]}, nil
}

// newWorlds has one cloud behind each of the endpoints; the one of the world is behind all others.
func newWorlds(t *testing.T, clouds map[string]*sim.Cloud) *world {
	t.Helper()
	var w *world
	w = newWorld(t, func(c *reconciler.Config) {
		cloud := func() *sim.Cloud { return w.cloud }
		c.Secrets = endpoints{}
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			if at := clouds[v.Endpoint]; at != nil {
				return sim.New(at, v), nil
			}
			return sim.New(cloud(), v), nil
		}
	})
	return w
}

// seedVIMs writes files under vims/, by name and endpoint.
func (w *world) seedVIMs(endpoints map[string]string) {
	w.t.Helper()
	files := map[string][]byte{}
	for name, endpoint := range endpoints {
		files["vims/"+name+".yaml"] = []byte("type: sim\nendpoint: " + endpoint + "\n")
	}
	if err := w.repo.Seed(w.t.Context(), files, "VIMs"); err != nil {
		w.t.Fatal(err)
	}
}

func TestOrphansAtAConnectionNamedAsAVIMAreDeletedThere(t *testing.T) {
	t.Parallel()

	b := sim.NewCloud()
	w := newWorlds(t, map[string]*sim.Cloud{"https://b": b})
	w.seedVIMs(map[string]string{"lab": "https://a"})
	const other = "9d1f0b3c-0000-4000-8000-0000000000ff"
	own := strings.Replace(file("instantiated", "vimConnectionInfo: {lab: {vimType: sim, interfaceInfo: {endpoint: \"https://b\"}}}\n"), id, other, 1)
	if _, err := w.repo.Write(t.Context(), desired.Write{
		Instance: other, Dir: "instances/other", Subject: "another", By: "Ann <ann@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(own)}, nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(other)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.until("the other one runs", func() bool { return slices.Contains(b.Instances(), other) })

	b.Restore(w.cloud.Copy())

	list := slices.DeleteFunc(w.orphans(), func(o reconciler.Orphan) bool { return o.Instance != id })
	if len(list) != 2 || list[0].VIM == "lab" || !strings.HasPrefix(list[0].VIM, "lab@") {
		t.Fatalf("orphans are %+v", list)
	}
	w.until("they are a problem of that connection", func() bool {
		return slices.ContainsFunc(w.recon.View().OrphanProblems(), func(p reconciler.Problem) bool { return p.VIM == list[0].VIM && p.File == "vimConnectionInfo "+p.VIM })
	})
	done, err := w.recon.DeleteOrphans(t.Context(), shown(list))
	if err != nil || len(done.Deleted) != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	w.until("they are gone", func() bool { return !slices.Contains(b.Instances(), id) })
	if !slices.Contains(w.cloud.Instances(), id) {
		t.Error("what runs was deleted")
	}
}

func TestWhatWasDeletedIsToldThoughAnotherVIMFails(t *testing.T) {
	t.Parallel()

	b, c := sim.NewCloud(), sim.NewCloud()
	w := newWorlds(t, map[string]*sim.Cloud{"https://b": b, "https://c": c})
	w.seedVIMs(map[string]string{"lab": "https://a", "b": "https://b", "c": "https://c"})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	b.Restore(w.cloud.Copy())
	c.Restore(w.cloud.Copy())
	list := w.orphans()
	if len(list) != 4 {
		t.Fatalf("orphans are %+v", list)
	}
	b.BeforeStep(func(string, plan.Step) error { return drivers.ErrUnavailable })

	done, err := w.recon.DeleteOrphans(t.Context(), shown(list))

	if !errors.Is(err, drivers.ErrUnavailable) || done == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	if len(done.Deleted) != 2 || done.Deleted[0].VIM != "c" || len(done.Unsure) != 2 || done.Unsure[0].VIM != "b" {
		t.Errorf("%+v", done)
	}
	w.until("those of one VIM are gone", func() bool { return len(c.Instances()) == 0 })
}

func TestADeletionThatBeganIsToldThoughTheCallerLeaves(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.comeBack("")
	list := shown(w.orphans())
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w.cloud.BeforeStep(func(string, plan.Step) error {
		leave()
		return nil
	})

	done, err := w.recon.DeleteOrphans(ctx, list)

	if err != nil || len(done.Deleted) != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	w.until("nothing is left", func() bool { return len(w.cloud.Instances()) == 0 })
}
