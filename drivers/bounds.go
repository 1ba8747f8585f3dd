package drivers

import (
	"net/netip"
	"path"
	"slices"
)

// Bounds are what a project lets its packages bring to a VIM, and the account that writes it
// there. It is a value that nobody alters. Patterns are those of [path.Match]; one that is
// malformed permits nothing, and forbids everything.
//
// A rendering whose [Source.Bounds] is nil isn't bounded.
type Bounds struct {
	// Project is the name of the project, for messages.
	Project string
	// Namespaces are patterns of the namespaces of Kubernetes that may be written in; nil
	// means any. Forbidden are patterns of those that never may, whatever Namespaces says.
	// A driver adds those that are nobody's but the cluster's own.
	Namespaces, Forbidden []string
	// Kinds are patterns of the kinds of objects in namespaces, of any group ("Deployment") or
	// with their group ("Deployment.apps"); nil means all. ClusterKinds are those of objects in no namespace; nil means those that
	// the driver takes to be harmless (Namespace). Where ClusterRoleBinding is among them,
	// the rights that Roles and RoleBindings give aren't judged either.
	Kinds, ClusterKinds []string
	// PodSecurity is the level of Kubernetes' Pod Security Standards that pods must keep:
	// "privileged", "baseline" or "restricted". "" is "baseline"; a level that isn't known
	// permits no pod.
	PodSecurity string
	// ExternalIPs are the networks of the addresses that Services of Kubernetes may take for
	// themselves; nil means none.
	ExternalIPs []netip.Prefix
	// ResourceTypes are patterns of the types of resources in Heat templates, besides those
	// that the driver takes to be harmless.
	ResourceTypes []string
	// Account is who writes at the VIM in place of Jibe's own credentials: a service account
	// of Kubernetes, "namespace/name". "" means Jibe's own. VIMs that have no such accounts
	// don't heed it.
	Account string
}

// The levels of Kubernetes' Pod Security Standards.
const (
	PodSecurityPrivileged = "privileged"
	PodSecurityBaseline   = "baseline"
	PodSecurityRestricted = "restricted"
)

// MayUseNamespace says whether objects may be written in the namespace.
func (b *Bounds) MayUseNamespace(name string) bool {
	forbids := func(pattern string) bool {
		matches, err := path.Match(pattern, name)
		return matches || err != nil
	}
	return !slices.ContainsFunc(b.Forbidden, forbids) && (b.Namespaces == nil || MatchesAny(b.Namespaces, name))
}

// MatchesAny says whether one of the patterns matches one of the names.
func MatchesAny(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			matches, err := path.Match(pattern, name)
			return matches && err == nil
		})
	})
}

// Rule is what a violation is against.
type Rule string

// The rules.
const (
	RuleKind         Rule = "kind"         // objects of the kind may not be brought
	RuleNamespace    Rule = "namespace"    // nothing may be written, or referred to, there
	RulePodSecurity  Rule = "podSecurity"  // a pod asks for more than the level permits
	RuleRights       Rule = "rights"       // a Role or RoleBinding gives more than the project has
	RuleOwner        Rule = "owner"        // an object claims to belong to another one
	RuleAddress      Rule = "address"      // a Service takes an address that may be another's
	RuleResourceType Rule = "resourceType" // resources of the type may not be brought
	RuleVIM          Rule = "vim"          // the VIM isn't used there, whatever the project allows
)

// Violation is one way in which a rendering is out of bounds.
type Violation struct {
	// File is the one of the package that the object stands in, "" where that isn't known.
	File string
	// Object is its key, or what it is called in the file.
	Object string
	Rule   Rule
	// Detail is what is wrong, as a sentence's end: "asks for the host's network".
	Detail string
}

// String is the violation as people read it.
func (v Violation) String() string {
	said := v.Object + " " + v.Detail + " (" + string(v.Rule) + ")"
	if v.File != "" {
		said = v.File + ": " + said
	}
	return said
}
