package manifest

// Domain is that of every label and annotation that Jibe writes.
const Domain = "vnf.jibe.dev"

const (
	// LabelInstance carries the VNF instance id: on every object, in workload
	// selectors, on pods and on claims. It is what ownership is decided by.
	LabelInstance = Domain + "/instance"
	// LabelVDU carries the VDU id: on the workload that a VDU maps to and its pods.
	LabelVDU = Domain + "/vdu"
	// LabelGeneration names the generation, of which a blue-green change has two. It is
	// in selectors from the first instantiation, as selectors can't be changed.
	LabelGeneration = Domain + "/generation"

	// AnnotationDigest carries plan.Object.Digest of the render that stands there.
	AnnotationDigest = Domain + "/digest"
	// AnnotationKinds, on the inventory, lists the kinds of the instance's objects
	// that are not looked for anyway: "Kind.group,Kind.group".
	AnnotationKinds = Domain + "/contains-group-kinds"
	// AnnotationKey carries the key of an object whose kind turned out to be
	// cluster-scoped only when it met the API server.
	AnnotationKey = Domain + "/key"
)

// firstGeneration is the value of LabelGeneration until a blue-green change.
const firstGeneration = "0"

// FieldManager owns, in managedFields, what Jibe applies.
const FieldManager = "jibe"

// InventoryName is the name of the ConfigMap that lists unusual kinds.
func InventoryName(instance string) string { return "jibe-" + instance }
