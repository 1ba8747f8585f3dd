package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

const (
	// maxDeviations bounds how many fields are reported of one object that drifted.
	maxDeviations = 20
	// maxValue is the number of characters after which a value is cut.
	maxValue = 120
	// byWebhook stands for what changes Jibe's own requests on their way.
	byWebhook = "an admission webhook"
	// redacted stands for the value of a secret.
	redacted = "(hidden)"
	// lastApplied holds the whole object once more.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// difference compares an object as it is with what it would be if it were
// applied. Only fields of the render, and those that Jibe has applied before,
// count: whatever else an apply would bring is somebody else's doing.
type difference struct {
	installation manifest.Installation
	gk           schema.GroupKind
	key          string
	names        desired.SecretNames
	entries      []managedSet // who manages the live object, but for Jibe
	most         int          // after how many fields the others are only counted
	// only, if set, leaves out the fields that are in it.
	only  *fieldpath.Set
	found []drivers.Deviation
	more  int
}

// managedSet is an entry of managedFields, read.
type managedSet struct {
	manager string
	at      time.Time
	fields  *fieldpath.Set
}

// fieldState is one field: what it is now, what it would be and what was rendered
// (nil is absent), the shape that all managers give it, and what Jibe owns of it.
type fieldState struct {
	live, dry, mine any
	isMine          bool // it was rendered, be it as null
	shape, owned    *fieldpath.Set
	isOwned         bool
	whole           bool // it is managed as a whole, whatever is in it
}

// differing lists the deviations of live from dry, the answer to the apply of
// rendered: at most as many as are asked for.
func differing(i manifest.Installation, names desired.SecretNames, gk schema.GroupKind, key string, live, dry, rendered *unstructured.Unstructured, most int) []drivers.Deviation {
	d := &difference{installation: i, names: names, gk: gk, key: key, most: most}
	s := d.begin(live, rendered)
	s.dry = dry.Object
	for _, m := range dry.GetManagedFields() {
		s.shape = s.shape.Union(fields.Of(m))
	}
	d.fields(nil, s)
	return d.result()
}

// disowned lists the deviations of live from what was rendered, as far as they are known
// without asking the API server: those of the fields that aren't Jibe's.
func disowned(i manifest.Installation, names desired.SecretNames, gk schema.GroupKind, key string, live, rendered *unstructured.Unstructured) []drivers.Deviation {
	d := &difference{installation: i, names: names, gk: gk, key: key, most: maxDeviations}
	s := d.begin(live, rendered)
	s.dry, d.only = rendered.Object, s.owned
	s.owned, s.isOwned = &fieldpath.Set{}, false
	d.fields(nil, s)
	return d.result()
}

func (d *difference) begin(live, rendered *unstructured.Unstructured) fieldState {
	s := fieldState{live: live.Object, mine: rendered.Object, shape: &fieldpath.Set{}, owned: &fieldpath.Set{}}
	for _, m := range live.GetManagedFields() {
		set := fields.Of(m)
		s.shape = s.shape.Union(set)
		if fields.IsOurs(d.installation, m) {
			s.owned, s.isOwned = s.owned.Union(set), true
			continue
		}
		by := managedSet{manager: m.Manager, fields: set}
		if m.Manager == manifest.FieldManager || m.Manager == d.installation.Manager() {
			by.manager = byWebhook
		}
		if m.Time != nil {
			by.at = m.Time.UTC()
		}
		d.entries = append(d.entries, by)
	}
	return s
}

// noContent are the fields that only the server writes.
var noContent = []string{
	"apiVersion", "kind", "status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation",
	"metadata.uid", "metadata.creationTimestamp", "metadata.selfLink", "metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds", "metadata.name", "metadata.namespace",
}

func isContent(path fieldpath.Path) bool {
	if len(path) == 3 && fields.FieldName(path[2]) == manifest.LabelInstallation {
		return false // it is put on, and not rendered for
	}
	return len(path) > 2 || !slices.Contains(noContent, fields.String(path))
}

// fields compares what holds other fields by name.
func (d *difference) fields(path fieldpath.Path, s fieldState) {
	live, _ := s.live.(map[string]any)
	dry, _ := s.dry.(map[string]any)
	mine, _ := s.mine.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(merged(live, dry))) {
		field := fieldpath.FieldNameElement(name)
		if at := slices.Concat(path, fieldpath.Path{field}); isContent(at) {
			part := s.sub(field, live[name], dry[name], mine[name])
			_, part.isMine = mine[name]
			d.value(at, part)
		}
	}
}

// sub is a part of the field.
func (s fieldState) sub(field fieldpath.PathElement, live, dry, mine any) fieldState {
	part := fieldState{live: live, dry: dry, mine: mine}
	var has bool
	part.shape, has = fields.Part(s.shape, field)
	part.whole = has && part.shape.Empty()
	part.owned, has = fields.Part(s.owned, field)
	part.isOwned = has || s.isOwned && s.owned.Empty()
	return part
}

func (d *difference) value(path fieldpath.Path, s fieldState) {
	if !s.isMine && !s.isOwned || reflect.DeepEqual(s.live, s.dry) {
		return
	}
	live, liveIsMap := s.live.(map[string]any)
	dry, dryIsMap := s.dry.(map[string]any)
	if (liveIsMap || s.live == nil) && (dryIsMap || s.dry == nil) && len(live)+len(dry) > 0 && !s.whole {
		d.fields(path, s)
		return
	}
	liveList, liveIsList := s.live.([]any)
	dryList, dryIsList := s.dry.([]any)
	if (liveIsList || s.live == nil) && (dryIsList || s.dry == nil) && fields.IsKeyed(s.shape) {
		mine, _ := s.mine.([]any)
		d.items(path, s, liveList, dryList, mine)
		return
	}
	d.report(path, s)
}

// items compares what holds other fields as a list.
func (d *difference) items(path fieldpath.Path, s fieldState, live, dry, mine []any) {
	liveBy, names := fields.Items(s.shape, live)
	dryBy, more := fields.Items(s.shape, dry)
	mineBy, _ := fields.Items(s.shape, mine)
	names = append(names, more...)
	slices.SortFunc(names, fields.Compare)
	for _, name := range slices.CompactFunc(names, fieldpath.PathElement.Equals) {
		at := slices.Concat(path, fieldpath.Path{name})
		liveItem, _ := liveBy.Get(name)
		dryItem, _ := dryBy.Get(name)
		mineItem, isMine := mineBy.Get(name)
		part := s.sub(name, liveItem, dryItem, mineItem)
		part.isMine = isMine
		if part.live != nil && part.dry != nil {
			d.value(at, part)
		} else if part.mine != nil || part.isOwned {
			d.report(at, part) // the item as a whole
		}
	}
}

func (d *difference) report(path fieldpath.Path, s fieldState) {
	if d.only != nil && fields.In(path, d.only) {
		return
	}
	if len(d.found) == d.most {
		d.more++
		return
	}
	want := s.dry
	if _, isItem := s.mine.(map[string]any); isItem && want != nil {
		want = s.mine // without the defaults
	}
	x := drivers.Deviation{Object: d.key, Field: fields.String(path), Want: d.shown(path, want), Have: d.shown(path, s.live)}
	if want == nil && s.isMine {
		x.Want = "null" // which isn't the same as absent where the field has a default
	}
	x.By, x.At = d.by(path)
	d.found = append(d.found, x)
}

// result is what was found; the last deviation counts those that had no room.
func (d *difference) result() []drivers.Deviation {
	if d.more > 0 {
		d.found[d.most-1] = drivers.Deviation{
			Object: d.key, Field: "…", Want: "as rendered", Have: fmt.Sprintf("%d more fields that differ", d.more+1),
		}
	}
	return d.found
}

// shown is the value as JSON, cut and without secrets.
func (d *difference) shown(path fieldpath.Path, value any) string {
	if value == nil {
		return ""
	}
	if d.gk.Group == manifest.GroupCore && d.gk.Kind == "Secret" {
		first, last := fields.FieldName(path[0]), fields.FieldName(path[len(path)-1])
		if first == "data" || first == "stringData" || last == lastApplied || last == "annotations" {
			return redacted
		}
	}
	return clip(raw.JSON(redact(d.names, d.gk, path, value)))
}

func clip(s string) string {
	if r := []rune(s); len(r) > maxValue {
		return string(r[:maxValue-1]) + "…"
	}
	return s
}

// by names those who manage the field, the latest first, and says since when.
func (d *difference) by(path fieldpath.Path) (string, time.Time) {
	var who []managedSet
	for _, m := range d.entries {
		if fields.In(path, m.fields) {
			who = append(who, m)
		}
	}
	if len(who) == 0 {
		return "", time.Time{}
	}
	slices.SortStableFunc(who, func(a, b managedSet) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.manager, b.manager)) })
	var names []string
	for _, m := range who {
		if !slices.Contains(names, m.manager) {
			names = append(names, m.manager)
		}
	}
	return strings.Join(names, ", "), who[0].at
}

func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}
