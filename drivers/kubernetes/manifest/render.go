package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// ParamNamespace is the additionalParam that puts everything into one namespace.
const ParamNamespace = "namespace"

// Form is an instance as objects.
type Form struct {
	// Desired is what the planner compares.
	Desired plan.Desired
	// Objects are those that the API server is sent, by key. Nobody alters them.
	Objects map[string]*unstructured.Unstructured
	// Counted are the keys of objects whose spec.replicas is Jibe's to say.
	Counted map[string]bool
	// LeftOut are, by the key of a Service, the labels that its author selects by and that were
	// left out of its selector, as no workload has them with that value.
	LeftOut map[string][]string
	// Unmatched are the VDUs that have no workload among the objects.
	Unmatched []drivers.UnmatchedVDU
	// Files are the files of packages that the objects stand in, by key; of the inventory
	// there is none.
	Files map[string]string
}

// Renderer makes of packages the objects of instances. It may be used concurrently.
type Renderer struct {
	digestKey    []byte
	installation Installation
	// read are the manifests of packages, by all that they depend on.
	read *lru.Cache[string, []manifest]
}

// For is the renderer with the objects of an installation.
func (r *Renderer) For(i Installation) *Renderer {
	r.installation = i
	return r
}

// packagesRead bounds how many packages a [Renderer] remembers; one that isn't remembered
// is read again.
const packagesRead = 4096

// NewRenderer makes a renderer, whose digests are keyed with the key: whoever may read a
// digest but not the object could otherwise test guesses at it.
func NewRenderer(digestKey []byte) *Renderer {
	read, err := lru.New[string, []manifest](packagesRead)
	if err != nil {
		panic(err) // the size isn't positive
	}
	return &Renderer{digestKey: digestKey, read: read}
}

// Render reads the package's manifests and makes the instance's objects of them:
// in its namespace, labelled, with selectors that no other instance's pods
// match, and with the number of units that the VNFD gives for its levels. It is pure but
// for what it remembers of packages that it has read. Intent that no cluster can honour is
// a [*drivers.RefusedError].
func (r *Renderer) Render(src drivers.Source) (*Form, error) {
	in := src.Instance
	if src.Package == nil || src.Package.VNFD == nil {
		return nil, errors.New("there is no package to render")
	}
	if errs := validation.IsValidLabelValue(in.ID); in.ID == "" || len(errs) > 0 {
		return nil, &drivers.RefusedError{Field: "id", Reason: fmt.Sprintf("%q can't be a Kubernetes label: use letters, digits, '-', '_' and '.', at most 63", in.ID)}
	}
	manifests, err := r.manifests(src)
	if err != nil {
		return nil, err
	}
	if manifests, err = placedHere(src, manifests); err != nil {
		return nil, err
	}
	namespace, err := namespaceOf(in.Params, manifests)
	if err != nil {
		return nil, err
	}
	scopes := definedScopes(manifests)
	if err := refuseDuplicates(manifests, scopes, namespace); err != nil {
		return nil, err
	}
	if manifests, err = r.generation(src, manifests); err != nil {
		return nil, err
	}
	vdus, lacking, err := matchVDUs(src, manifests)
	if err != nil {
		return nil, err
	}

	ordered := slices.Clone(manifests)
	slices.SortStableFunc(ordered, func(a, b manifest) int { return int(InfoOf(a.gk).Class) - int(InfoOf(b.gk).Class) })
	stopped := in.State == desired.Stopped
	if stopped {
		for _, vdu := range vdus {
			vdu.count, vdu.free = 0, false
		}
	}
	mk, err := r.newMaker(in, ordered, scopes, namespace, vdus)
	if err != nil {
		return nil, err
	}

	made := &Form{
		Desired:   plan.Desired{Condemned: in.Condemned, Generation: generationOf(in.Generation)},
		Objects:   make(map[string]*unstructured.Unstructured, len(ordered)),
		Counted:   map[string]bool{},
		LeftOut:   map[string][]string{},
		Unmatched: lacking,
		Files:     make(map[string]string, len(ordered)),
	}
	var unusual []string
	for _, m := range ordered {
		if stopped && endsWhenStopped(m.gk) {
			continue
		}
		if err := made.addManifest(r, mk, in.ID, m, vdus[m.obj], stopped); err != nil {
			return nil, err
		}
		if info := InfoOf(m.gk); !info.Always && !info.Shared && !info.Posted {
			unusual = append(unusual, KindName(m.gk))
		}
	}
	if err := made.identifyUnits(r.digestKey, in.ID); err != nil {
		return nil, err
	}
	if len(unusual) > 0 {
		if err := made.addInventory(r, in.ID, namespace, unusual); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// addManifest adds the object that a manifest becomes. vdu is the one whose workload it is, nil for none.
func (r *Form) addManifest(by *Renderer, mk *maker, instance string, m manifest, vdu *mapped, stopped bool) error {
	obj, err := mk.object(m, m.obj, vdu)
	if err != nil {
		return err
	}
	if stopped {
		stop(obj, m.gk, vdu != nil)
	}
	written := obj
	if m.written != nil {
		if written, err = mk.object(m, m.written, vdu); err != nil {
			return err
		}
	}

	key := Key(m.gk, obj.GetNamespace(), cmp.Or(obj.GetName(), m.name))
	if vdu != nil {
		r.Desired.Groups = append(r.Desired.Groups, plan.Group{VDU: vdu.id, Owner: key, Count: vdu.count, Free: vdu.free})
		r.Counted[key] = IsScalable(m.gk) && !vdu.free
	}
	r.Files[key] = m.file
	if left := leftOut(m.obj, obj); len(left) > 0 {
		r.LeftOut[key] = left
	}
	wave := 1
	if InfoOf(m.gk).Class == ClassFirst {
		wave = 0
	}
	return r.add(by, instance, key, wave, obj, identity{written, m.stale})
}

// identifyUnits gives each group the digest of what its units are made of: the workload, what
// its pods need, and its autoscaler.
func (r *Form) identifyUnits(digestKey []byte, instance string) error {
	digests, scalers := map[id]string{}, map[string]string{}
	for _, x := range r.Desired.Objects {
		u := r.Objects[x.Key]
		m := manifest{gk: u.GroupVersionKind().GroupKind(), name: u.GetName(), obj: u}
		digests[m.id()] = x.Digest
		if m.gk == KindAutoscaler {
			scalers[scaledBy(m)] += m.id().String() + x.Digest
		}
	}
	for i, g := range r.Desired.Groups {
		u := r.Objects[g.Owner]
		gk := u.GroupVersionKind().GroupKind()
		made := map[string]string{"": digests[id{gk, u.GetName()}], KindAutoscaler.Kind: scalers[gk.Kind+"/"+u.GetName()]}
		for which := range needs(podSpec(u, gk)) {
			made[which.String()] = digests[which] // "" for what isn't the package's
		}
		content, err := json.Marshal(made)
		if err != nil {
			return fmt.Errorf("digest of VDU %s: %w", g.VDU, err)
		}
		r.Desired.Groups[i].Digest = seal(digestKey, instance, content)
	}
	return nil
}

// identity is what an object is identified by.
type identity struct {
	// written is the object, but for the names of what it refers to in a later generation.
	written *unstructured.Unstructured
	stale   []byte
}

func (r *Form) add(by *Renderer, instance, key string, wave int, obj *unstructured.Unstructured, of identity) error {
	gk := obj.GroupVersionKind().GroupKind()
	digest, err := digestOf(by.digestKey, instance, of.written)
	if err != nil {
		return fmt.Errorf("digest of %s: %w", key, err)
	}
	immutable, err := immutableOf(by.digestKey, instance, of.written, gk, of.stale)
	if err != nil {
		return fmt.Errorf("immutable fields of %s: %w", key, err)
	}
	posted := InfoOf(gk).Posted
	if !posted {
		Annotate(obj, AnnotationDigest, digest)
		if by.installation != "" {
			// After the digest, which is that of what it was before there were installations.
			if err := merge(obj.Object, map[string]string{LabelInstallation: string(by.installation)}, "metadata", "labels"); err != nil {
				return fmt.Errorf("label %s: %w", key, err)
			}
		}
	}
	if immutable != "" {
		Annotate(obj, AnnotationImmutable, immutable)
	}
	r.Objects[key] = obj
	r.Desired.Objects = append(r.Desired.Objects, plan.Object{
		Key: key, Wave: wave, Digest: digest, Once: gk == KindJob, Directs: gk == KindService && len(Selector(obj)) > 0, Posted: posted,
	})
	return nil
}

// addInventory adds the ConfigMap from which a process that has never seen the package
// learns what kinds to look for. It is made before and goes after what it lists.
func (r *Form) addInventory(by *Renderer, instance, namespace string, kinds []string) error {
	slices.Sort(kinds)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": InventoryName(instance), "namespace": namespace,
			"labels":      map[string]any{LabelInstance: instance},
			"annotations": map[string]any{AnnotationKinds: strings.Join(slices.Compact(kinds), ",")},
		},
	}}
	key := Key(KindConfigMap, namespace, InventoryName(instance))
	if err := r.add(by, instance, key, 1, u, identity{written: u}); err != nil {
		return err
	}
	list := r.Desired.Objects
	at := slices.IndexFunc(list, func(x plan.Object) bool { return x.Wave == 1 })
	inventory := list[len(list)-1]
	r.Desired.Objects = slices.Insert(list[:len(list)-1], at, inventory)
	return nil
}

// namespaceOf is the one namespace of the instance: the parameter's, else that
// on which all manifests agree.
func namespaceOf(params map[string]any, manifests []manifest) (string, error) {
	if value, given := params[ParamNamespace]; given && value != nil && value != "" {
		s, ok := value.(string)
		if errs := validation.IsDNS1123Label(s); !ok || len(errs) > 0 {
			return "", &drivers.RefusedError{Field: "params." + ParamNamespace, Reason: fmt.Sprintf("%v is not the name of a namespace: %s", value, strings.Join(errs, ", "))}
		}
		return s, nil
	}
	scopes := definedScopes(manifests)
	namespace, where := "", ""
	for _, m := range manifests {
		if cluster, known := scopes[m.gk]; known && cluster || !known && InfoOf(m.gk).Cluster {
			continue
		}
		ns := namespaceOrDefault(m.obj.GetNamespace())
		if namespace != "" && ns != namespace {
			return "", &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf(
				"is in namespace %s but %s in %s: let them agree, or give params.%s", ns, where, namespace, ParamNamespace)}
		}
		namespace, where = ns, m.where
	}
	if namespace == "" {
		namespace = "default"
	}
	return namespace, nil
}

// placedHere leaves out the workloads of VDUs that run at another VIM, and the autoscalers that
// rule over them. Objects that belong to no VDU stay.
func placedHere(src drivers.Source, manifests []manifest) ([]manifest, error) {
	if src.VDUs == nil {
		return manifests, nil
	}
	flavour, err := flavourOf(src)
	if err != nil {
		return nil, err
	}
	elsewhere := map[string]bool{} // "Kind/name"
	for _, vdu := range flavour.VDUs {
		found, of := false, targetOf(src.Instance, &vdu)
		for _, m := range manifests {
			if of.isWorkload(m) {
				found = true
				elsewhere[m.gk.Kind+"/"+m.name] = !src.Runs(vdu.ID)
			}
		}
		if !found && src.Runs(vdu.ID) && of.wrong != "" {
			return nil, &drivers.RefusedError{Field: "params." + ParamMapping, Reason: of.wrong}
		}
		if !found && src.Runs(vdu.ID) {
			return nil, &drivers.RefusedError{Field: "placement", Reason: fmt.Sprintf(
				"VDU %s is to run at a Kubernetes VIM, but no manifest has a %s: place it at another VIM, list its manifest in params.%s, or name its workload by params.%s",
				vdu.ID, of, paramFiles, ParamMapping)}
		}
	}
	return slices.DeleteFunc(slices.Clone(manifests), func(m manifest) bool {
		if m.gk == KindAutoscaler {
			return elsewhere[scaledBy(m)]
		}
		return IsVDUKind(m.gk) && elsewhere[m.gk.Kind+"/"+m.name]
	}), nil
}

// definedScopes says of custom resources whose definition is in the package whether they
// are cluster-scoped.
func definedScopes(manifests []manifest) map[schema.GroupKind]bool {
	var scopes map[schema.GroupKind]bool
	for _, m := range manifests {
		if m.gk != KindCRD {
			continue
		}
		if scopes == nil {
			scopes = map[schema.GroupKind]bool{}
		}
		gk, cluster := Definition(m.obj)
		scopes[gk] = cluster
	}
	return scopes
}

// Definition reads what a CustomResourceDefinition defines.
func Definition(u *unstructured.Unstructured) (gk schema.GroupKind, cluster bool) {
	gk.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	gk.Kind, _, _ = unstructured.NestedString(u.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(u.Object, "spec", "scope")
	return gk, scope == "Cluster"
}

// mapped is the VDU that a manifest stands for.
type mapped struct {
	id    string
	count int
	free  bool
}

// matchVDUs maps VDUs to workloads: properties.name is metadata.name, unless the instance maps them otherwise. A
// workload without a VDU is as the package wants it; VDUs without a workload are listed, and the rest is made.
func matchVDUs(src drivers.Source, manifests []manifest) (map[*unstructured.Unstructured]*mapped, []drivers.UnmatchedVDU, error) {
	in := src.Instance
	flavour, err := flavourOf(src)
	if err != nil {
		return nil, nil, err
	}
	levels, err := flavour.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return nil, nil, refusedLevel(err)
	}
	lacking := unknownVDUs(in, flavour)
	autoscaled := autoscaled(manifests)
	found := map[*unstructured.Unstructured]*mapped{}
	for i := range flavour.VDUs {
		vdu := &flavour.VDUs[i]
		if !src.Runs(vdu.ID) {
			continue
		}
		prior, target := "", targetOf(in, vdu)
		for _, m := range manifests {
			if !IsVDUKind(m.gk) || !target.is(m) {
				continue
			}
			if prior != "" {
				return nil, nil, &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf("VDU %s (name %s) also matches %s: one workload a VDU", vdu.ID, target.name, prior)}
			}
			if other := found[m.obj]; other != nil {
				return nil, nil, &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf("VDUs %s and %s both have the name %s", other.id, vdu.ID, target.name)}
			}
			prior = m.where
			one, err := size(flavour, vdu, in.InstantiationLevel, levels, m, autoscaled)
			if err != nil {
				return nil, nil, err
			}
			found[m.obj] = one
		}
		if prior == "" {
			lacking = append(lacking, target.unmatched(vdu, manifests))
		}
	}
	return found, lacking, nil
}

// flavourOf is the deployment flavour of the instance.
func flavourOf(src drivers.Source) (*vnfd.Flavour, error) {
	named := cmp.Or(src.Instance.Flavour, src.Package.VNFD.DefaultFlavour)
	flavour, ok := src.Package.VNFD.Flavour(named)
	if !ok {
		return nil, &drivers.RefusedError{Field: "flavour", Reason: fmt.Sprintf("the VNFD has no deployment flavour %q", named)}
	}
	return flavour, nil
}

// autoscaled are the workloads, "Kind/name", that the package's autoscalers rule over.
func autoscaled(manifests []manifest) map[string]bool {
	autoscaled := map[string]bool{}
	for _, m := range manifests {
		if m.gk == KindAutoscaler {
			autoscaled[scaledBy(m)] = true
		}
	}
	return autoscaled
}

// scaledBy is the workload, "Kind/name", over which the autoscaler rules.
func scaledBy(m manifest) string {
	kind, _, _ := unstructured.NestedString(m.obj.Object, "spec", "scaleTargetRef", "kind")
	name, _, _ := unstructured.NestedString(m.obj.Object, "spec", "scaleTargetRef", "name")
	return kind + "/" + name
}

// size is how many units the VDU has, and whose decision that is.
func size(flavour *vnfd.Flavour, vdu *vnfd.VDU, instLevel string, levels map[string]int, m manifest, autoscaled map[string]bool) (*mapped, error) {
	if errs := validation.IsValidLabelValue(vdu.ID); len(errs) > 0 {
		return nil, &drivers.RefusedError{Object: "VDU " + vdu.ID, Reason: "its id can't be a Kubernetes label: " + strings.Join(errs, ", ")}
	}
	initial, err := flavour.ScaleLevels(instLevel, nil)
	if err != nil {
		return nil, refusedLevel(err)
	}
	fixed := ""
	ruled := autoscaled[m.gk.Kind+"/"+m.obj.GetName()]
	switch {
	case m.gk == KindDaemonSet:
		fixed = "is a DaemonSet, which runs on every node"
	case m.gk == KindPod:
		fixed = "is a bare Pod, of which there is one"
	case ruled:
		fixed = "is scaled by a HorizontalPodAutoscaler"
	}
	if fixed != "" {
		for aspect := range vdu.Deltas {
			if levels[aspect] != initial[aspect] {
				return nil, &drivers.RefusedError{Field: "levels." + aspect, Conflict: ruled, Reason: fmt.Sprintf(
					"aspect %s can't be scaled: its VDU %s (%s %s) %s; leave it at level %d",
					aspect, vdu.ID, m.gk.Kind, m.name, fixed, initial[aspect])}
			}
		}
		if m.gk == KindPod {
			return &mapped{id: vdu.ID, count: 1}, nil
		}
		return &mapped{id: vdu.ID, free: true}, nil
	}
	count, err := flavour.Count(vdu, instLevel, levels)
	if err != nil {
		return nil, refusedLevel(err)
	}
	return &mapped{id: vdu.ID, count: count}, nil
}

func refusedLevel(err error) error {
	field := "levels"
	if errors.Is(err, vnfd.ErrUnknownLevel) {
		field = "instantiationLevel"
	}
	return &drivers.RefusedError{Field: field, Reason: err.Error()}
}
