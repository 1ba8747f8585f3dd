// Package confine holds the rendered objects of an instance against the bounds of its
// project: kinds, namespaces, the rights that are given away, and Kubernetes' Pod Security
// Standards.
//
// It is pure: it asks no cluster. What only a cluster knows (whether a kind that isn't built
// in has a namespace, what stands in a ClusterRole) it either refuses or leaves to the driver,
// as said at each rule. It judges what the package brings. What programs in its pods, or
// controllers for custom resources, make with the rights that they have, it can't see.
package confine

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// Checker judges renderings. It may be used concurrently.
type Checker struct{ pods policy.Evaluator }

// New makes a checker with all the checks of the Pod Security Standards.
func New() (*Checker, error) {
	pods, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("checks of the Pod Security Standards: %w", err)
	}
	return &Checker{pods}, nil
}

var kindClusterRoleBinding = schema.GroupKind{Group: manifest.GroupRBAC, Kind: "ClusterRoleBinding"}

// Check is how the objects are out of the bounds, in the order of files and objects.
func (c *Checker) Check(form *manifest.Form, b *drivers.Bounds) []drivers.Violation {
	if form == nil || b == nil {
		return nil
	}
	var all []drivers.Violation
	for key, obj := range form.Objects {
		o := object{key: key, file: form.Files[key], gk: obj.GroupVersionKind().GroupKind(), content: obj, bounds: b}
		all = append(all, c.check(o)...)
	}
	slices.SortFunc(all, func(x, y drivers.Violation) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Object, y.Object), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Detail, y.Detail))
	})
	return all
}

// object is one that is judged.
type object struct {
	key, file string
	gk        schema.GroupKind
	content   *unstructured.Unstructured
	bounds    *drivers.Bounds
}

func (o object) violates(rule drivers.Rule, format string, args ...any) drivers.Violation {
	return drivers.Violation{File: o.file, Object: o.key, Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

func (c *Checker) check(o object) []drivers.Violation {
	all := slices.Concat(o.kind(), o.place(), o.owners(), o.marks(), o.addresses())
	all = append(all, c.podSecurity(o)...)
	if !drivers.MatchesAny(o.bounds.ClusterKinds, names(kindClusterRoleBinding)...) {
		all = append(all, o.rights()...)
	}
	return all
}

// names are those under which bounds name a kind: alone, or with its group.
func names(gk schema.GroupKind) []string {
	if gk.Group == "" {
		return []string{gk.Kind}
	}
	return []string{gk.Kind, gk.Kind + "." + gk.Group}
}

// ClusterKindAllowed says whether objects of the kind, which are in no namespace, may be
// brought. It is for who asks the cluster where objects are, too.
func ClusterKindAllowed(b *drivers.Bounds, gk schema.GroupKind) bool {
	if b.ClusterKinds == nil {
		return gk == manifest.KindNamespace
	}
	return drivers.MatchesAny(b.ClusterKinds, names(gk)...)
}

// kind refuses kinds that the project may not bring. What the API server takes and doesn't
// keep brings nothing to the cluster, but is held to the kinds of namespaces. A kind that
// isn't built in counts as one in namespaces here.
func (o object) kind() []drivers.Violation {
	switch {
	case o.file == "": // the inventory, which is Jibe's
	case o.content.GetNamespace() == "":
		if !manifest.InfoOf(o.gk).Posted && !ClusterKindAllowed(o.bounds, o.gk) {
			return []drivers.Violation{o.violates(drivers.RuleKind, "is of a kind in no namespace that project %s may not bring: "+
				"let kinds.clusterScoped of the project name %s, or leave it out", o.bounds.Project, manifest.KindName(o.gk))}
		}
	case o.bounds.Kinds != nil && !drivers.MatchesAny(o.bounds.Kinds, names(o.gk)...):
		return []drivers.Violation{o.violates(drivers.RuleKind, "is of a kind that project %s may not bring: let kinds.namespaced of the project name %s, or leave it out",
			o.bounds.Project, manifest.KindName(o.gk))}
	}
	return nil
}

// NamespaceAllowed says whether the project may write in the namespace. In those that are the
// cluster's own none does.
func NamespaceAllowed(b *drivers.Bounds, namespace string) bool {
	return !desired.ReservedNamespace(namespace) && b.MayUseNamespace(namespace)
}

// place refuses namespaces that aren't the project's, and to make one of the project's less
// guarded than its pods must be.
func (o object) place() []drivers.Violation {
	namespace := o.content.GetNamespace()
	if o.gk == manifest.KindNamespace {
		namespace = o.content.GetName()
	}
	var all []drivers.Violation
	if namespace != "" && !NamespaceAllowed(o.bounds, namespace) {
		all = append(all, o.violates(drivers.RuleNamespace, "is in namespace %s, which project %s may not use", namespace, o.bounds.Project))
	}
	if o.gk != manifest.KindNamespace {
		return all
	}
	if level, given := o.content.GetLabels()[psa.EnforceLevelLabel]; given && lower(psa.Level(level), levelOf(o.bounds)) {
		all = append(all, o.violates(drivers.RulePodSecurity, "has the label %s: %s, which is less than the %s of project %s",
			psa.EnforceLevelLabel, level, levelOf(o.bounds), o.bounds.Project))
	}
	return all
}

// owners refuses references to owners: no package can know one, as they are known by their
// uid. With one, an object would go with what isn't the instance's, or keep it from going, and Jibe
// would take it for something that its owner made. The claims that a StatefulSet makes have those
// of their template.
func (o object) owners() []drivers.Violation {
	metadata := append(raw.Maps(o.content.Object, "spec", "volumeClaimTemplates"), o.content.Object)
	if !slices.ContainsFunc(metadata, func(m map[string]any) bool { return raw.Map(m, "metadata")["ownerReferences"] != nil }) {
		return nil
	}
	return []drivers.Violation{o.violates(drivers.RuleOwner, "has metadata.ownerReferences: leave them out")}
}

// addresses refuses a Service's externalIPs that the project doesn't have: the cluster's nodes send
// the Service what anybody in the cluster sends there, whosever the address is.
func (o object) addresses() []drivers.Violation {
	if o.gk != manifest.KindService {
		return nil
	}
	var all []drivers.Violation
	for _, text := range raw.Strings(raw.Map(o.content.Object, "spec"), "externalIPs") {
		address, err := netip.ParseAddr(text)
		if err != nil || !slices.ContainsFunc(o.bounds.ExternalIPs, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) }) {
			all = append(all, o.violates(drivers.RuleAddress, "has spec.externalIPs %s, which project %s may not take: let externalIPs of the project name it, or leave it out", text, o.bounds.Project))
		}
	}
	return all
}

// boundRoles are the ClusterRoles of every cluster that give rights in one namespace and no
// others. What stands in other ClusterRoles isn't known here.
var boundRoles = []string{"view", "edit", "admin"}

// rights refuses Roles and RoleBindings that give away more than a project has in its
// namespaces: the right to give oneself rights, ClusterRoles that aren't known to be harmless,
// and rights for everybody or for accounts of others' namespaces.
func (o object) rights() []drivers.Violation {
	if o.gk.Group != manifest.GroupRBAC {
		return nil
	}
	switch o.gk.Kind {
	case "Role":
		return o.escalation()
	case "RoleBinding":
		return slices.Concat(o.roleRef(), o.subjects())
	}
	return nil
}

func (o object) escalation() []drivers.Violation {
	var all []drivers.Violation
	for _, rule := range raw.Maps(o.content.Object, "rules") {
		verbs, groups := raw.Strings(rule, "verbs"), raw.Strings(rule, "apiGroups")
		for _, verb := range []string{"escalate", "bind", "impersonate"} {
			if slices.Contains(verbs, verb) {
				all = append(all, o.violates(drivers.RuleRights, "gives the right to %s, with which whoever has it gives himself more: leave it out", verb))
			}
		}
		if slices.Contains(verbs, "*") && (slices.Contains(groups, "*") || slices.Contains(groups, manifest.GroupRBAC)) {
			all = append(all, o.violates(drivers.RuleRights, "gives every right on API groups %v, among them to give oneself more: name the verbs and the groups", groups))
		}
	}
	return all
}

func (o object) roleRef() []drivers.Violation {
	kind, name := raw.String(o.content.Object, "roleRef", "kind"), raw.String(o.content.Object, "roleRef", "name")
	if kind == "Role" || kind == "ClusterRole" && slices.Contains(boundRoles, name) || ClusterKindAllowed(o.bounds, schema.GroupKind{Group: manifest.GroupRBAC, Kind: "ClusterRole"}) {
		return nil
	}
	return []drivers.Violation{o.violates(drivers.RuleRights, "gives the rights of %s %s, of which nothing is known here: bind a Role of the package, or one of the ClusterRoles %s",
		cmp.Or(kind, "a role without a kind"), name, strings.Join(boundRoles, ", "))}
}

func (o object) subjects() []drivers.Violation {
	const accounts = "system:serviceaccounts:"
	var all []drivers.Violation
	for _, s := range raw.Maps(o.content.Object, "subjects") {
		kind, name := raw.String(s, "kind"), raw.String(s, "name")
		namespace := cmp.Or(raw.String(s, "namespace"), o.content.GetNamespace())
		switch of, found := strings.CutPrefix(name, accounts); {
		case kind == "ServiceAccount":
		case kind == "Group" && found:
			namespace = of
		case kind == "User" && strings.HasPrefix(name, "system:serviceaccount:"):
			namespace, _, _ = strings.Cut(strings.TrimPrefix(name, "system:serviceaccount:"), ":")
		case strings.HasPrefix(name, "system:"):
			all = append(all, o.violates(drivers.RuleRights, "gives rights to %s %s, which is nobody of project %s", kind, name, o.bounds.Project))
			continue
		default:
			continue // a person or a group, who has these rights in this namespace
		}
		if !NamespaceAllowed(o.bounds, namespace) {
			all = append(all, o.violates(drivers.RuleRights, "gives rights to %s %s of namespace %s, which isn't one of project %s", kind, name, namespace, o.bounds.Project))
		}
	}
	return all
}
