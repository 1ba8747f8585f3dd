package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
)

const db = "Workload/" + id + "/db"

// comeBack instantiates and terminates the instance, and has its VIM restored from a copy of the time between. text is
// what its file says after the termination, "" for none.
func (w *world) comeBack(text string) {
	w.t.Helper()
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	backup := w.cloud.Copy()
	w.commit(text)
	w.until("nothing is left", func() bool { return !slices.Contains(w.cloud.Instances(), id) })
	if text != "" {
		w.last(lcm.Terminate, lcm.Completed)
	}
	w.until("its record is at rest", func() bool {
		inst, err := w.log.Instance(w.t.Context(), id)
		return err == nil && inst.Open == "" && (text != "" || inst.Seq == 0)
	})

	w.cloud.Restore(backup)
	w.looks()
}

// orphans are those that a survey finds now.
func (w *world) orphans() []reconciler.Orphan {
	w.t.Helper()
	found, err := w.recon.View().Orphans(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(found.Unseen) > 0 {
		w.t.Fatalf("unseen: %v", found.Unseen)
	}
	return found.Orphans
}

// keysOf are the keys of the orphans' objects.
func keysOf(list []reconciler.Orphan) (keys []string) {
	for _, o := range list {
		keys = append(keys, o.Object)
	}
	return keys
}

// shown is the deletion of all orphans that a person was shown.
func shown(list []reconciler.Orphan) (d reconciler.OrphanDeletion) {
	for _, o := range list {
		d.Objects = append(d.Objects, o.Ref())
	}
	return d
}

func TestWhatComesBackAfterItsTerminationIsOrphaned(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{"its file is gone": "", "its file says so": file("notInstantiated", "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.comeBack(text)

			list := w.orphans()

			if !slices.Equal(keysOf(list), []string{db, web}) {
				t.Fatalf("orphans are %+v", list)
			}
			if o := list[0]; o.VIM != "lab" || o.Instance != id || o.Dir != dir || o.VNF != "amf" || o.Why == "" || o.Incarnation == "" {
				t.Errorf("the first is %+v", o)
			}
		})
	}
}

func TestWhatRunsIsNoOrphan(t *testing.T) {
	t.Parallel()

	for name, run := range map[string]func(w *world){
		"it runs": func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
		},
		"its operation is open": func(w *world) {
			w.cloud.Fail(web, "no memory")
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.FailedTemp)
		},
		"it is held": func(w *world) { w.failToInstantiate() },
		"its termination waits": func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.commit(file("notInstantiated", "suspend: true\n"))
		},
		"its file can't be read": func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			broken := map[string][]byte{dir + "/vnf.yaml": []byte("id: " + id + "\nstate: [\n")}
			if err := w.repo.Seed(w.t.Context(), broken, "A slip"); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			run(w)
			w.looks()

			if list := w.orphans(); len(list) > 0 {
				t.Errorf("orphans are %+v", list)
			}
		})
	}
}

func TestOrphansAreAProblemOfTheirVIM(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.comeBack("")
	w.stop()
	w.start() // a survey that no caller asks for

	w.until("it is a problem", func() bool {
		list := w.recon.View().OrphanProblems()
		return len(list) == 1 && list[0].File == "vims/lab.yaml" && strings.Contains(list[0].Message, web) && !list[0].Since.IsZero()
	})
	if known := w.recon.View().KnownOrphans(); !slices.Equal(keysOf(known.Orphans), []string{db, web}) {
		t.Errorf("known are %+v", known)
	}

	if _, err := w.recon.DeleteOrphans(t.Context(), shown(w.orphans())); err != nil {
		t.Fatal(err)
	}
	w.until("it is none any more", func() bool { return len(w.recon.View().OrphanProblems()) == 0 })
}

func TestExactlyTheOrphansThatWereShownAreDeleted(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.comeBack("")
	first := shown(slices.DeleteFunc(w.orphans(), func(o reconciler.Orphan) bool { return o.Object != web }))

	done, err := w.recon.DeleteOrphans(t.Context(), first)

	if err != nil || len(done.Deleted) != 1 || len(done.Refused) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	w.until("it is gone", func() bool { return slices.Equal(keysOf(w.orphans()), []string{db}) })
	done, err = w.recon.DeleteOrphans(t.Context(), first) // as after an interruption
	if err != nil || len(done.Gone) != 1 || len(done.Deleted)+len(done.Refused) > 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
	if list := keysOf(w.orphans()); !slices.Equal(list, []string{db}) {
		t.Errorf("orphans are %v", list)
	}
}

func TestOrphansThatChangedSinceTheyWereShownAreRefused(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change func(w *world)
		why    string
		stays  func(w *world) bool
	}{
		"its VNF is instantiated": {
			func(w *world) {
				w.commit(file("instantiated", ""))
				w.last(lcm.Instantiate, lcm.Completed)
			}, "belongs to a VNF instance", func(w *world) bool { return w.units("VDU1") == 1 && w.units("VDU2") == 2 },
		},
		"an operation is open": {
			func(w *world) {
				w.cloud.Fail(web, "no memory")
				w.commit(file("instantiated", ""))
				w.last(lcm.Instantiate, lcm.Processing)
			}, "belongs to a VNF instance", func(w *world) bool { return w.units("VDU1") == 1 && w.units("VDU2") == 2 },
		},
		"it was made again": {
			func(w *world) {
				backup := w.cloud.Copy()
				if _, err := w.recon.DeleteOrphans(w.t.Context(), shown(w.orphans())); err != nil {
					w.t.Fatal(err)
				}
				w.until("nothing is left", func() bool { return !slices.Contains(w.cloud.Instances(), id) })
				w.cloud.Restore(backup)
				w.cloud.Renumber(id)
			}, "made again", func(w *world) bool { return len(w.orphans()) == 2 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.comeBack("")
			was := shown(w.orphans())
			c.change(w)

			_, err := w.recon.DeleteOrphans(t.Context(), was)

			var refused *drivers.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.why) {
				t.Fatalf("error %v", err)
			}
			w.looks()
			if !c.stays(w) {
				t.Errorf("there are %v", w.cloud.Instances())
			}
		})
	}
}

// valued says that data are lost with an object.
type valued struct{ *sim.Driver }

func (d valued) Observe(ctx context.Context, r drivers.Rendering) (plan.Observed, error) {
	o, err := d.Driver.Observe(ctx, r)
	for n := range o.Objects {
		o.Objects[n].Data = o.Objects[n].Key == db
	}
	return o, err
}

func TestDataOfOrphansStayUnlessAskedFor(t *testing.T) {
	t.Parallel()

	var w *world
	w = newWorld(t, func(c *reconciler.Config) {
		cloud := func() *sim.Cloud { return w.cloud }
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) { return valued{sim.New(cloud(), v)}, nil }
	})
	w.comeBack("")
	all := shown(w.orphans())

	_, err := w.recon.DeleteOrphans(t.Context(), all)

	if err == nil || !strings.Contains(err.Error(), "--delete-data") {
		t.Fatalf("error %v", err)
	}
	if list := keysOf(w.orphans()); len(list) != 2 {
		t.Fatalf("orphans are %v", list)
	}
	all.DeleteData = true
	if _, err := w.recon.DeleteOrphans(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	w.until("nothing is left", func() bool { return len(w.cloud.Instances()) == 0 })
}

// turning has something happen in the turn of an instance, before anything is decided there.
type turning struct {
	desired.Repo
	then func()
}

func (r turning) Knows(ctx context.Context, commit string) (bool, error) {
	if _, turn := store.LeaseOf(ctx); turn && commit == "" {
		r.then()
	}
	return r.Repo.Knows(ctx, commit)
}

func TestOrphansAreJudgedAgainInTheirTurn(t *testing.T) {
	t.Parallel()

	var once sync.Once
	var meanwhile atomic.Pointer[func()]
	w := newWorld(t, func(c *reconciler.Config) {
		c.Repo = turning{c.Repo, func() {
			if do := meanwhile.Load(); do != nil {
				once.Do(*do)
			}
		}}
	})
	w.comeBack("")
	list := shown(w.orphans())
	commits := func() { w.commit(file("instantiated", "")) }
	meanwhile.Store(&commits)

	done, err := w.recon.DeleteOrphans(t.Context(), list)

	if err != nil || len(done.Deleted) > 0 || len(done.Refused) != 2 || !strings.Contains(done.Refused[0].Reason, "belongs to a VNF instance") {
		t.Fatalf("%+v, %v", done, err)
	}
	w.last(lcm.Instantiate, lcm.Completed)
	seen, _ := w.recon.View().Running(t.Context(), id)
	for _, ref := range list.Objects {
		if !seen.Has(ref.Object, ref.Incarnation) {
			t.Errorf("%+v was deleted", ref)
		}
	}
}

func TestNothingCountsAsAnOrphanWhileMoreMayBeDesired(t *testing.T) {
	t.Parallel()

	for name, conf := range map[string]func(c *reconciler.Config, now *atomic.Bool){
		"git isn't followed": func(c *reconciler.Config, now *atomic.Bool) { c.Repo = staleRepo{c.Repo, now} },
		"records are lost":   func(c *reconciler.Config, now *atomic.Bool) { c.Whole = func() bool { return !now.Load() } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Bool
			w := newWorld(t, func(c *reconciler.Config) { conf(c, &now) })
			w.comeBack("")
			list := w.orphans()
			now.Store(true)

			_, err := w.recon.View().Orphans(t.Context())
			_, deleted := w.recon.DeleteOrphans(t.Context(), shown(list))

			if !errors.Is(err, desired.ErrUnavailable) || !errors.Is(deleted, desired.ErrUnavailable) {
				t.Errorf("%v, %v", err, deleted)
			}
			now.Store(false)
			if again := w.orphans(); len(again) != len(list) {
				t.Errorf("orphans are %+v", again)
			}
		})
	}
}

// staleRepo isn't followed while now is true.
type staleRepo struct {
	desired.Repo
	now *atomic.Bool
}

func (r staleRepo) Stale() error {
	if r.now.Load() {
		return errors.New("the forge is away")
	}
	return nil
}
