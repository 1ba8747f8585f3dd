package reconciler_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// stage runs no programs: it takes down what they would be told, and answers for them.
type stage struct {
	mu     sync.Mutex
	calls  []hooks.Call
	answer func(ctx context.Context, c hooks.Call) error
	// leave is what a program writes, whether it fails or not; nil writes nothing.
	leave func(c hooks.Call) hooks.Output
}

func (s *stage) Run(ctx context.Context, c hooks.Call) (hooks.Output, error) {
	if err := c.Started(hooks.Process{PID: 1 << 30, Start: 7, Boot: "none"}); err != nil {
		return hooks.Output{}, err
	}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	answer, leave := s.answer, s.leave
	s.mu.Unlock()
	var out hooks.Output
	if leave != nil {
		out = leave(c)
	}
	if answer != nil {
		return out, answer(ctx, c)
	}
	return out, nil
}

// told are the hooks that were run so far, with a mark on those that were told of
// an interrupted run.
func (s *stage) told() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		name := c.Input.Hook
		if c.Input.Interrupted {
			name += " again"
		}
		names = append(names, name)
	}
	return names
}

func (s *stage) then(answer func(ctx context.Context, c hooks.Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// upgradable is a world whose packages have versions, with an instance of the first
// that runs behind a router.
func upgradable(t *testing.T, conf func(*reconciler.Config)) (*world, *stage) {
	s := &stage{}
	w := newWorld(t, func(c *reconciler.Config) {
		c.Packages, c.Hooks = catalogue{}, s
		if conf != nil {
			conf(c)
		}
	})
	w.commit(file("instantiated", "params: {router: true}\n"))
	w.last(lcm.Instantiate, lcm.Completed)
	return w, s
}

const blueGreen = "params: {router: true}\nupdate: {strategy: blueGreen, coordinate: {new: Scripts/new.sh, old: ./Scripts/old.sh}}\n"

// upgraded is the file with the vnfdId of version 2 and the pin of version 1 left.
func upgraded(more string) string {
	return strings.Replace(file("instantiated", more), vnfdID, vnfd2, 1)
}

// generations are those of the live units.
func (w *world) generations() (all []string) {
	w.t.Helper()
	units, _ := w.live()
	for _, u := range units {
		all = append(all, u.Generation)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestAOneLineCommitUpgradesBlueGreen(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, nil)
	w.commit(upgraded(blueGreen))
	op := w.last(lcm.ChangePackage, lcm.Completed)
	in := w.head()
	if in.Package != tree2 || in.Generation != "1" {
		t.Errorf("git says package %s, generation %q; want what was filled in", in.Package, in.Generation)
	}
	if got := w.generations(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("units of generations %q run, want those of 1 alone", got)
	}
	if got, want := s.told(), []string{"coordinate_new", "coordinate_old"}; !slices.Equal(got, want) {
		t.Errorf("hooks %q were run, want %q", got, want)
	}
	var changed map[string]string
	if err := json.Unmarshal(op.PkgChange, &changed); err != nil || changed["vnfdId"] != vnfd2 || changed["vnfSoftwareVersion"] != "8" {
		t.Errorf("modifications triggered: %s (%v)", op.PkgChange, err)
	}
}

func TestACoordinationScriptIsToldBothSidesAndRunsFromItsOwnPackage(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, func(c *reconciler.Config) {
		c.Reveal = func(params map[string]any) (map[string]any, error) {
			return map[string]any{"revealed": len(params)}, nil
		}
	})
	w.commit(upgraded(blueGreen))
	w.last(lcm.ChangePackage, lcm.Completed)
	s.mu.Lock()
	defer s.mu.Unlock()
	newer, older := s.calls[0], s.calls[1]
	if newer.Package.Tree != tree2 || older.Package.Tree != tree1 || older.Path != "Scripts/old.sh" {
		t.Errorf("scripts come from %s and %s (%s)", newer.Package.Tree, older.Package.Tree, older.Path)
	}
	in := newer.Input
	if in.Before.VnfdID != vnfdID || in.After.VnfdID != vnfd2 || in.Operation.Type != "CHANGE_VNFPKG" || in.Rollback || in.Interrupted {
		t.Errorf("input: %+v", in)
	}
	if len(in.Services) != 1 || in.Params["revealed"] != 1 {
		t.Errorf("services %v, params %v", in.Services, in.Params)
	}
	for _, v := range in.VDUs {
		if len(v.Old) == 0 || len(v.New) == 0 || v.Old[0].Generation != "0" || v.New[0].Generation != "1" || !v.New[0].Ready {
			t.Errorf("VDU %s: old %v, new %v", v.ID, v.Old, v.New)
		}
	}
}

func TestAFailingScriptHoldsTheUpgradeWithItsReasonAndCanBeRetriedOrTakenBack(t *testing.T) {
	t.Parallel()

	for _, way := range []string{"retry", "rollback", "revert", "revert of the one line"} {
		t.Run(way, func(t *testing.T) {
			w, s := upgradable(t, nil)
			before := w.head()
			s.then(func(_ context.Context, c hooks.Call) error {
				return &hooks.FailedError{Path: c.Path, Reason: "exit status 1", Stderr: "no such backend"}
			})
			w.commit(upgraded(blueGreen))
			op := w.last(lcm.ChangePackage, lcm.FailedTemp)
			if !strings.Contains(op.Error.Detail, "no such backend") {
				t.Errorf("the error says %q", op.Error.Detail)
			}
			s.then(nil)
			var err error
			switch way {
			case "retry":
				_, err = w.log.Retry(t.Context(), op.ID)
			case "rollback":
				_, err = w.log.Rollback(t.Context(), op.ID)
			case "revert":
				w.commit(file("instantiated", "params: {router: true}\n"))
			case "revert of the one line":
				// What was filled in meanwhile is left standing, as git revert does.
				w.commit(strings.Replace(file("instantiated", "params: {router: true}\ngeneration: \"1\"\nlevels: {web: 0}\n"), tree1, tree2, 1))
			}
			if err != nil {
				t.Fatal(err)
			}
			w.recon.Enqueue(id)
			if way == "retry" {
				w.last(lcm.ChangePackage, lcm.Completed)
				if got, want := s.told(), []string{"coordinate_new", "coordinate_new", "coordinate_old"}; !slices.Equal(got, want) {
					t.Errorf("hooks %q, want %q", got, want)
				}
				return
			}
			w.last(lcm.ChangePackage, lcm.RolledBack)
			if got := w.generations(); !slices.Equal(got, []string{"0"}) {
				t.Errorf("units of generations %q run, want those of 0 alone", got)
			}
			if after := w.head(); !desired.Equal(before, after) {
				t.Errorf("git differs from before in %q", desired.Changed(before, after))
			}
			if got, want := s.told(), []string{"coordinate_new", "coordinate_rollback"}; !slices.Equal(got, want) {
				t.Errorf("hooks %q, want %q", got, want)
			}
		})
	}
}

func TestAScriptThatACrashCutShortIsEndedAndRunAgain(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, nil)
	reached := make(chan struct{}, 1)
	s.then(func(ctx context.Context, _ hooks.Call) error {
		reached <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	w.commit(upgraded(blueGreen))
	<-reached
	w.stop()
	s.then(nil)
	w.start()
	w.last(lcm.ChangePackage, lcm.Completed)
	if got, want := s.told(), []string{"coordinate_new", "coordinate_new again", "coordinate_old"}; !slices.Equal(got, want) {
		t.Errorf("hooks %q, want %q", got, want)
	}
	if p := s.calls[1].Orphan; p == nil || p.Start != 7 {
		t.Errorf("the second run was told to end %v first", p)
	}
}

func TestACancelEndsAScriptThatHangs(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, nil)
	reached, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	s.then(func(ctx context.Context, _ hooks.Call) error {
		reached <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return ctx.Err()
	})
	w.commit(upgraded(blueGreen))
	<-reached
	op := w.last(lcm.ChangePackage, lcm.Processing)
	if _, err := w.log.Cancel(t.Context(), op.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	<-ended
	w.last(lcm.ChangePackage, lcm.FailedTemp)
}

func TestConnectionsDrainBeforeTheOldGenerationGoes(t *testing.T) {
	t.Parallel()

	w, _ := upgradable(t, nil)
	const drain = 300 * time.Millisecond
	// What is done is noted when it begins: nobody has to look while both generations run.
	var mu sync.Mutex
	var switched, gone time.Time
	var news []string
	w.cloud.BeforeStep(func(_ string, s plan.Step) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case s.Action == plan.Apply && s.Directs:
			switched = time.Now()
		case s.Action == plan.Apply && gone.IsZero():
			news = append(news, s.Object)
		case s.Action == plan.Delete && gone.IsZero():
			gone = time.Now()
		}
		return nil
	})
	w.commit(upgraded("params: {router: true}\nupdate: {strategy: blueGreen, drain: 300ms}\n"))
	w.last(lcm.ChangePackage, lcm.Completed)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(news)
	if news = slices.Compact(news); !slices.Equal(news, []string{"Workload/" + id + "/db-1", web + "-1"}) || switched.IsZero() {
		t.Errorf("beside the old generation were made %q; traffic was switched at %s", news, switched)
	}
	if took := gone.Sub(switched); took < drain {
		t.Errorf("the old generation went after %s, before its connections had %s", took, drain)
	}
}

func TestWhatWasFilledInForAChangeThatALaterPushOvertookIsTakenOutAgain(t *testing.T) {
	t.Parallel()

	for name, left := range map[string]string{
		"for a blue-green change":  "generation: \"1\"\nupdate: {strategy: blueGreen}\n",
		"for a container update":   "base: " + tree1 + "\noverlays: [{package: " + tree2 + "}]\n",
		"then a container update":  "generation: \"1\"\nupdate: {strategy: container}\n",
		"then one that is rolling": "generation: \"1\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := upgradable(t, nil)
			// The author has taken the vnfdId back, and left the rest as Jibe had put it.
			w.commit(strings.Replace(file("instantiated", "params: {router: true}\nlevels: {web: 1}\n"+left), tree1, tree2, 1))
			w.last(lcm.Scale, lcm.Completed)
			rev, _ := w.repo.Lookup(id)
			in, err := w.repo.Read(t.Context(), rev)
			if err != nil {
				t.Fatal(err)
			}
			if in.VnfdID != vnfdID || in.Package != tree1 || in.Base != "" || in.Overlays != nil || in.Generation != "" {
				t.Errorf("head has vnfdId %s, package %s, base %q, overlays %v, generation %q", in.VnfdID, in.Package, in.Base, in.Overlays, in.Generation)
			}
			if got := len(w.generations()); got != 1 {
				t.Errorf("%d generations run", got)
			}
		})
	}
}

func TestAHookOfThePackageRunsWhereItsRepositoryAllowsIt(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, func(c *reconciler.Config) { c.Packages = hooked{} })
	w.commit(file("instantiated", "params: {router: true}\nlevels: {web: 1}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if got, want := s.told(), []string{"scale_start"}; !slices.Equal(got, want) {
		t.Errorf("hooks %q, want %q", got, want)
	}
}

// hooked is the catalogue with hooks in its VNFDs.
type hooked struct{ catalogue }

func (h hooked) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := h.catalogue.Open(ctx, tree)
	if err == nil {
		pkg.VNFD.Flavours[0].Hooks = map[string]string{"scale_start": "Scripts/new.sh"}
	}
	return pkg, err
}
