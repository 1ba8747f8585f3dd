// Package vnfd reads VNF descriptors: the subset of ETSI NFV-SOL001 (TOSCA) that
// decides what runs and how it scales. It is pure: it reads from an [io/fs.FS]
// and knows neither git nor a VIM. Package vnfd/csar deals with the archive.
package vnfd

import (
	"io/fs"
	"time"
)

// Package is an expanded VNF package (CSAR), fixed by its git tree hash.
type Package struct {
	// Tree is the git tree hash, or "" for a directory that isn't in git.
	Tree string
	// Files is the package's content; TOSCA-Metadata is at its root.
	Files fs.FS
	// VNFD is the descriptor of the package.
	VNFD *VNFD
	// Artifacts are the paths that TOSCA.meta or the manifest lists.
	Artifacts []string
	// Images are the software images that the VNFD names, by id.
	Images []Image

	definitions map[string]bool // the VNFD's files
}

// VNFD is a VNF descriptor (SOL001 clause 6.8.1, tosca.nodes.nfv.VNF).
type VNFD struct {
	ID              string // descriptor_id
	Version         string // descriptor_version
	Provider        string
	ProductName     string
	SoftwareVersion string
	ProductInfoName string
	Description     string
	DefaultFlavour  string
	Flavours        []Flavour // by id
	VnfmInfo        []string
	// SecretParams are names of secrets in the instances of this VNFD, beside the names that
	// always are.
	SecretParams []string `json:",omitempty"`
}

// Flavour is a deployment flavour: one topology template whose
// substitution_mappings carry its flavour_id.
type Flavour struct {
	ID          string
	Description string
	VDUs        []VDU    // by id
	Aspects     []Aspect // by id
	// Levels are the instantiation levels, by id.
	Levels       []Level
	DefaultLevel string
	// Cps are the connection points of VDUs, Links the virtual links of the VNF itself,
	// and Storages its block storages, all sorted by id.
	Cps      []Cp
	Links    []string
	Storages []string
	// Affinities are the rules of which instances stand together or apart, in the order of the
	// file.
	Affinities []Affinity `json:",omitempty"`
	// ExtCps are the external connection points: the name in substitution_mappings -> the id
	// of the Cp behind it.
	ExtCps map[string]string
	// Hooks are the Vnflcm interface's operations that have an implementation:
	// "scale_start" -> path of the hook in the package.
	Hooks map[string]string
	// HookTimeouts are the time limits of hooks whose implementation has one (TOSCA 1.3
	// clause 3.6.17): "scale_start" -> limit.
	HookTimeouts map[string]time.Duration `json:",omitempty"`
	// Coordinations are the LCM coordination actions (SOL002 clause 10) that are asked for, by the
	// point of the operation and in their order: "scale_start", [PointNew].
	Coordinations map[string][]Coordination `json:",omitempty"`
	// CoordinationInterface is where the VNF itself is asked for one, nil where it is nowhere.
	CoordinationInterface *CoordinationInterface `json:",omitempty"`
}

// VDU is a tosca.nodes.nfv.Vdu.Compute (or Vdu.OsContainerDeployableUnit).
type VDU struct {
	ID   string // the node template's key
	Name string // properties.name: metadata.name of the workload
	// Initial is number_of_instances of VduInitialDelta; -1 where there is none.
	Initial int
	// Deltas: aspect id -> number of instances that one step of the aspect adds.
	Deltas map[string]int
	// Levels: instantiation level id -> number_of_instances (VduInstantiationLevels).
	Levels map[string]int
	// Min and Max are vdu_profile's bounds; Max -1 means unbounded.
	Min, Max int
	// Image is sw_image_data.name, or "".
	Image string
	// ComputeFlavour is the VM's size in virtual_compute:
	// requested_additional_capability_name, or "".
	ComputeFlavour string
	// Storages are the ids of the block storages that each instance has.
	Storages []string
}

// Cp is a tosca.nodes.nfv.VduCp: what connects the instances of a VDU.
type Cp struct {
	ID  string
	VDU string // the VDU that it is bound to
	// Link is the VnfVirtualLink that it is on, "" for one outside the VNF.
	Link string
}

// Aspect is a scaling aspect (tosca.policies.nfv.ScalingAspects).
type Aspect struct {
	ID          string
	Name        string
	Description string
	MaxLevel    int
}

// Level is an instantiation level: the scale level of each aspect in it.
type Level struct {
	ID          string
	Description string
	Aspects     map[string]int
}
