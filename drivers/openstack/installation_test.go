package openstack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// surveyed are the instances that the driver has objects of.
func (v *vnf) surveyed() []string {
	v.t.Helper()
	ids, err := v.d.Instances(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	return ids
}

func TestStacksOfAnotherInstallationAreNeverTouched(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	id := uuid.NewString()
	of := func(installation string) *vnf {
		o := fast
		o.Installation = installation
		return &vnf{t: t, vim: cloud.VIM(), id: id, speed: speed{kit.Patience, o}, d: connect(t, cloud.VIM(), o)}
	}
	// What an earlier version made names none, and is the instance's by its name.
	former, a, b := of(""), of("a"), of("b")
	src := source(id, grouped, 1)
	before := former.reach(src)
	if ids := a.surveyed(); len(ids) > 0 {
		t.Errorf("what names no installation is surveyed: %v", ids)
	}
	if o := a.reach(src); len(o.Units) != len(before.Units) || o.Units[0].ID != before.Units[0].ID {
		t.Fatalf("units were %v, are %v", before.Units, o.Units)
	}
	// The next update names who made it.
	src = source(id, grouped, 2)
	a.reach(src)
	stacks := func() []string {
		var all []string
		for _, s := range cloud.Stacks() {
			all = append(all, s.ID+" "+s.Status+" "+strings.Join(s.Tags, ","))
		}
		return all
	}
	stood := stacks()
	if len(stood) != 1 || !strings.Contains(stood[0], "jibe-installation:a") {
		t.Fatalf("stacks are %v", stood)
	}

	if ids := a.surveyed(); !slices.Equal(ids, []string{id}) {
		t.Errorf("a surveys %v", ids)
	}
	if ids := b.surveyed(); len(ids) > 0 {
		t.Errorf("b surveys %v", ids)
	}
	if o := a.observe(src); o.Objects[0].Created.IsZero() || !o.Objects[0].Data { // a volume is in it
		t.Errorf("the stack is %+v", o.Objects[0])
	}
	if o := b.observe(src); len(o.Objects)+len(o.Units) != 0 {
		t.Errorf("b sees %v and %v", o.Objects, o.Units)
	}
	b.gone() // nothing of it is b's
	want := b.render(src)
	steps := plan.Next(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))
	_, previewed := b.d.Preview(t.Context(), want, steps...)
	gone := drivers.Absent(src.Instance)
	id1 := strings.Fields(stood[0])[0]
	for what, err := range map[string]error{
		"verify": b.d.Verify(t.Context(), want, steps...), "do": b.d.Do(t.Context(), want, steps...), "preview": previewed,
		"delete": b.d.Do(t.Context(), gone, plan.Step{Action: plan.Delete, Object: "Stack/vnf-" + id, Incarnation: id1}),
	} {
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "another installation of Jibe, a") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := stacks(); !slices.Equal(now, stood) {
		t.Errorf("stacks were %v, are %v", stood, now)
	}
	a.gone()
}

func TestResourceTypesThatActBeyondTheProjectAreRefused(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	violations := func(change func(texts map[string]string), b *drivers.Bounds) (all []string) {
		r, err := d.Render(aVNF(func(_ *desired.Instance, _ *vnfd.Flavour, texts map[string]string) { change(texts) }))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Confine(r.Bounded(b)) {
			if v.Rule != drivers.RuleResourceType && v.Rule != drivers.RuleOwner {
				t.Errorf("%+v", v)
			}
			all = append(all, v.File+" "+v.Object+" "+v.Detail)
		}
		return all
	}
	add := func(file, resource string) func(map[string]string) {
		return func(texts map[string]string) {
			texts[file] = strings.Replace(texts[file], "resources:\n", "resources:\n"+resource+"\n", 1)
		}
	}
	const top, nested = "BaseHOT/simple/top.yaml", "BaseHOT/simple/nested/VDU1.yaml"
	core := &drivers.Bounds{Project: "core"}
	for _, c := range []struct {
		why, file, resource string
		bounds              *drivers.Bounds
		found               string // "" for none
	}{
		{"nothing beyond what a VNF is made of", top, "", core, ""},
		{"nothing bounds it", top, "  evil: {type: OS::Keystone::User}", nil, ""},
		{"a user", top, "  evil: {type: OS::Keystone::User}", core, "OS::Keystone::User, which project core may not bring"},
		{"a flavour, in a nested file", nested, "  evil: {type: OS::Nova::Flavor, properties: {ram: 1, vcpus: 1}}", core, "OS::Nova::Flavor"},
		{"one that is permitted", nested, "  evil: {type: OS::Nova::Flavor, properties: {ram: 1, vcpus: 1}}", &drivers.Bounds{Project: "core", ResourceTypes: []string{"OS::Nova::*"}}, ""},
		{"the members of a group", top, "  evil: {type: OS::Heat::ResourceGroup, properties: {count: 1, resource_def: {type: OS::Neutron::Quota}}}", core, "OS::Neutron::Quota"},
		{"the members of a group of groups", top, "  evil: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Neutron::Quota}}}}}", core, "OS::Neutron::Quota"},
		{"a type that a parameter gives", top, "  evil: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: {get_param: kind}}}}", core, "only Heat would know"},
		{"members that a parameter gives", top, "  evil: {type: OS::Heat::ResourceGroup, properties: {resource_def: {get_param: def}}}", core, "only Heat would know"},
		{"properties that a condition picks", top, "  evil: {type: OS::Heat::ResourceGroup, properties: {if: [always, {resource_def: {type: OS::Keystone::User}}, {}]}}", core, "only Heat would know"},
		{"properties that are merged", nested, "  evil: {type: OS::Heat::AutoScalingGroup, properties: {map_merge: [{resource: {type: OS::Keystone::User}}, {min_size: 1}]}}", core, "only Heat would know"},
		{"members' properties that a condition picks", top, "  evil: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Heat::ResourceGroup, properties: {if: [always, {resource_def: {type: OS::Keystone::User}}, {}]}}}}", core, "only Heat would know"},
		{"a network that exists", nested, "  shared: {type: OS::Neutron::Net, external_id: 3c2f1b1e-5f5e-4a63-8c5f-8d0e5c1a2b3c}", core, ""},
		{"a stack of its own", top, "  evil: {type: OS::Heat::Stack}", core, "OS::Heat::Stack"},
	} {
		found := violations(add(c.file, c.resource), c.bounds)
		switch {
		case c.found == "" && len(found) > 0:
			t.Errorf("%s: %v", c.why, found)
		case c.found != "" && (len(found) != 1 || !strings.HasPrefix(found[0], c.file+" evil ") || !strings.Contains(found[0], c.found)):
			t.Errorf("%s: %v", c.why, found)
		}
	}
	adopted := violations(func(texts map[string]string) {
		texts[nested] = strings.Replace(texts[nested], "type: OS::Nova::Server\n", "type: OS::Nova::Server\n    external_id: 3c2f1b1e-5f5e-4a63-8c5f-8d0e5c1a2b3c\n", 1)
	}, core)
	if len(adopted) != 1 || !strings.Contains(adopted[0], "is a server that exists already") {
		t.Errorf("a server of another VNF: %v", adopted)
	}
	if found := d.Confine(drivers.Absent(&desired.Instance{ID: "x"}).Bounded(core)); len(found) > 0 {
		t.Errorf("what should not exist violates %v", found)
	}
}
