package desired

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// dnsLabel is what Kubernetes lets be the name of a namespace, and dnsName that of an account.
var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsName  = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$`)
	// kindPattern is "Kind" or "Kind.group", with "*" for any characters.
	kindPattern = regexp.MustCompile(`^[A-Za-z0-9*]+(?:\.[a-z0-9*-]+)*$`)
	// heatPattern is the type of a resource in a Heat template.
	heatPattern = regexp.MustCompile(`^[A-Za-z0-9*]+(?:::[A-Za-z0-9*]+)*$`)
	// namePattern is that of a VIM, a package repository or a namespace.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9_.*-]{0,62}$`)
)

// ParseProject reads a projects/<name>.yaml strictly; its name is the file's. The error is an
// [*InvalidError] with everything that is wrong.
func ParseProject(file string, data []byte) (*Project, error) {
	d := &document{file: file}
	name, ok := strings.CutSuffix(path.Base(file), ".yaml")
	switch {
	case !ok:
		d.fail(nil, "rename it to "+ProjectDir+"/<name>.yaml, or keep it elsewhere", "%s/ holds a file for each project, and this can't be one", ProjectDir)
		return nil, d.err()
	case !settingName.MatchString(name):
		d.fail(nil, "rename the file: letters, digits, '-', '_' and single dots", "%q can't name a project", clip(name))
	}
	p := newProject(name)
	n := d.root(data)
	if n == nil {
		if err := d.err(); err != nil {
			return nil, err
		}
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	}
	d.mapping(n, "",
		field{"description", func(_, v *yaml.Node) { p.Description = d.text(v, "description", maxDescription) }},
		field{"instances", func(_, v *yaml.Node) {
			p.Instances = d.patterns(v, "instances", d.folder)
			if name == DefaultProject {
				d.fail(v, "remove it, and name the folders of the other projects", "the project %q has whatever folder no other project claims, and can't claim any", DefaultProject)
			}
		}},
		field{"repositories", func(_, v *yaml.Node) { p.Repositories = d.patterns(v, "repositories", d.settingPattern) }},
		field{"vims", func(_, v *yaml.Node) { p.VIMs = d.patterns(v, "vims", d.settingPattern) }},
		field{"namespaces", func(_, v *yaml.Node) { p.Namespaces = d.patterns(v, "namespaces", d.namespacePattern) }},
		field{"kinds", func(_, v *yaml.Node) {
			d.mapping(v, "kinds",
				field{"namespaced", func(_, v *yaml.Node) { p.Kinds.Namespaced = d.patterns(v, "kinds.namespaced", d.kind) }},
				field{"clusterScoped", func(_, v *yaml.Node) { p.Kinds.ClusterScoped = d.patterns(v, "kinds.clusterScoped", d.kind) }},
				field{"heat", func(_, v *yaml.Node) { p.Kinds.Heat = d.patterns(v, "kinds.heat", d.heatType) }},
			)
		}},
		field{"externalIPs", func(_, v *yaml.Node) {
			d.list(v, "externalIPs", func(where string, v *yaml.Node) { p.ExternalIPs = append(p.ExternalIPs, d.network(v, where)) })
		}},
		field{"podSecurity", func(_, v *yaml.Node) {
			p.PodSecurity = d.oneOf(v, "podSecurity", PodSecurityPrivileged, PodSecurityBaseline, PodSecurityRestricted)
		}},
		field{"hooks", func(_, v *yaml.Node) { p.Hooks = d.boolean(v, "hooks") }},
		field{"quotas", func(_, v *yaml.Node) {
			d.mapping(v, "quotas",
				field{"instances", func(_, v *yaml.Node) { p.Quotas.Instances = d.bound(v, "quotas.instances") }},
				field{"vnfcs", func(_, v *yaml.Node) { p.Quotas.VNFCs = d.bound(v, "quotas.vnfcs") }},
			)
		}},
		field{"secrets", func(_, v *yaml.Node) { p.Secrets = d.patterns(v, "secrets", d.secretPrefix) }},
		field{"write", func(_, v *yaml.Node) { p.Write = d.writes(v) }},
		field{"impersonate", func(_, v *yaml.Node) {
			d.mapping(v, "impersonate",
				field{"serviceAccount", func(_, v *yaml.Node) { p.Impersonate = d.serviceAccount(v, "impersonate.serviceAccount") }},
			)
			if len(d.problems) == 0 && p.Impersonate.IsZero() {
				d.fail(v, "add serviceAccount: <namespace>/<name>, or remove it", "\"impersonate\" names no account")
			}
		}},
	)
	if err := d.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// patterns reads a list of patterns; it is never nil.
func (d *document) patterns(n *yaml.Node, where string, read func(v *yaml.Node, where string) string) []string {
	list := []string{}
	d.list(n, where, func(where string, v *yaml.Node) { list = append(list, read(v, where)) })
	return list
}

// folder reads the pattern of a folder below instances/.
func (d *document) folder(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 1024)
	if len(d.problems) > before {
		return ""
	}
	s = strings.TrimSuffix(strings.TrimSuffix(s, "/"), "/**")
	for _, segment := range strings.Split(s, "/") {
		switch {
		case segment == "", segment == ".", segment == "..", strings.ContainsAny(segment, "\x00\n\\"):
			d.fail(n, "write the folder's path below instances/, such as site-a or teams/*/lab", "%q can't be a folder: %q", where, clip(s))
			return ""
		case strings.Contains(segment, "**"):
			d.fail(n, "leave it out: a folder is claimed with all that is below it", "%q has \"**\"", where)
			return ""
		case strings.ContainsAny(segment, "?[]{}!"):
			d.fail(n, "only \"*\" stands for other characters", "%q can't be a pattern: %q", where, clip(s))
			return ""
		}
	}
	if first, _, _ := strings.Cut(s, "/"); first == "instances" {
		d.fail(n, "leave \"instances/\" out", "%q is below instances/ already", where)
	}
	return s
}

// settingPattern reads the pattern of names of VIMs or package repositories.
func (d *document) settingPattern(n *yaml.Node, where string) string {
	return d.matching(n, where, namePattern, "write a name, in which \"*\" stands for any characters: lab, site-a-*")
}

func (d *document) namespacePattern(n *yaml.Node, where string) string {
	s := d.matching(n, where, namePattern, "write a name, in which \"*\" stands for any characters: amf, site-a-*")
	if ReservedNamespace(s) {
		d.fail(n, "remove it", "%q: no project can have the namespace %s, in which Kubernetes itself runs", where, s)
	}
	return s
}

func (d *document) kind(n *yaml.Node, where string) string {
	return d.matching(n, where, kindPattern, "write a kind, with its group where it has one: Deployment.apps, NetworkAttachmentDefinition.*, \"*\"")
}

func (d *document) heatType(n *yaml.Node, where string) string {
	return d.matching(n, where, heatPattern, "write a type of resource, such as OS::Nova::Flavor or OS::Designate::*")
}

func (d *document) matching(n *yaml.Node, where string, pattern *regexp.Regexp, remedy string) string {
	before := len(d.problems)
	s := d.text(n, where, maxName)
	if len(d.problems) == before && !pattern.MatchString(s) {
		d.fail(n, remedy, "%q can't be %q", where, clip(s))
	}
	return s
}

// network reads an address, or all of a network.
func (d *document) network(n *yaml.Node, where string) netip.Prefix {
	before := len(d.problems)
	s := d.text(n, where, maxName)
	network, err := netip.ParsePrefix(s)
	if address, no := netip.ParseAddr(s); no == nil && address.Zone() == "" {
		network, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	if err != nil && len(d.problems) == before {
		d.fail(n, "write an address or a network: 203.0.113.7, 2001:db8::/32", "%q can't be %q", where, clip(s))
	}
	return network.Masked()
}

// bound reads a whole number above zero.
func (d *document) bound(n *yaml.Node, where string) int {
	var most int32
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&most) != nil || most < 1 {
		d.fail(n, fmt.Sprintf("write a whole number from 1 to %d; without it there is no bound", math.MaxInt32), "%q can't be %s", where, described(n))
	}
	return int(most)
}

func (d *document) serviceAccount(n *yaml.Node, where string) ServiceAccount {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) > before {
		return ServiceAccount{}
	}
	ns, name, _ := strings.Cut(s, "/")
	if !dnsLabel.MatchString(ns) || !dnsName.MatchString(name) {
		d.fail(n, "write it as <namespace>/<name>", "%q can't name a service account: %q", where, clip(s))
		return ServiceAccount{}
	}
	return ServiceAccount{Namespace: ns, Name: name}
}
