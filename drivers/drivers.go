// Package drivers is the boundary between the reconciler and the infrastructure.
//
// A [Driver] speaks for one VIM. It renders, observes and acts; it never
// decides (that is plan), never stores and never waits. Packages
// below this one never import reconciler, sol or store.
package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Source is everything that a render depends on.
type Source struct {
	// Instance is the intent. Its State is InstantiatedState: the reconciler
	// renders nothing for an instance that should not exist.
	Instance *desired.Instance
	// Package is the tree that Instance.Package pins.
	Package *vnfd.Package
	// Base is the tree that Instance.Base pins, nil where it names none: then that
	// is Package. Overlays are the trees of Instance.Overlays, in their order.
	Base     *vnfd.Package
	Overlays []*vnfd.Package
	// Pinned is what Instance.VDUs pins: VDUs whose definitions are those of another package
	// than Package, by id.
	Pinned map[string]Pinned
	// VDUs are those that this VIM runs, where the instance is spread over several VIMs;
	// nil means all that the driver finds in the package.
	VDUs []string
	// Clear is Instance.Params with what the references to secrets in it stand for, as the
	// VIM needs them; nil where there are none. Secrets are these values. Neither is ever
	// told of, and nothing but requests to the VIM may hold them. Sealed is why they
	// couldn't be resolved.
	Clear   map[string]any
	Secrets []string
	Sealed  error
	// Bounds are those of the instance's project, nil where nothing bounds it. Render doesn't
	// look at them; they may be set on a rendering that is there already ([Rendering.Bounded]).
	Bounds *Bounds
}

// Pinned is where the definition of one VDU comes from.
type Pinned struct {
	Package *vnfd.Package
	// Files are the files of it that count, as [Driver.Definitions] has them; nil means
	// all that it has.
	Files []string
}

// Params are the instance's parameters as the VIM gets them. An error is a
// [*RefusedError].
func (s Source) Params() (map[string]any, error) {
	switch {
	case s.Sealed != nil:
		return nil, &RefusedError{Field: "params", Reason: s.Sealed.Error()}
	case s.Clear != nil:
		return s.Clear, nil
	}
	return s.Instance.Params, nil
}

// Runs says whether the VDU runs at this VIM.
func (s Source) Runs(vdu string) bool { return s.VDUs == nil || slices.Contains(s.VDUs, vdu) }

// Foundation is the package whose manifests apply in full.
func (s Source) Foundation() *vnfd.Package {
	if s.Base != nil {
		return s.Base
	}
	return s.Package
}

// Rendering is what an instance should be at a VIM: what [Driver.Render] made of a source.
// It is a value that is handed to the driver's other methods, so that none of them renders
// again. Nobody but the driver that made it looks into Form. The zero value but for
// Source.Instance is that of an instance that should not exist ([Absent]).
type Rendering struct {
	// Desired is what the planner compares. Whoever plans an operation adds to it what the
	// operation asks for; the driver looks at its objects and groups alone.
	plan.Desired
	// Source is what it was rendered from. Package is nil where nothing should exist.
	Source Source
	// Form is the driver's own: the objects themselves, as it sends them.
	Form any
	// Unmatched are the VDUs for which the package has nothing that the driver could run. What runs goes on in spite of
	// them; nothing begins that would have units of them.
	Unmatched []UnmatchedVDU
	// Former is what stood before the change that is asked for, as the same driver rendered
	// it; nil where that isn't known. It saves a driver questions to its VIM. Where nothing should
	// exist, a driver tells by it which objects of earlier versions of Jibe are the instance's.
	Former *Rendering
}

// Bounded is the same rendering in other bounds.
func (r Rendering) Bounded(b *Bounds) Rendering {
	r.Source.Bounds = b
	return r
}

// Absent is the rendering of an instance that should not exist: its driver finds what is
// left of it by the instance's id.
func Absent(in *desired.Instance) Rendering { return Rendering{Source: Source{Instance: in}} }

// UnmatchedVDU is a VDU of an instance's flavour that has no group of units in its rendering.
type UnmatchedVDU struct {
	VDU string
	// Reason says what is missing, and how to supply it.
	Reason string
	// External reports that another object of the package makes the units: the VNF may run so, but the number of units
	// isn't Jibe's.
	External bool
}

// Driver speaks for one VIM. Its methods may be called concurrently for
// different instances, never for one. A driver embeds [Defaults] for what it doesn't offer.
type Driver interface {
	// Render turns intent into objects and groups of units. It MUST be pure: the
	// same source gives the same result, with no I/O beyond reading Package.Files.
	// A rendering is never altered afterwards, so it may be used as long as the source
	// is the same. Intent that this VIM can never honour is a [*RefusedError] that names it.
	Render(src Source) (Rendering, error)

	// Observe reports every object and unit of the instance regardless of who made it. It
	// MUST NOT return a partial view: when it can't see, it returns an error that
	// wraps [ErrUnavailable], an [*UnlistedError] where only one kind is out of sight. Where the driver is a [Watcher] it answers from a
	// cache, at no cost to the VIM. An instance unknown at the VIM is no error. An object
	// whose content has drifted from the rendering is reported with a Digest that differs.
	Observe(ctx context.Context, r Rendering) (plan.Observed, error)

	// Verify asks the VIM, changing nothing, whether it would accept the steps.
	// A refusal is a [*RefusedError].
	Verify(ctx context.Context, r Rendering, steps ...plan.Step) error

	// Do starts the steps, in order where order matters, and returns without
	// waiting for their effect. Doing them twice MUST be the same as once. It MAY
	// fold a batch into one call. A step that the VIM will never accept is a
	// [*RefusedError]; anything else may be tried again. After an error, some of
	// the steps may have been started.
	Do(ctx context.Context, r Rendering, steps ...plan.Step) error

	// Examine looks closely at what the steps, which plan.Compute found due while
	// no operation was open, are to repair. It MUST change nothing at the VIM; unlike
	// Observe it may ask it. An object that shows no difference after all (somebody
	// manages a field that has the right value) gets no deviation, and Observe MUST
	// NOT report it as differing again until it has changed. Deviations are in the
	// order of objects and fields. Values of secrets are never in them.
	Examine(ctx context.Context, r Rendering, steps ...plan.Step) ([]Deviation, error)

	// Preview reports field by field what the steps would change, in the order of steps and
	// fields, changing nothing at the VIM. Of an object that would be made anew it reports
	// every field; one that would go is reported as a whole. Values of secrets are never in it.
	Preview(ctx context.Context, r Rendering, steps ...plan.Step) ([]Deviation, error)

	// Explain is the last thing that the VIM noted of the object or unit under the
	// key (a Kubernetes event: reason, message, age), or "". It may ask the VIM, and
	// is only called when an operation fails.
	Explain(ctx context.Context, r Rendering, key string) string

	// Change says whether the way from before to after, both running, can be taken
	// with after's update strategy, as far as that can be told without the VIM. It is pure,
	// as Render is. A refusal is a [*RefusedError] that names what stands in the way.
	Change(before, after Source) error

	// Definitions are the files that after's package contributes, in order (for
	// Kubernetes, the parameter lcm-kubernetes-def-files): those that are listed, and
	// what of before's must be carried over so that no VDU and no shared object is
	// lost only because a request didn't list it. The paths of files that were
	// renamed are the new ones. nil means that there is no such list. It is pure, as
	// Render is.
	Definitions(before, after Source, listed []string) ([]string, error)

	// Workloads are, by VDU id, the objects of a rendering that units belong to, as the VIM is
	// sent them. Values of secrets are never in them. They are pure, as Render is. nil
	// means that this VIM has no object for each VDU.
	Workloads(r Rendering) map[string]any

	// Confine is how the rendering is out of its bounds ([Source.Bounds]), in the order of its
	// files; nothing where there are none. It is pure, as Render is. What only the VIM can tell
	// (which kinds are in no namespace) Verify and Do MUST refuse by the same bounds. Do and
	// Verify MUST write as the account of the bounds, also where nothing should exist.
	Confine(r Rendering) []Violation

	// Access is the content of files with which hooks reach the VIM, by the environment
	// variable under which a hook finds each one's path ("KUBECONFIG"). It holds
	// credentials. nil means that there are none.
	Access() (map[string][]byte, error)
}

// Defaults are the answers of a driver that can't tell more than the steps do, and at
// whose VIM the package of a running VNF can't be changed. It is for embedding.
type Defaults struct{}

// Examine gives the reason of each step.
func (Defaults) Examine(_ context.Context, _ Rendering, steps ...plan.Step) ([]Deviation, error) {
	var found []Deviation
	for _, s := range steps {
		found = append(found, Deviation{Object: s.Object, Have: s.Reason, Want: "as rendered"})
	}
	return found, nil
}

// Preview reports nothing beyond the steps.
func (Defaults) Preview(context.Context, Rendering, ...plan.Step) ([]Deviation, error) {
	return nil, nil
}

// Explain knows nothing more.
func (Defaults) Explain(context.Context, Rendering, string) string { return "" }

// Change refuses.
func (Defaults) Change(Source, Source) error {
	return &RefusedError{Field: "vnfdId", Reason: "the package of a VNF that runs on this type of VIM can't be changed; set state: notInstantiated first"}
}

// Definitions are none: there are no lists of files.
func (Defaults) Definitions(Source, Source, []string) ([]string, error) { return nil, nil }

// Workloads are none: no VDU has an object of its own.
func (Defaults) Workloads(Rendering) map[string]any { return nil }

// Confine has nothing to refuse.
func (Defaults) Confine(Rendering) []Violation { return nil }

// Access is nothing.
func (Defaults) Access() (map[string][]byte, error) { return nil, nil }

// Watcher is implemented by drivers that learn of changes by themselves. One that is made
// of others ([github.com/jibe-vnfm/jibe/drivers/multi]) isn't: theirs tell.
type Watcher interface {
	// Watch calls changed with the id of an instance whenever something of it
	// moved, until ctx ends. It returns nil then, and an error only where
	// watching can never succeed; a VIM that is away is retried inside. changed
	// returns at once and may be called from several goroutines.
	Watch(ctx context.Context, changed func(instance string)) error
}

// Identifier is implemented by drivers whose VIM can say which one it is.
type Identifier interface {
	// Identity is the same for as long as the VIM exists, whatever address it is reached at
	// and whatever it is called: the uid of a cluster's namespace kube-system, the id of the
	// project in Keystone. It is cheap to ask, may be a minute old, and MUST NOT be older than what Observe
	// reports: what was built at another VIM isn't to be repaired here. "" means that it can't be told, as the credentials may not see it.
	// An error is [ErrUnavailable] where asking again may help.
	Identity(ctx context.Context) (string, error)
}

// Surveyor is implemented by drivers that can list what their VIM has of all instances.
type Surveyor interface {
	// Instances returns the ids of the VNF instances of which the VIM has objects that this installation provably made, in
	// any order. What other installations made MUST NOT be among them, nor what names none. Where the driver is a
	// [Watcher] the answer comes from its cache. An error wraps [ErrUnavailable]: something can't be seen.
	Instances(ctx context.Context) ([]string, error)
}

// Deviation is one way in which what runs differs from what was rendered.
type Deviation struct {
	Object string `json:"object"` // its key
	// Field is the path in the object, "spec.template.spec.containers[name=web].image";
	// "" where the object as a whole is missing, dead or should not exist.
	Field string `json:"field,omitempty"`
	// Want and Have are values as JSON, shortened; "" is a value that is absent.
	Want string `json:"want,omitempty"`
	Have string `json:"have,omitempty"`
	// By is who changed it, as the VIM tells (a field manager); "" where it doesn't.
	By string `json:"by,omitempty"`
	// At is when, as the VIM tells; zero where it doesn't.
	At time.Time `json:"at,omitzero"`
}

// String is the deviation as people read it.
func (d Deviation) String() string {
	said := d.Object
	if d.Field != "" {
		said += " " + d.Field
	}
	said += " is " + cmp.Or(d.Have, "absent") + ", should be " + cmp.Or(d.Want, "absent")
	if d.By != "" {
		said += ", changed by " + d.By
	}
	return said
}

// VIM is a connection with its credentials resolved. It is never logged.
type VIM struct {
	// Name is that of the file under vims/, or the key in vimConnectionInfo.
	Name string
	// Type is the ETSI vimType, "ETSINFV.KUBERNETES.V_1".
	Type     string
	Endpoint string
	// Requested connections are those of an instance, which a caller has named; others stand in
	// vims/, where administrators write.
	Requested bool
	// InCluster is the cluster in which Jibe runs: Token is that of its own pod, and no hook's.
	InCluster bool
	// Namespaces are those of Kubernetes that Jibe may use there, sorted, where the credentials have rights in these
	// alone; none means all.
	Namespaces []string
	// CACert is PEM; empty means the system's roots.
	CACert []byte
	// Insecure switches off the check of the server's certificate: a vims/ file asks for
	// it, or a request where the operator allows that.
	Insecure bool
	// Kubeconfig, if set, replaces everything below and Endpoint and CACert.
	Kubeconfig []byte
	Token      string
	Username   string
	Password   string
	ClientCert []byte
	ClientKey  []byte
	// Region, Project and the domains are OpenStack's, by name or id. Project is not
	// needed with an application credential, which replaces Username and Password.
	Region, Project             string
	ProjectDomain, UserDomain   string
	ApplicationCredential       string // its id
	ApplicationCredentialSecret string
}

// ErrUnavailable is returned when the VIM can't be reached, refuses the
// credentials, throttles or fails by itself. The same call may succeed later.
var ErrUnavailable = errors.New("VIM unavailable")

// RefusedError is returned when the VIM or the driver will never accept what is
// asked for, however often it is tried.
type RefusedError struct {
	// Field is the one of vnf.yaml that is at fault ("levels", "update.strategy"), Object
	// the key of the object at the VIM, or the file of the package; at most one is set.
	Field, Object string
	Reason        string // what is wrong and what to do about it
	// Conflict says that the request would be right if something else didn't rule
	// over the object now (an autoscaler): HTTP 409 and not 400.
	Conflict bool
	// MayPass says that somebody else refused (a webhook, a quota), who may think otherwise
	// when asked again: it is believed only when it stands.
	MayPass bool
	// Owner is the VNF instance that has the object, where that is why: it is refused only
	// as long as that one doesn't give it up.
	Owner string
	// Awaited says that something is missing at the VIM beside the instance's own objects (a
	// namespace, the definition of a kind), and that the driver's watch tells of the
	// instance when it comes.
	Awaited bool
}

func (e *RefusedError) Error() string {
	if e.Subject() == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Subject(), e.Reason)
}

// Subject is the field or the object that the refusal is about, "" where it names none.
func (e *RefusedError) Subject() string { return cmp.Or(e.Field, e.Object) }

// About puts before err what it is about, unless err is a refusal that names its subject
// itself. It is nil where err is.
func About(what string, err error) error {
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) && refused.Subject() != "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
