// Package hot knows Heat's templates: it reads those of a package (BaseHOT), finds the VDUs in
// them, fills in parameters, marks each server with the instance and the VDU that it belongs to,
// and composes the bodies of stack requests out of that and of the live stack. It is pure: it
// talks to nobody, and the same input gives the same bytes.
//
// A VDU stands in the templates in one of two [Shape]s. A composed body holds the definitions of
// VDUs with their parameters filled in, and nested files under names that contain a digest. So a
// live template says by itself what its members are made of, and the old definition of a VDU can
// stay, untouched by new parameters, until a renewal replaces it.
package hot

import "encoding/json"

// The keys that every server gets in its metadata.
const (
	MetaInstance   = "jibe_instance"
	MetaVDU        = "jibe_vdu"
	MetaDigest     = "jibe_digest" // [Definition.Digest]
	MetaGeneration = "jibe_generation"
)

// Shape is the way in which the templates hold a VDU.
type Shape string

const (
	// Grouped: an OS::Heat::AutoScalingGroup in the top template, whose members are made
	// of a nested file with one server. A member's name is what Heat calls it.
	Grouped Shape = "group"
	// Expanded: a server, or a resource made of a nested file with one server, in the top
	// template. It stands there once for each VNFC, "<name>-<index>", with all that
	// belongs to that server alone. A member's name is its index.
	Expanded Shape = "expanded"
)

// Definition is one VDU in the templates.
type Definition struct {
	VDU   string
	Shape Shape
	// Resource is the name of the group (Grouped), or of the resource that stands for the
	// VNFC without its index (Expanded).
	Resource string
	// Server is the name of the OS::Nova::Server resource: in the nested file, or
	// Resource itself.
	Server string
	// Own are the names, without index, of what else of the top template belongs to each
	// VNFC of an Expanded VDU, in order.
	Own []string
	// Digest identifies what a VNFC is made of: definitions, nested files and parameters,
	// without their number. It stands in each server's metadata.
	Digest string
}

// Live is a stack at the VIM, as it was just read. The zero value is a stack that doesn't exist.
type Live struct {
	// Template, Files and Parameters are those of the stack, as Heat returns them, which doesn't
	// show the values of hidden parameters. Parameters are read for [Want].Together alone.
	Template   map[string]any
	Files      map[string]string
	Parameters map[string]any
	// Members are the VNFCs that Heat counts, by VDU: the members of the group, or the
	// indices whose resource stands in Template. Dead ones are among them.
	Members map[string][]Member
}

// Member is one VNFC of a VDU.
type Member struct {
	Name string // the group's name for it, or its index
	// Digest is [MetaDigest] of its server, "" where there is no server.
	Digest string
}

// Want is what a request has to bring about beside the shared part of the templates.
type Want struct {
	// Counts are numbers of VNFCs by VDU; a VDU that isn't named keeps those that live,
	// less its Victims.
	Counts map[string]int
	// Victims are the names of members that go, by VDU. Members of a group must be marked
	// unhealthy before, and Heat then takes those first.
	Victims map[string][]string
	// Renew are the names of members that get the package's definition, by VDU.
	Renew map[string][]string
	// Together has all members of a VDU get it in this update where Heat makes a shared resource
	// of theirs anew, and so would renew them all in any case: with the definition that they have
	// they would be renewed once more.
	Together bool
}

// Body is what a stack is created or updated with. Its encoding is deterministic.
type Body struct {
	Template   map[string]any    `json:"template"`
	Files      map[string]string `json:"files"`
	Parameters map[string]any    `json:"parameters"`
	// Existing says that an update must keep the values of parameters that it doesn't
	// name (PATCH, not PUT): a definition that is kept uses one that only Heat knows.
	Existing bool `json:"-"`
}

// JSON is the body's canonical encoding, for a hash of what was sent.
func (b *Body) JSON() ([]byte, error) { return json.Marshal(b) }
