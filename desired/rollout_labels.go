package desired

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The syntax of keys and values of Kubernetes' labels.
var (
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// The keys of a label selector of Kubernetes.
const (
	matchLabels      = "matchLabels"
	matchExpressions = "matchExpressions"
)

// ByLabels says whether the rollout selects by metadata.
func (s RolloutSelect) ByLabels() bool { return len(s.Labels)+len(s.Expressions) > 0 }

// Labelled says whether an instance's metadata has what the rollout selects by. As in Kubernetes, NotIn takes
// what doesn't have the key at all.
func (s RolloutSelect) Labelled(metadata map[string]any) bool {
	set := make(labels.Set, len(metadata))
	for key, value := range metadata {
		if value != nil {
			set[key] = fmt.Sprint(value)
		}
	}
	for key, values := range s.Labels {
		value, there := set[key]
		if !there || !slices.Contains(values, value) {
			return false
		}
	}
	if len(s.Expressions) == 0 {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.Expressions})
	return err == nil && selector.Matches(set) // the parser has seen that it can be
}

// labelsPart says whether the labels of two rollouts part their instances: what both have to meet can't be met
// at once. Where it can't be told, they don't.
func (s RolloutSelect) labelsPart(other RolloutSelect) bool {
	a, b := s.demands(), other.demands()
	for key, x := range a {
		y, both := b[key]
		if both && x.parts(y) {
			return true
		}
	}
	return false
}

// demand is what a selection demands of the value of one key.
type demand struct {
	among            []string // one of these, where there is a bound
	bound            bool
	never            []string // none of these
	present, without bool     // it must be there, or must not
}

func (d *demand) in(values []string) {
	if d.bound {
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !slices.Contains(d.among, v) })
	}
	d.among, d.bound, d.present = values, true, true
}

// demands are those of each key.
func (s RolloutSelect) demands() map[string]*demand {
	out := map[string]*demand{}
	of := func(key string) *demand {
		if out[key] == nil {
			out[key] = &demand{}
		}
		return out[key]
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		of(key).in(s.Labels[key])
	}
	for _, e := range s.Expressions {
		switch d := of(e.Key); e.Operator {
		case metav1.LabelSelectorOpIn:
			d.in(e.Values)
		case metav1.LabelSelectorOpNotIn:
			d.never = append(d.never, e.Values...)
		case metav1.LabelSelectorOpExists:
			d.present = true
		case metav1.LabelSelectorOpDoesNotExist:
			d.without = true
		}
	}
	return out
}

// parts says whether no value, nor its absence, meets both demands.
func (d *demand) parts(o *demand) bool {
	if d.present && o.without || d.without && o.present {
		return true
	}
	if !d.bound && !o.bound {
		return false
	}
	of, by := d, o
	if !of.bound {
		of, by = o, d
	}
	return !slices.ContainsFunc(of.among, func(v string) bool {
		return (!by.bound || slices.Contains(by.among, v)) && !slices.Contains(by.never, v) && !slices.Contains(of.never, v)
	})
}

// labels reads {tier: edge, region: [tokyo, osaka]}, in which the two keys of a label selector of Kubernetes may
// stand.
func (d *document) labels(n *yaml.Node, s *RolloutSelect) {
	s.Labels = map[string][]string{}
	d.entries(n, "select.labels", func(k, v *yaml.Node) {
		switch where := dotted("select.labels", k.Value); {
		case k.Value == matchExpressions:
			d.list(v, where, func(where string, v *yaml.Node) {
				if e, ok := d.labelExpression(v, where); ok {
					s.Expressions = append(s.Expressions, e)
				}
			})
			if v.Kind == yaml.SequenceNode && len(v.Content) == 0 {
				d.fail(v, "remove it, or name an expression", "%q has no expressions", where)
			}
		case k.Value == matchLabels && v.Kind == yaml.MappingNode:
			d.entries(v, where, func(k, v *yaml.Node) { d.label(k, v, dotted(where, k.Value), s.Labels) })
		default:
			d.label(k, v, where, s.Labels)
		}
	})
}

func (d *document) label(k, v *yaml.Node, where string, out map[string][]string) {
	if !labelKey.MatchString(k.Value) {
		d.fail(k, "write it as a label of Kubernetes: letters, digits, \"-\", \"_\" and \".\", at most 63", "%q can't be a label", clip(k.Value))
	}
	if _, twice := out[k.Value]; twice {
		d.fail(k, "say it once: among the labels, or in matchLabels", "%q stands there twice", clip(k.Value))
	}
	one := func(where string, v *yaml.Node) {
		text := d.text(v, where, 0)
		if !labelValue.MatchString(text) {
			d.fail(v, "write it as a label of Kubernetes: letters, digits, \"-\", \"_\" and \".\", at most 63", "%q can't be a label's value: %q", where, clip(text))
		}
		out[k.Value] = append(out[k.Value], text)
	}
	if v.Kind != yaml.SequenceNode {
		one(where, v)
		return
	}
	if len(v.Content) == 0 {
		d.fail(v, "name the values, of which one suffices", "%q has no values", where)
	}
	d.list(v, where, one)
}

// labelExpression reads {key: region, operator: NotIn, values: [tokyo]}, which Kubernetes' own library judges.
func (d *document) labelExpression(n *yaml.Node, where string) (e metav1.LabelSelectorRequirement, ok bool) {
	before := len(d.problems)
	d.mapping(n, where,
		field{"key", func(_, v *yaml.Node) { e.Key = d.text(v, dotted(where, "key"), 0) }},
		field{"operator", func(_, v *yaml.Node) {
			e.Operator = metav1.LabelSelectorOperator(d.oneOf(v, dotted(where, "operator"), string(metav1.LabelSelectorOpIn), string(metav1.LabelSelectorOpNotIn),
				string(metav1.LabelSelectorOpExists), string(metav1.LabelSelectorOpDoesNotExist)))
		}},
		field{"values", func(_, v *yaml.Node) {
			d.list(v, dotted(where, "values"), func(where string, v *yaml.Node) { e.Values = append(e.Values, d.text(v, where, 0)) })
		}},
	)
	if len(d.problems) > before {
		return e, false
	}
	if _, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}}); err != nil {
		d.fail(n, "write {key: region, operator: NotIn, values: [tokyo]}; the operators are In and NotIn with values, Exists and DoesNotExist without", "%q can't be: %s", where, clip(err.Error()))
		return e, false
	}
	return e, true
}
