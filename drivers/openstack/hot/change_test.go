package hot_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

const (
	networkTop = `heat_template_version: 2021-04-16
resources:
  NET: {type: OS::Neutron::Net}
  VDU1:
    type: OS::Heat::AutoScalingGroup
    properties: {min_size: 0, max_size: 9, resource: {type: one.yaml, properties: {net: {get_resource: NET}}}}
`
	networkNested = `heat_template_version: 2021-04-16
parameters: {net: {type: string}}
resources: {VDU1: {type: OS::Nova::Server, properties: {flavor: FLAVOUR, networks: [{network: {get_param: net}}]}}}
`
)

// network is a package of one group on a network, under a name and with a flavour.
func network(t *testing.T, name, flavour string) *hot.Rendered {
	t.Helper()
	files := folder(strings.ReplaceAll(networkTop, "NET", name), "nested/one.yaml", strings.Replace(networkNested, "FLAVOUR", flavour, 1))
	r, err := render(files, vdu1(""))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func started(t *testing.T, r *hot.Rendered, count int) *world {
	t.Helper()
	b, err := r.Create(map[string]int{"VDU1": count})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.update(r, b, nil)
	return w
}

func TestASharedNetworkStandsUntilTheLastMemberOfTheGroupIsRenewed(t *testing.T) {
	old, next := network(t, "inner", "small"), network(t, "outer", "small")
	w := started(t, old, 2)
	b, err := next.Update(w.live, hot.Want{})
	if err != nil {
		t.Fatal(err)
	}
	w.update(next, b, nil)
	if at(b.Template, "resources", "inner") == nil || at(b.Template, "resources", "outer") == nil {
		t.Errorf("the networks don't stand side by side: %s", text(t, b.Template))
	}
	// What the new network's id is, only Heat knows: it is asked, and renews one at a time.
	if b, err = w.renew(next, "VDU1", "m1"); b == nil || err != nil {
		t.Fatalf("m1 wasn't renewed: %v %v", b, err)
	}
	if got := at(b.Template, "resources", "m1", "properties", "net"); got != "id of outer" {
		t.Errorf("m1 got the network %v", got)
	}
	if d := digests(w.live, "VDU1"); d["m1"] != next.VDUs["VDU1"].Digest || d["m2"] != old.VDUs["VDU1"].Digest {
		t.Errorf("after the renewal of m1 there are %v", d)
	}
	if b, err = w.renew(next, "VDU1", "m2"); err != nil {
		t.Fatal(err)
	}
	if at(b.Template, "resources", "inner") != nil {
		t.Error("the old network stays for nobody")
	}
	if at(b.Template, "outputs") != nil {
		t.Errorf("Heat is still asked for %v", at(b.Template, "outputs"))
	}
}

func TestARollbackPutsBackTheMembersThatWereRenewedThoughTheGroupNeverChanged(t *testing.T) {
	old, next := network(t, "inner", "small"), network(t, "inner", "large")
	w := started(t, old, 3)
	b, err := next.Update(w.live, hot.Want{})
	if err != nil {
		t.Fatal(err)
	}
	w.update(next, b, nil)
	if _, err := w.renew(next, "VDU1", "m2"); err != nil {
		t.Fatal(err)
	}
	if d := digests(w.live, "VDU1"); d["m2"] != next.VDUs["VDU1"].Digest || d["m1"] != old.VDUs["VDU1"].Digest {
		t.Fatalf("after the renewal of m2 there are %v", d)
	}
	if b, err = old.Update(w.live, hot.Want{}); err != nil {
		t.Fatal(err)
	}
	w.update(old, b, nil)
	if old.ThroughTop(w.live, "VDU1", "m2") {
		t.Error("an update in which the group stays as it is would renew nobody")
	}
	if b, err := w.renew(old, "VDU1", "m2"); b == nil || err != nil || digests(w.live, "VDU1")["m2"] != old.VDUs["VDU1"].Digest {
		t.Errorf("m2 wasn't renewed: %v %v", err, digests(w.live, "VDU1"))
	}
}
