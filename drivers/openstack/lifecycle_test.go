package openstack_test

import (
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

func TestAVNFLivesAtARealCloud(t *testing.T) {
	vim := lab(t)
	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			if top == expanded { // a whole process does it so
				osenv.NeedFull(t)
			}
			live(t, begin(t, vim, realSpeed), top)
		})
	}
}

// live takes one instance through its life.
func live(t *testing.T, v *vnf, top string) {
	o := v.reach(source(v.id, top, 1))
	first := unitsOf(o, "VDU1")
	if len(first) != 1 || !first[0].Ready || first[0].Metadata["flavor"] != "m1.tiny" || first[0].Metadata["address"] == "" {
		t.Fatalf("after instantiation VDU1 has %+v", first)
	}
	t.Logf("%+v", o.Resources)

	o = v.reach(source(v.id, top, 3))
	three := unitsOf(o, "VDU1")
	if len(three) != 3 || !slices.Contains(names(three), first[0].Resource()) {
		t.Fatalf("after scaling out there are %v, and there was %v", names(three), names(first))
	}

	// Somebody names the victim: one that isn't the newest.
	o = v.reach(condemned(source(v.id, top, 2), map[string]string{first[0].Key: first[0].ID}))
	two := unitsOf(o, "VDU1")
	if len(two) != 2 || slices.Contains(names(two), first[0].Resource()) {
		t.Fatalf("after scaling in without %v there are %v", names(first), names(two))
	}
	for _, u := range two {
		if !slices.Contains(names(three), u.Resource()) {
			t.Errorf("scaling in made %s", u.Name)
		}
	}

	data := unitsOf(o, "VDU2")[0]
	volume := volumeOf(t, o)
	healed := v.reach(condemned(source(v.id, top, 2), map[string]string{data.Key: data.ID}))
	if now := unitsOf(healed, "VDU2"); len(now) != 1 || now[0].Resource() == data.Resource() {
		t.Errorf("the healed VNFC is %v, and was %v", names(now), data.Resource())
	}
	if now := volumeOf(t, healed); now.Incarnation != volume.Incarnation {
		t.Errorf("a heal of the VNFC took its volume: %v, then %v", volume, now)
	}
	if now := names(unitsOf(healed, "VDU1")); !slices.Equal(now, names(two)) {
		t.Errorf("a heal of VDU2 changed VDU1: %v, then %v", names(two), now)
	}

	// A change of image renews one after another.
	j := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	changed, failure := v.operate(source(v.id, top, 2, "img2"), &j)
	if failure != "" {
		t.Fatal(failure)
	}
	for _, u := range changed.Units {
		if slices.ContainsFunc(healed.Units, func(was plan.Unit) bool { return was.ID == u.ID }) || u.Outdated != "" {
			t.Errorf("after the change there is still %+v", u)
		}
	}
	if rest := v.gone(); len(rest.Objects)+len(rest.Units) > 0 {
		t.Errorf("terminating left %+v", rest)
	}
}

func volumeOf(t *testing.T, o plan.Observed) plan.ObservedObject {
	t.Helper()
	i := slices.IndexFunc(o.Objects, func(x plan.ObservedObject) bool { return x.Key == "Volume/VDU2/0/data" })
	if i < 0 {
		t.Fatalf("there is no volume of VDU2 among %+v", o.Objects)
	}
	return o.Objects[i]
}
