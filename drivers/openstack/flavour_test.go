package openstack_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The large flavour has a balancer and no store.
const balancer = `
  VDU3:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: [nfv, VDU, VDU3, computeFlavourId]}
      image: {get_param: [nfv, VDU, VDU3, vcImageId]}
      networks: [{port: {get_resource: CP3}}]
  CP3:
    type: OS::Neutron::Port
    properties: {network: {get_param: [nfv, CP, CP3, network]}}
`

// twoFlavours are the same instance in two flavours of one package.
func twoFlavours(id, top string) (small, large drivers.Source) {
	small = source(id, top, 2)
	files := small.Package.Files.(fstest.MapFS)
	files["BaseHOT/large/top.yaml"] = &fstest.MapFile{Data: []byte(top + balancer)}
	files["BaseHOT/large/nested/VDU1.yaml"] = &fstest.MapFile{Data: []byte(front)}
	d := small.Package.VNFD
	d.Flavours = append(d.Flavours, vnfd.Flavour{ID: "large",
		VDUs: []vnfd.VDU{{ID: "VDU1", Name: "VDU1", Initial: 3, Max: 5}, {ID: "VDU3", Name: "VDU3", Initial: 1, Max: 1}}})
	large = small
	in := *small.Instance
	in.Flavour, in.Levels = "large", nil
	vdu := map[string]any{"computeFlavourId": "m1.tiny", "vcImageId": "img1"}
	in.Params = map[string]any{"nfv": map[string]any{
		"VDU": map[string]any{"VDU1": vdu, "VDU3": vdu},
		"CP":  map[string]any{"CP1": map[string]any{"network": "net0"}, "CP3": map[string]any{"network": "net0"}},
	}}
	large.Instance = &in
	return small, large
}

func TestAChangeOfFlavourKeepsTheServersThatBothHave(t *testing.T) {
	t.Parallel()

	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			v := start(t, fakeCloud(t))
			small, large := twoFlavours(v.id, top)
			if err := v.d.Change(small, large); err != nil {
				t.Fatal(err)
			}
			before := v.reach(small)
			j := plan.Journal{Operation: "CHANGE_FLAVOUR", Granted: true}
			m := plan.MovesOf(v.render(large).Desired, before, j)
			if len(m.Leaving) != 1 || !slices.ContainsFunc(unitsOf(before, "VDU2"), func(u plan.Unit) bool { return u.ID == m.Leaving[0] }) || len(m.Coming) != 2 {
				t.Errorf("the grant is asked for %+v", m)
			}
			o, failure := v.operate(large, &j)
			if failure != "" {
				t.Fatal(failure)
			}
			if n := len(unitsOf(o, "VDU1")); n != 3 || len(unitsOf(o, "VDU2")) != 0 || len(unitsOf(o, "VDU3")) != 1 {
				t.Errorf("the large flavour has %v", o.Units)
			}
			for _, u := range unitsOf(before, "VDU1") {
				if !slices.Contains(names(unitsOf(o, "VDU1")), u.Resource()) {
					t.Errorf("server %s of VDU1 was lost", u.Resource())
				}
			}
			// Back, as a rollback goes.
			j = plan.Journal{Operation: "CHANGE_FLAVOUR", Granted: true, Rollback: true}
			if o, failure = v.operate(small, &j); failure != "" {
				t.Fatal(failure)
			}
			if len(unitsOf(o, "VDU1")) != 2 || len(unitsOf(o, "VDU2")) != 1 || len(unitsOf(o, "VDU3")) != 0 {
				t.Errorf("after the rollback there is %v", o.Units)
			}
		})
	}
}
