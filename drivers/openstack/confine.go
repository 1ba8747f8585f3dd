package openstack

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
)

// harmless are the types of resources that a package may bring unasked: what a VNF is made of in
// the VIM's own project. Types that act on other projects or on the cloud itself (users, flavours,
// quotas, provider networks, volume types), that call or run something elsewhere, or that nobody
// has looked at, a project must permit.
func harmless() []string {
	return []string{
		"OS::Nova::Server", "OS::Nova::ServerGroup", "OS::Nova::KeyPair",
		"OS::Cinder::Volume", "OS::Cinder::VolumeAttachment",
		"OS::Neutron::Net", "OS::Neutron::Subnet", "OS::Neutron::Port", "OS::Neutron::Trunk",
		"OS::Neutron::Router", "OS::Neutron::RouterInterface", "OS::Neutron::FloatingIP", "OS::Neutron::FloatingIPAssociation",
		"OS::Neutron::SecurityGroup", "OS::Neutron::SecurityGroupRule",
		"OS::Octavia::LoadBalancer", "OS::Octavia::Listener", "OS::Octavia::Pool", "OS::Octavia::PoolMember",
		"OS::Octavia::HealthMonitor", "OS::Octavia::L7Policy", "OS::Octavia::L7Rule",
		"OS::Heat::AutoScalingGroup", "OS::Heat::ResourceGroup", "OS::Heat::ScalingPolicy",
		"OS::Heat::RandomString", "OS::Heat::Value", "OS::Heat::None",
		"OS::Heat::SoftwareConfig", "OS::Heat::CloudConfig", "OS::Heat::MultipartMime",
		"OS::Heat::WaitCondition", "OS::Heat::WaitConditionHandle",
	}
}

// Confine implements [drivers.Driver]: every resource type in the templates, nested ones too, must
// be harmless or permitted, and no server may be one that another VNF has. A stack is made in the project of the VIM's credentials and in no
// other; a VIM of OpenStack has neither namespaces nor accounts to act as.
func (d *Driver) Confine(r drivers.Rendering) []drivers.Violation {
	templates, err := templatesOf(r)
	b := r.Source.Bounds
	if err != nil || b == nil {
		return nil // what should not exist brings nothing
	}
	var all []drivers.Violation
	for _, use := range templates.Types() {
		v := drivers.Violation{File: use.File, Object: use.Resource, Rule: drivers.RuleResourceType}
		if use.External && use.Type == typeServer {
			v := v
			v.Rule, v.Detail = drivers.RuleOwner, "is a server that exists already (external_id), which Jibe would stop, heal and delete as a VNFC: leave external_id out"
			all = append(all, v)
		}
		switch {
		case use.Type == "":
			v.Detail = "has a type that only Heat would know: write it out"
		case drivers.MatchesAny(harmless(), use.Type), drivers.MatchesAny(b.ResourceTypes, use.Type):
			continue
		default:
			v.Detail = fmt.Sprintf("is of type %s, which project %s may not bring: let kinds.heat of the project name it, or leave it out", use.Type, b.Project)
		}
		all = append(all, v)
	}
	return all
}
