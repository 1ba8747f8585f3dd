package confine

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	psa "k8s.io/pod-security-admission/api"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// levelOf is the level that the project's pods must keep.
func levelOf(b *drivers.Bounds) psa.Level {
	return psa.Level(cmp.Or(b.PodSecurity, drivers.PodSecurityBaseline))
}

// strictness are the levels, the laxest first.
var strictness = []psa.Level{psa.LevelPrivileged, psa.LevelBaseline, psa.LevelRestricted}

// lower says whether the level, which a namespace names, permits more than the other. The API
// server takes a level that it doesn't know for the strictest.
func lower(level, than psa.Level) bool {
	at := slices.Index(strictness, level)
	return at >= 0 && at < slices.Index(strictness, than)
}

var kindPriority = schema.GroupKind{Group: manifest.GroupScheduling, Kind: "PriorityClass"}

// podSecurity refuses pods that ask for more than the level permits, of whatever kind makes
// them, and volumes that would bring into a pod what it may not ask for itself.
func (c *Checker) podSecurity(o object) []drivers.Violation {
	level := levelOf(o.bounds)
	if level == psa.LevelPrivileged {
		return nil
	}
	if o.gk == manifest.KindVolume && raw.Map(o.content.Object, "spec", "hostPath") != nil {
		return []drivers.Violation{o.violates(drivers.RulePodSecurity, "is a folder of the node (spec.hostPath), which level %s of project %s doesn't permit", level, o.bounds.Project)}
	}
	var all []drivers.Violation
	for _, t := range templates(o) {
		if !slices.Contains(strictness, level) {
			return []drivers.Violation{o.violates(drivers.RulePodSecurity, "makes pods, and project %s has the level %q, which isn't one of %v", o.bounds.Project, level, strictness)}
		}
		var pod corev1.PodTemplateSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(t.content, &pod); err != nil {
			if t.certain {
				all = append(all, o.violates(drivers.RulePodSecurity, "has pods that can't be read, and so not be judged: %v", err))
			}
			continue
		}
		if name := pod.Spec.PriorityClassName; strings.HasPrefix(name, "system-") && !drivers.MatchesAny(o.bounds.ClusterKinds, names(kindPriority)...) {
			all = append(all, o.violates(drivers.RulePodSecurity, "asks for the priority of the cluster's own pods (priorityClassName: %s), for which others' pods are evicted: "+
				"name another class, or let kinds.clusterScoped of project %s name PriorityClass", name, o.bounds.Project))
		}
		for _, result := range c.pods.EvaluatePod(psa.LevelVersion{Level: level, Version: psa.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				all = append(all, o.violates(drivers.RulePodSecurity, "asks for more than level %s of project %s permits: %s",
					level, o.bounds.Project, strings.TrimSuffix(result.ForbiddenReason+" ("+result.ForbiddenDetail+")", " ()")))
			}
		}
	}
	return all
}

// template is what pods are made of.
type template struct {
	content map[string]any
	// certain says that the kind is one that makes pods of it.
	certain bool
}

// templates are what the object's pods are made of. Custom resources are looked at where kinds
// that are built in have their templates; pods that they describe elsewhere, or in words of
// their own, aren't found.
func templates(o object) []template {
	if t := manifest.Template(o.content, o.gk); t != nil {
		return []template{{plain(t), true}}
	}
	_, builtIn := manifest.Kinds[o.gk]
	var all []template
	for _, path := range [][]string{{"template"}, {"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}} {
		t := raw.Map(o.content.Object, path...)
		spec := raw.Map(t, "spec")
		if spec["containers"] != nil || spec["initContainers"] != nil || spec["ephemeralContainers"] != nil {
			all = append(all, template{plain(t), builtIn})
		}
	}
	return all
}

// plain is the template's metadata and spec alone: a Pod has more fields.
func plain(t map[string]any) map[string]any {
	rest := map[string]any{}
	for _, field := range []string{"metadata", "spec"} {
		if t[field] != nil {
			rest[field] = t[field]
		}
	}
	return rest
}
