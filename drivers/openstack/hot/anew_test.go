package hot_test

import (
	"fmt"
	"strings"
	"testing"
)

// shared is a package whose VNFCs are made of the shared resources and properties that are given.
const sharedTop = `heat_template_version: 2021-04-16
parameters:
  secret: {type: string, hidden: true, default: word}
  size: {type: number, default: 1}
resources:
RESOURCES
  VDU1:
    type: OS::Heat::AutoScalingGroup
    properties: {min_size: 0, max_size: 9, resource: {type: one.yaml, properties: {given: GIVEN}}}
`

const sharedNested = `heat_template_version: 2021-04-16
parameters: {given: {type: json}}
resources: {VDU1: {type: OS::Nova::Server, properties: {flavor: small, user_data: {get_param: given}}}}
`

func TestSharedResourcesThatHeatWouldMakeAnewForAllVNFCsAtOnceAreNamed(t *testing.T) {
	const (
		config    = "  boot: {type: OS::Heat::SoftwareConfig, properties: {config: %s}}"
		network   = "  net: {type: OS::Neutron::Net, properties: {%s}}"
		subnet    = network + "\n  sub: {type: OS::Neutron::Subnet, properties: {network: {get_resource: net}, cidr: 10.0.0.0/24%s}}"
		group     = "  near: {type: OS::Nova::ServerGroup, properties: {policies: [%s]}}"
		byID      = "{get_resource: boot}"
		parameter = "  boot: {type: OS::Heat::SoftwareConfig, properties: {config: {get_param: %s}}}"
	)
	for _, c := range []struct {
		name                string
		before, after, uses string
		want                string
	}{
		{"the same", fmt.Sprintf(config, "a"), fmt.Sprintf(config, "a"), byID, ""},
		{"another content", fmt.Sprintf(config, "a"), fmt.Sprintf(config, "b"), byID, "boot VDU1 its property config"},
		{"another content of what nobody uses", fmt.Sprintf(config, "a"), fmt.Sprintf(config, "b"), "[]", ""},
		{"another name", fmt.Sprintf(config, "a"), strings.Replace(fmt.Sprintf(config, "b"), "boot", "boot2", 1), byID, ""},
		{"a property more", "  boot: {type: OS::Heat::SoftwareConfig}", fmt.Sprintf(config, "b"), byID, "boot VDU1 its property config"},
		{"a parameter of the same value", fmt.Sprintf(config, "word"), fmt.Sprintf(parameter, "secret"), byID, ""},
		{"a parameter of another value", fmt.Sprintf(config, "sesame"), fmt.Sprintf(parameter, "secret"), byID, "boot VDU1 its property config"},
		{"another type", fmt.Sprintf(config, "a"), "  boot: {type: OS::Heat::CloudConfig}", byID, "boot VDU1 its type"},
		{"what changes in place", fmt.Sprintf(network, "name: a"), fmt.Sprintf(network, "name: b"), "{get_resource: net}", ""},
		{"an attribute of what changes in place", fmt.Sprintf(network, "name: a"), fmt.Sprintf(network, "name: b"), "{get_attr: [net, name]}", "net VDU1 its property name"},
		{"what never changes in place", fmt.Sprintf(group, "affinity"), fmt.Sprintf(group, "anti-affinity"), "{get_resource: near}", "near VDU1 its property policies"},
		{"what stands on what is made anew", fmt.Sprintf(subnet, "tenant_id: a", ""), fmt.Sprintf(subnet, "tenant_id: b", ""), "{get_resource: sub}",
			"sub VDU1 its property network, as net is another"},
		{"what stands on what changes in place", fmt.Sprintf(subnet, "name: a", ""), fmt.Sprintf(subnet, "name: b", ", name: b"), "{get_resource: sub}", ""},
		{"within another function", fmt.Sprintf(config, "a"), fmt.Sprintf(config, "b"), "{list_join: ['', [{get_resource: boot}]]}", "boot VDU1 its property config"},
		{"another condition", fmt.Sprintf(config, "a"), strings.Replace(fmt.Sprintf(config, "a"), "properties", "condition: {not: true}, properties", 1), byID, "boot VDU1 its condition"},
	} {
		t.Run(c.name, func(t *testing.T) {
			version := func(resources string) string {
				return strings.ReplaceAll(strings.ReplaceAll(sharedTop, "RESOURCES", resources), "GIVEN", c.uses)
			}
			before, err := render(folder(version(c.before), "nested/one.yaml", sharedNested), vdu1(""))
			if err != nil {
				t.Fatal(err)
			}
			// The next version need not refer to it any more: those who run do.
			after, err := render(folder(strings.ReplaceAll(version(c.after), c.uses, "[]"), "nested/one.yaml", sharedNested), vdu1(""))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if a := before.MadeAnew(after, []string{"VDU1"}); a != nil {
				got = a.Resource + " " + a.VDU + " " + a.What
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if a := before.MadeAnew(after, nil); a != nil {
				t.Errorf("%v, though no VNFC runs", a)
			}
		})
	}
}
