package manifest

// Domain is that of every label and annotation that Jibe writes.
const Domain = "vnf.jibe.dev"

const (
	// LabelInstance carries the VNF instance id: on every object, in workload
	// selectors, on pods and on claims. With LabelInstallation it is what ownership is
	// decided by: other installations may have the same instances.
	LabelInstance = Domain + "/instance"
	// LabelInstallation carries the id of the installation of Jibe that made the object. It
	// is on what is applied alone, and on claims: never in selectors or on what makes pods,
	// as it came later than objects that run, and must not make their owners replace pods.
	LabelInstallation = Domain + "/installation"
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

// FieldManager owned, in managedFields, what Jibe applied before it knew installations.
const FieldManager = "jibe"

// Installation is the id of an installation of Jibe: of one data directory. "" is none: a driver
// that isn't told one makes no difference between installations.
type Installation string

// Manager owns, in managedFields, what the installation applies.
func (i Installation) Manager() string {
	if i == "" {
		return FieldManager
	}
	return FieldManager + "-" + string(i)
}

// InventoryName is the name of the ConfigMap that lists unusual kinds.
func InventoryName(instance string) string { return "jibe-" + instance }
