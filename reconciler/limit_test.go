package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// limited is a change to version 2 that reaches these VDUs alone.
func limited(vdus ...string) func(*desired.Instance) {
	return func(in *desired.Instance) {
		in.VnfdID, in.Update.VDUs = vnfd2, vdus
		in.Levels = map[string]int{"web": 0}
	}
}

// stays is the pin of a VDU that is left with version 1.
func stays(files ...string) desired.VDUPin { return desired.VDUPin{Package: tree1, Files: files} }

func TestALimitPinsTheVDUsThatItDoesNotName(t *testing.T) {
	pinned := func(vdu string) func(*desired.Instance) {
		return func(in *desired.Instance) {
			in.VnfdID, in.Package, in.VDUs = vnfd2, tree2, map[string]desired.VDUPin{vdu: stays()}
		}
	}
	for name, c := range map[string]struct {
		before, after func(*desired.Instance)
		want          map[string]desired.VDUPin
	}{
		"no limit":      {nil, limited(), nil},
		"all are named": {nil, limited("VDU2", "VDU1"), nil},
		"one is named":  {nil, limited("VDU1"), map[string]desired.VDUPin{"VDU2": stays()}},
		"one is named, and manifests are listed": {
			func(in *desired.Instance) {
				in.Params = map[string]any{"lcm-kubernetes-def-files": []any{"Files/b.yaml", "Files/a.yaml"}}
			},
			func(in *desired.Instance) {
				limited("VDU1")(in)
				in.Params = map[string]any{"lcm-kubernetes-def-files": []any{"Files/b.yaml", "Files/a.yaml"}}
			}, map[string]desired.VDUPin{"VDU2": stays("Files/b.yaml", "Files/a.yaml")}},
		"a later change without a limit ends it": {pinned("VDU2"), func(in *desired.Instance) {
			in.VnfdID, in.Package, in.VDUs = vnfdID, tree2, map[string]desired.VDUPin{"VDU2": stays()}
		}, nil},
		"a change of something else leaves it": {pinned("VDU2"), func(in *desired.Instance) {
			pinned("VDU2")(in)
			in.Levels = map[string]int{"web": 2}
		}, map[string]desired.VDUPin{"VDU2": stays()}},
		"the rest is named for the same package": {pinned("VDU2"), func(in *desired.Instance) {
			pinned("VDU2")(in)
			in.Update.VDUs = []string{"VDU2"}
		}, nil},
		"another one is named for the same package": {pinned("VDU2"), func(in *desired.Instance) {
			pinned("VDU2")(in)
			in.Update.VDUs = []string{"VDU1"}
		}, map[string]desired.VDUPin{"VDU2": stays()}},
		"the author takes the pin away": {pinned("VDU2"), func(in *desired.Instance) { in.VnfdID, in.Package = vnfd2, tree2 }, nil},
		"a VDU that stays stays with what it has": {
			func(in *desired.Instance) {
				in.VnfdID, in.Package, in.VDUs = vnfd2, tree2, map[string]desired.VDUPin{"VDU1": stays()}
			},
			func(in *desired.Instance) {
				in.VnfdID, in.Package, in.VDUs, in.Update.VDUs = vnfdID, tree2, map[string]desired.VDUPin{"VDU1": stays()}, []string{"VDU2"}
			}, nil}, // VDU1 has version 1 already, to which VDU2 goes back
	} {
		t.Run(name, func(t *testing.T) {
			checker, settings := newChecker(), lab(desired.VIMSim)
			after := intended(c.after)
			full, err := checker.Complete(t.Context(), settings, intended(c.before), after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(len(c.want), len(full.VDUs)); diff != "" || len(c.want) > 0 && !cmp.Equal(c.want, full.VDUs) {
				t.Errorf("pinned are %v, want %v", full.VDUs, c.want)
			}
			again, err := checker.Complete(t.Context(), settings, intended(c.before), full)
			if err != nil || !desired.Equal(full, again) {
				t.Errorf("completed again it differs in %v: %v", desired.Changed(full, again), err)
			}
			if err := checker.Check(t.Context(), settings, intended(c.before), after); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func lab(vimType string) *desired.Settings {
	return &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: vimType, Default: true}}}
}

func TestALimitThatCanNotBeKeptIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(*desired.Instance)
		says          []string
	}{
		"blue-green": {nil, func(in *desired.Instance) {
			limited("VDU1")(in)
			in.Update.Strategy = desired.BlueGreen
		}, []string{"update.vdus", "VDU VDU2 would change too", "blue-green", "or none"}},
		"on container updates": {func(in *desired.Instance) {
			in.Package, in.Base, in.Overlays = tree1, tree1, []desired.Overlay{{Package: tree1}}
		}, limited("VDU1"), []string{"update.vdus", "VDU VDU2 can't stay", "container updates"}},
		"a container update on a mixture": {func(in *desired.Instance) {
			in.VnfdID, in.Package, in.VDUs = vnfd2, tree2, map[string]desired.VDUPin{"VDU2": stays()}
		}, func(in *desired.Instance) {
			in.VDUs, in.Update.Strategy, in.Package, in.VnfdID = map[string]desired.VDUPin{"VDU2": stays()}, desired.Container, "", vnfdID
		}, []string{"vdus.VDU2", "container update"}},
		"an unknown VDU": {nil, limited("VDU7"), []string{"update.vdus", "has no VDU VDU7"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := newChecker().Check(t.Context(), lab(desired.VIMSim), intended(c.before), intended(c.after))
			var refused *drivers.RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			for _, word := range c.says {
				if !strings.Contains(refused.Error(), word) {
					t.Errorf("%q doesn't say %q", refused, word)
				}
			}
		})
	}
}

// stacks is a package repository with two versions of a Heat template with two servers.
type stacks struct{ catalogue }

func (s stacks) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := s.shelf.Open(ctx, tree1)
	if err != nil {
		return nil, err
	}
	pkg.Tree = tree
	server := func(name, image string) string {
		return "  " + name + ": {type: OS::Nova::Server, properties: {name: " + name + ", image: " + image + ", flavor: m1.tiny, networks: [{network: n}]}}\n"
	}
	image, vdus := "old", pkg.VNFD.Flavours[0].VDUs
	vdus[0].Initial, vdus[0].Deltas, vdus[1].Initial, vdus[1].Deltas = 1, nil, 1, nil
	pkg.VNFD.Flavours[0].Aspects = nil
	if tree != tree1 {
		image, pkg.VNFD.ID = "new", map[string]string{tree2: vnfd2, tree3: vnfd3}[tree]
	}
	second := "old"
	if tree == tree3 {
		second = "new"
	}
	pkg.Files = fstest.MapFS{"BaseHOT/simple/top.yaml": {Data: []byte("heat_template_version: 2018-08-31\nresources:\n" + server("VDU1", image) + server("VDU2", second))}}
	return pkg, nil
}

func TestOnOpenStackALimitIsRefusedUnlessItNamesAllThatChanges(t *testing.T) {
	checker := reconciler.NewChecker(stacks{}, func(v drivers.VIM) (drivers.Driver, error) {
		if v.Type == desired.VIMOpenStack {
			return openstack.New(v, openstack.Options{Egress: egress.Anywhere()})
		}
		return sim.New(sim.NewCloud(), v), nil
	}, nil)
	for _, tt := range []struct {
		vnfd  string
		named []string
		says  string
	}{
		{vnfd2, []string{"VDU1"}, ""}, // VDU2 is the same in both
		{vnfd2, nil, ""},
		{vnfd3, []string{"VDU1", "VDU2"}, ""},
		{vnfd3, []string{"VDU1"}, "vdus.VDU2: VDU VDU2 can't stay with its package: its VIM changes it all the same"},
	} {
		after := intended(func(in *desired.Instance) { in.VnfdID, in.Update.VDUs = tt.vnfd, tt.named })
		err := checker.Check(t.Context(), lab(desired.VIMOpenStack), intended(nil), after)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s, %v: got %v, want %q", tt.vnfd, tt.named, err, tt.says)
		}
	}
}

func TestAPinThatSomebodyWroteIsRefusedWhereItsVIMDoesNotKeepIt(t *testing.T) {
	heat := func(v drivers.VIM) (drivers.Driver, error) {
		return openstack.New(v, openstack.Options{Egress: egress.Anywhere()})
	}
	simulated := func(v drivers.VIM) (drivers.Driver, error) { return sim.New(sim.NewCloud(), v), nil }
	for _, tt := range []struct {
		vimType string
		driver  func(drivers.VIM) (drivers.Driver, error)
		refused bool
	}{{desired.VIMSim, simulated, false}, {desired.VIMOpenStack, heat, true}} {
		checker := reconciler.NewChecker(stacks{}, tt.driver, nil)
		after := intended(func(in *desired.Instance) {
			in.VnfdID, in.Package, in.VDUs = vnfd3, tree3, map[string]desired.VDUPin{"VDU2": stays()}
		})
		err := checker.Check(t.Context(), lab(tt.vimType), nil, after)
		if refused := err != nil && strings.Contains(err.Error(), "vdus.VDU2"); refused != tt.refused {
			t.Errorf("%s: %v", tt.vimType, err)
		}
	}
}

func TestAVDUThatStaysDoesSoUntilAChangeReachesIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Packages = catalogue{} })
	text := func(vnfd, more string) string {
		return "id: " + id + "\nvnfdId: " + vnfd + "\nflavour: simple\nvim: lab\n" + more
	}
	w.commit(text(vnfdID, ""))
	w.last(lcm.Instantiate, lcm.Completed)
	first := w.incarnations()

	w.commit(text(vnfd2, "levels: {web: 0}\nupdate: {vdus: [VDU1]}\n"))
	op := w.last(lcm.ChangePackage, lcm.Completed)
	limited := w.incarnations()
	if first["VDU1"] == limited["VDU1"] || first["VDU2"] != limited["VDU2"] {
		t.Errorf("units were %v and are %v", first, limited)
	}
	if said := string(op.Params); !strings.Contains(said, `"vdu_params":[{"vdu_id":"VDU1"}]`) {
		t.Errorf("the operation's parameters are %s", said)
	}
	head := w.head()
	if want := map[string]desired.VDUPin{"VDU2": stays()}; !cmp.Equal(want, head.VDUs) || head.Package != tree2 {
		t.Errorf("git has package %s and pins %v", head.Package, head.VDUs)
	}

	w.stop()
	w.start()
	mixture := fmt.Sprintf("package: %s\nvdus: {VDU2: {package: %s}}\nupdate: {vdus: [VDU1]}\n", tree2, tree1)
	w.commit(text(vnfd2, mixture+"levels: {web: 2}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if now := w.incarnations(); now["VDU2"] != first["VDU2"] {
		t.Errorf("after a restart and a scale-out, units were %v and are %v", first, now)
	}

	w.commit(text(vnfd2, "package: "+tree2+"\nlevels: {web: 2}\n"))
	w.last(lcm.ChangePackage, lcm.Completed)
	if now := w.incarnations(); now["VDU2"] == first["VDU2"] {
		t.Error("without its pin the VDU stays all the same")
	}
}

// incarnations are the units that run, by VDU.
func (w *world) incarnations() map[string]string {
	w.t.Helper()
	units, fresh := w.live()
	if !fresh {
		w.t.Fatal("what runs can't be seen")
	}
	ids := map[string]string{}
	for _, u := range units {
		ids[u.VDU] += u.ID + " "
	}
	return ids
}
