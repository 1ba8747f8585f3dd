// Package hooks has all that is about the hooks of VNF packages: coordination scripts,
// management drivers and user data classes, which Jibe runs in the course of an operation.
//
// A hook may be written in any language. It reads one JSON document ([Input]) from its
// standard input and may write one ([Output]) to its standard output; an exit code other
// than 0 means failure, with what it wrote to standard error as the reason.
//
// The package says which hooks an operation runs and whether they may ([NeededBy],
// [Permit]), makes their input of plain values ([Facts]), runs them ([Runner]), and holds
// those under way ([Registry]). It reaches no VIM, stores nothing, and doesn't decide when a
// hook runs: the plan does.
package hooks

import "encoding/json"

// Version is that of the contract between Jibe and hooks. It is raised when an
// attribute changes its meaning or goes; new attributes may come at any time.
const Version = 1

// Input is what a hook reads.
type Input struct {
	Version int `json:"version"`
	// Hook says what the file is run for: "coordinate_new", "coordinate_old",
	// "coordinate_rollback", or the name in the VNFD's Vnflcm interface ("scale_start").
	Hook string `json:"hook"`
	// Class is the class that the request names, for scripts of the reference's contract.
	Class string `json:"class,omitempty"`
	// Interrupted is true where an earlier run was cut short, so that what it did is
	// unknown: hooks must bear being run again.
	Interrupted bool `json:"interrupted"`
	// TimeoutSeconds is how long this run may take; then it is ended.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// Rollback is true while the operation is taken back.
	Rollback  bool      `json:"isRollback"`
	Operation Operation `json:"operation"`
	// Instance is the VNF instance as the operation is to leave it; InstanceBefore is it
	// as the operation found it, nil where nothing was there.
	Instance       Instance  `json:"instance"`
	InstanceBefore *Instance `json:"instanceBefore,omitempty"`
	// Before and After are the package that ran and the one that shall.
	Before *Package `json:"before,omitempty"`
	After  *Package `json:"after,omitempty"`
	// VDUs with their units of both sides, by VDU id.
	VDUs []VDU `json:"vdus"`
	// Added are the units that the operation has added so far, Removed those that it takes
	// away: all that went, and those still there of which it is known that they will go.
	// A rollback doesn't turn them around.
	Added   []Target `json:"added"`
	Removed []Target `json:"removed"`
	// Pending are the units beside those that the operation is still to add and to remove:
	// what will be made has no id yet, and the VIM chooses by itself which pods go when a
	// workload shrinks. Nil in a rollback.
	Pending *Pending `json:"pending,omitempty"`
	// Grant is what the operation was granted.
	Grant Grant `json:"grant"`
	// HandOver is what an earlier hook of this operation left for later ones, in
	// whatever attempt or direction; absent where none did.
	HandOver json.RawMessage `json:"handOver,omitempty"`
	// Coordinations are the LCM coordination actions for which an element manager, or the VNF,
	// was asked in this operation so far, and what came of each.
	Coordinations []Coordination `json:"coordinations,omitempty"`
	// Target is the VNFC for which a coordination script runs, where it runs for each by
	// itself; Targets are all of them where it runs once for the whole VNF.
	Target  *Target  `json:"target,omitempty"`
	Targets *Targets `json:"targets,omitempty"`
	// Objects of the instance at its VIM.
	Objects []Object `json:"objects"`
	// Services are the objects that direct traffic to the units.
	Services []Object `json:"services"`
	// Params are the instance's parameters, CoordinationParams those of the request
	// (vdu_params, external_lb_param), with secrets in clear.
	Params             map[string]any `json:"params,omitempty"`
	CoordinationParams map[string]any `json:"coordinationParams,omitempty"`
	VIM                VIM            `json:"vim"`
}

// Operation is the VNF LCM operation occurrence under way.
type Operation struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Attempt int             `json:"attempt"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// Instance is the VNF instance.
type Instance struct {
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	VnfdID     string `json:"vnfdId,omitempty"`
	State      string `json:"state,omitempty"` // "instantiated", "stopped" or "notInstantiated"
	Flavour    string `json:"flavour,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Generation string `json:"generation,omitempty"` // that shall run
	// Levels are the scale levels by aspect.
	Levels                 map[string]int `json:"levels,omitempty"`
	Metadata               map[string]any `json:"metadata,omitempty"`
	Extensions             map[string]any `json:"extensions,omitempty"`
	ConfigurableProperties map[string]any `json:"vnfConfigurableProperties,omitempty"`
	// ExtVirtualLinks are the networks outside that it is connected to (SOL003 clause 4.4.1.11).
	ExtVirtualLinks json.RawMessage `json:"extVirtualLinks,omitempty"`
}

// Pending are units of which numbers are known, and nothing else.
type Pending struct {
	Added   []PendingUnits `json:"added"`
	Removed []PendingUnits `json:"removed"`
}

// PendingUnits is a number of units of one VDU.
type PendingUnits struct {
	VduID string `json:"vduId"`
	Owner string `json:"owner"` // key of the workload or stack
	Count int    `json:"count"`
	// AtMost says that there may be fewer: the workload is changed, and the VIM makes its
	// units anew only where the change is one of theirs.
	AtMost bool `json:"atMost,omitempty"`
	// ChosenBy is "vim" where the VIM chooses which units these are.
	ChosenBy string `json:"chosenBy,omitempty"`
}

// Grant is what the operation may do: Jibe grants by itself what the plan needs.
type Grant struct {
	Instance  string `json:"vnfInstanceId"`
	Operation string `json:"vnfLcmOpOccId"`
	// Add and Remove are the units that the plan adds and removes: those of Input.Added and
	// Input.Removed, and one without a known unit for each of Input.Pending, but of those that
	// AtMost may come or go.
	Add    []GrantedUnit `json:"addResources"`
	Remove []GrantedUnit `json:"removeResources"`
}

// GrantedUnit is a unit in a [Grant].
type GrantedUnit struct {
	// ID is the VIM's id of the unit. Of one that isn't known it is made up, and the
	// same in all hooks of the operation that begin before any unit has moved.
	ID    string `json:"id"`
	Type  string `json:"type"` // COMPUTE
	VduID string `json:"vduId"`
	// Pending says that the unit isn't known.
	Pending bool `json:"pending,omitempty"`
}

// Package is one version of the VNF package.
type Package struct {
	VnfdID          string `json:"vnfdId"`
	VnfdVersion     string `json:"vnfdVersion,omitempty"`
	Provider        string `json:"vnfProvider,omitempty"`
	ProductName     string `json:"vnfProductName,omitempty"`
	SoftwareVersion string `json:"vnfSoftwareVersion,omitempty"`
	// Tree is the package's git tree hash.
	Tree string `json:"package"`
	// Dir is a working copy of the package, gone when the hook ends.
	Dir string `json:"dir,omitempty"`
}

// VDU is the units of one VDU: Old those that ran before the operation, whether they
// still do or not, New those that came since. A rollback doesn't turn them around.
type VDU struct {
	ID  string `json:"id"`
	Old []Unit `json:"old"`
	New []Unit `json:"new"`
}

// Unit is one VNFC.
type Unit struct {
	ID         string `json:"id"`   // incarnation (pod UID, server id@life)
	Name       string `json:"name"` // pod name, server id
	Owner      string `json:"owner,omitempty"`
	Generation string `json:"generation,omitempty"`
	VIM        string `json:"vim,omitempty"` // where a VNF is spread over several
	Address    string `json:"address,omitempty"`
	// Addresses are all that its ports have, by connection point: a floating one before
	// the fixed ones.
	Addresses map[string][]string `json:"addresses,omitempty"`
	// Created is when the VIM made it (RFC 3339), where it says so.
	Created  string            `json:"created,omitempty"`
	Ready    bool              `json:"ready"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Target is a VNFC that a coordination script speaks to, and how it is reached:
// vdu_params of the request, resolved for the unit.
type Target struct {
	VduID string `json:"vduId"`
	Unit  Unit   `json:"unit"`
	// CpName is the connection point that vdu_params names, Address the floating
	// address of the unit's port there, else its first fixed one; "" where neither
	// vdu_params nor the VIM says.
	CpName   string `json:"cpName,omitempty"`
	Address  string `json:"address,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// Targets are the VNFCs of the VDUs that vdu_params names, or of all where it names
// none: Old those of the VNF that ran, New those of the one that comes, as far as they
// exist. A rollback doesn't turn them around.
type Targets struct {
	Old []Target `json:"old"`
	New []Target `json:"new"`
}

// Object is one object at the VIM.
type Object struct {
	Key        string `json:"key"` // "Kind/namespace/name"
	Generation string `json:"generation,omitempty"`
}

// VIM is where the VNF runs. How to reach it stands in files that environment
// variables name (KUBECONFIG), not here.
type VIM struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Endpoint string `json:"endpoint,omitempty"`
}

// Output is what a hook may write.
type Output struct {
	// Message is shown in the log.
	Message string `json:"message,omitempty"`
	// Metadata and Extensions are entries of the instance's to set, and with null to take
	// away. They reach git when the operation is done.
	Metadata   map[string]any `json:"metadata,omitempty"`
	Extensions map[string]any `json:"extensions,omitempty"`
	// Params are entries of the instance's params to set, as a merge patch (RFC 7396). What
	// is computed of them, a Heat stack's parameters, counts from now on in this operation;
	// they reach git when it is done.
	Params map[string]any `json:"params,omitempty"`
	// VIMs are Kubernetes clusters that the instance is: files under vims/, by name, with
	// null to take one away. They reach git when the operation is done, and go with the
	// instance's termination.
	VIMs map[string]*ProvidedVIM `json:"vims,omitempty"`
	// HandOver takes the place of Input.HandOver for the hooks that follow in this
	// operation, its retries and its rollback included; null takes it away.
	HandOver json.RawMessage `json:"handOver,omitempty"`
}

// ProvidedVIM is how a Kubernetes cluster is reached: as an administrator of it, with a
// token or with a client's certificate and key. All of it reaches git encrypted but the
// endpoint and the CA's certificate.
type ProvidedVIM struct {
	Endpoint   string `json:"endpoint"`         // https://host:port
	CACert     string `json:"caCert,omitempty"` // PEM
	Token      string `json:"token,omitempty"`
	ClientCert string `json:"clientCert,omitempty"` // PEM
	ClientKey  string `json:"clientKey,omitempty"`  // PEM
}
