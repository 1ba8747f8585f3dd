package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The trees and VNFDs of the catalogue: 1, its successor 2, and 3, of which the
// aspects have other default levels, whose db is gone and whose programs may not run.
const (
	tree1, tree2, tree3 = pkgTree, "a222222222222222222222222222222222222222", "a333333333333333333333333333333333333333"
	vnfd2, vnfd3        = "0a2fbf0c-5b3c-4d8e-9a55-3f2d6e1a7c22", "0a2fbf0c-5b3c-4d8e-9a55-3f2d6e1a7c33"
)

// catalogue is a package repository with versions of a package.
type catalogue struct{ shelf }

func (catalogue) Hooks(tree string) bool { return tree != tree3 }

func (catalogue) Newest(vnfd string) (string, error) {
	switch vnfd {
	case vnfdID:
		return tree1, nil
	case vnfd2:
		return tree2, nil
	case vnfd3:
		return tree3, nil
	}
	return "", errUnknown
}

func (l catalogue) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := l.shelf.Open(ctx, tree1)
	if err != nil {
		return nil, err
	}
	pkg.Tree = tree
	pkg.Files = fstest.MapFS{"Scripts/new.sh": {Data: []byte("#!/bin/sh\n")}, "Scripts/old.sh": {Data: []byte("#!/bin/sh\n")}}
	flavour := &pkg.VNFD.Flavours[0]
	switch tree {
	case tree1:
	case tree2:
		pkg.VNFD.ID, pkg.VNFD.Version, pkg.VNFD.SoftwareVersion = vnfd2, "2.0", "8"
		flavour.Aspects = flavour.Aspects[:1]
		flavour.DefaultLevel = "big"
		flavour.Levels = []vnfd.Level{{ID: "big", Aspects: map[string]int{"web": 3}}}
	case tree3:
		pkg.VNFD.ID, pkg.VNFD.Version = vnfd3, "3.0"
		flavour.VDUs = flavour.VDUs[:1]
	default:
		return nil, errUnknown
	}
	return pkg, nil
}

func newChecker() *reconciler.Checker {
	return reconciler.NewChecker(catalogue{}, func(v drivers.VIM) (drivers.Driver, error) { return sim.New(sim.NewCloud(), v), nil }, nil)
}

func intended(change func(*desired.Instance)) *desired.Instance {
	in := &desired.Instance{
		ID: id, VnfdID: vnfdID, Package: tree1, State: desired.Instantiated, Flavour: "simple",
		Update: desired.UpdatePolicy{Strategy: desired.Rolling}, Drift: desired.DriftCorrect,
	}
	if change != nil {
		change(in)
	}
	return in
}

func TestCompleteFillsInWhatAOneLineChangeLeavesOut(t *testing.T) {
	t.Parallel()

	const (
		tree2Levels = 0                                          // what runs, although version 2 would have level 3
		earlier     = "a444444444444444444444444444444444444444" // a build of version 2 before tree2
	)
	for name, c := range map[string]struct {
		before, after, want func(*desired.Instance)
	}{
		"nothing is missing": {},
		"the pin of a new instance": {
			before: func(in *desired.Instance) { in.State, in.Package = desired.NotInstantiated, "" },
			after:  func(in *desired.Instance) { in.Package = "" },
		},
		"a package and a generation that were lost in an edit": {
			before: func(in *desired.Instance) { in.Package, in.VnfdID, in.Generation = earlier, vnfd2, "2" },
			after: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Levels = vnfd2, "", map[string]int{"web": 1}
			},
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Generation, in.Levels = vnfd2, earlier, "2", map[string]int{"web": 1}
			},
		},
		"the pin that the author left": {
			after: func(in *desired.Instance) { in.VnfdID = vnfd2 },
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Levels = vnfd2, tree2, map[string]int{"web": tree2Levels}
			},
		},
		"the pin that a commit before this one left, and that Jibe has yet to fill in": {
			before: func(in *desired.Instance) { in.VnfdID = vnfd2 },
			after:  func(in *desired.Instance) { in.VnfdID, in.Suspend = vnfd2, true },
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Suspend, in.Levels = vnfd2, tree2, true, map[string]int{"web": tree2Levels}
			},
		},
		"a generation that was filled in for a blue-green change which a container update overtook": {
			after: func(in *desired.Instance) {
				in.Generation, in.Update.Strategy = "1", desired.Container
			},
			want: func(in *desired.Instance) { in.Update.Strategy = desired.Container },
		},
		"the next generation of a blue-green change": {
			before: func(in *desired.Instance) { in.Generation = "4" },
			after: func(in *desired.Instance) {
				in.VnfdID, in.Generation, in.Update.Strategy = vnfd2, "4", desired.BlueGreen
			},
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Generation, in.Update.Strategy = vnfd2, tree2, "5", desired.BlueGreen
				in.Levels = map[string]int{"web": tree2Levels}
			},
		},
		"no generation where nothing of the package changes": {
			before: func(in *desired.Instance) { in.Update.Strategy = desired.BlueGreen },
			after: func(in *desired.Instance) {
				in.Update.Strategy, in.Levels = desired.BlueGreen, map[string]int{"web": 2}
			},
			want: func(in *desired.Instance) {
				in.Update.Strategy, in.Levels = desired.BlueGreen, map[string]int{"web": 2}
			},
		},
		"a generation with a name of the author's": {
			after: func(in *desired.Instance) {
				in.VnfdID, in.Generation, in.Update.Strategy = vnfd2, "green", desired.BlueGreen
			},
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Generation, in.Update.Strategy = vnfd2, tree2, "green", desired.BlueGreen
				in.Levels = map[string]int{"web": tree2Levels}
			},
		},
		"what a container update lies on": {
			after: func(in *desired.Instance) {
				in.VnfdID, in.Update.Strategy = vnfd2, desired.Container
				in.Metadata = map[string]any{"configmap_secret_paths": []any{"Files/kubernetes/c.yaml"}}
			},
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Update.Strategy = vnfd2, tree2, desired.Container
				in.Base, in.Overlays = tree1, []desired.Overlay{{Package: tree2, Paths: []string{"Files/kubernetes/c.yaml"}}}
				in.Metadata = map[string]any{"configmap_secret_paths": []any{"Files/kubernetes/c.yaml"}}
				in.Levels = map[string]int{"web": tree2Levels}
			},
		},
		"an overlay that a request began": {
			after: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base, in.Overlays = vnfd2, "", tree1, []desired.Overlay{{Paths: []string{"a.yaml"}}}
			},
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base, in.Overlays = vnfd2, tree2, tree1, []desired.Overlay{{Package: tree2, Paths: []string{"a.yaml"}}}
				in.Levels = map[string]int{"web": tree2Levels}
			},
		},
		"more maps of the package that runs": {
			before: func(in *desired.Instance) {
				in.Package, in.VnfdID, in.Base, in.Overlays = tree2, vnfd2, tree1, []desired.Overlay{{Package: tree2}}
			},
			after: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base, in.Overlays = vnfd2, "", tree1, []desired.Overlay{{Package: tree2}, {Paths: []string{"a.yaml"}}}
			},
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base = vnfd2, tree2, tree1
				in.Overlays = []desired.Overlay{{Package: tree2}, {Package: tree2, Paths: []string{"a.yaml"}}}
			},
		},
		"a rolling change ends container updates": {
			before: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base, in.Overlays = vnfd2, tree2, tree1, []desired.Overlay{{Package: tree2}}
			},
			after: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base, in.Overlays = vnfd3, tree2, tree1, []desired.Overlay{{Package: tree2}}
			},
			want: func(in *desired.Instance) {
				// Version 2 gave the aspect level 3, version 3 would give it 0.
				in.VnfdID, in.Package, in.Levels = vnfd3, tree3, map[string]int{"web": 3}
			},
		},
		"a generation also where the package is the one that container updates lie on": {
			before: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Base, in.Overlays = vnfd2, tree2, tree1, []desired.Overlay{{Package: tree2}}
				in.Levels = map[string]int{"web": 0}
			},
			after: func(in *desired.Instance) {
				in.Package, in.Base, in.Overlays = tree2, tree1, []desired.Overlay{{Package: tree2}}
				in.Update.Strategy, in.Levels = desired.BlueGreen, map[string]int{"web": 0}
			},
			want: func(in *desired.Instance) {
				in.Generation, in.Update.Strategy, in.Levels = "1", desired.BlueGreen, map[string]int{"web": 0}
			},
		},
		"levels that the change states stay": {
			after: func(in *desired.Instance) { in.VnfdID, in.Levels = vnfd2, map[string]int{"web": 1} },
			want: func(in *desired.Instance) {
				in.VnfdID, in.Package, in.Levels = vnfd2, tree2, map[string]int{"web": 1}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			full, err := newChecker().Complete(t.Context(), &desired.Settings{}, intended(c.before), intended(c.after))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(intended(c.want), full); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			again, err := newChecker().Complete(t.Context(), &desired.Settings{}, intended(c.before), full)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(full, again); diff != "" {
				t.Errorf("what is complete was completed again (-once +twice)\n%s", diff)
			}
		})
	}
}

func TestAGenerationChangesOnlyWithThePackage(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		before, after func(*desired.Instance)
		want          string // of the refusal, "" for none
	}{
		"written": {
			after: func(in *desired.Instance) { in.Generation = "green" },
			want:  "take the line out",
		},
		"changed, in a scaling": {
			before: func(in *desired.Instance) { in.Generation = "2" },
			after:  func(in *desired.Instance) { in.Generation, in.Levels = "3", map[string]int{"web": 1} },
			want:   "generation: 2",
		},
		"the author's, with another package": {
			after: func(in *desired.Instance) {
				in.VnfdID, in.Generation, in.Update.Strategy = vnfd2, "green", desired.BlueGreen
			},
		},
		"nothing runs": {
			before: func(in *desired.Instance) { in.State = desired.NotInstantiated },
			after:  func(in *desired.Instance) { in.Generation = "3" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newChecker().Complete(t.Context(), &desired.Settings{}, intended(c.before), intended(c.after))
			if c.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if refused, ok := errors.AsType[*drivers.RefusedError](err); c.want != "" && (!ok || !strings.Contains(refused.Reason, c.want)) {
				t.Errorf("got %v, want a refusal that says %q", err, c.want)
			}
		})
	}
}

func TestAChangeOfPackageThatHasNoPlaceForWhatRunsIsRefused(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		before, after func(*desired.Instance)
		field         string
	}{
		"a VDU that runs is missing":   {after: func(in *desired.Instance) { in.VnfdID = vnfd3 }, field: "vnfdId"},
		"an aspect that is scaled out": {before: func(in *desired.Instance) { in.Levels = map[string]int{"db": 1} }, after: func(in *desired.Instance) { in.VnfdID, in.Levels = vnfd2, map[string]int{"db": 1} }, field: "levels"},
		"another flavour":              {after: func(in *desired.Instance) { in.Flavour = "big" }, field: "flavour"},
		"a script that isn't there": {after: func(in *desired.Instance) {
			in.VnfdID, in.Update.Coordinate.New = vnfd2, "Scripts/none.sh"
		}, field: "update.coordinate.new"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: "sim", Default: true}}}
			err := newChecker().Check(t.Context(), settings, intended(c.before), intended(c.after))
			var refused *drivers.RefusedError
			if !errors.As(err, &refused) || refused.Field != c.field {
				t.Fatalf("got %v, want a refusal of %s", err, c.field)
			}
			t.Log(refused.Reason)
		})
	}
}

func TestAVNFMayBeEndedBeforeItsChangeOfPackageIsPinned(t *testing.T) {
	t.Parallel()

	settings := &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: "sim", Default: true}}}
	upgraded := intended(func(in *desired.Instance) { in.VnfdID = vnfd2 })
	ended := intended(func(in *desired.Instance) { in.VnfdID, in.State = vnfd2, desired.NotInstantiated })
	for name, before := range map[string]*desired.Instance{
		"in the commit after the upgrade": upgraded,
		"in the commit of the upgrade":    intended(nil),
		"in the commit before this one":   ended,
	} {
		if err := newChecker().Check(t.Context(), settings, before, ended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong := intended(func(in *desired.Instance) { in.Package, in.State = tree3, desired.NotInstantiated })
	var refused *drivers.RefusedError
	if err := newChecker().Check(t.Context(), settings, upgraded, wrong); !errors.As(err, &refused) || refused.Field != "package" {
		t.Errorf("a pin of another vnfdId that the author wrote: %v, want a refusal of package", err)
	}
}
