package sol

import (
	"encoding/json"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// Link is a reference to a resource.
type Link = notify.Link

// VnfInstance is SOL003 v3.3.1 clause 5.5.2.2.
type VnfInstance struct {
	ID                        string                       `json:"id"`
	Name                      string                       `json:"vnfInstanceName,omitempty"`
	Description               string                       `json:"vnfInstanceDescription,omitempty"`
	VnfdID                    string                       `json:"vnfdId"`
	Provider                  string                       `json:"vnfProvider"`
	ProductName               string                       `json:"vnfProductName"`
	SoftwareVersion           string                       `json:"vnfSoftwareVersion"`
	VnfdVersion               string                       `json:"vnfdVersion"`
	VnfConfigurableProperties map[string]any               `json:"vnfConfigurableProperties,omitzero"`
	VimConnectionInfo         map[string]VimConnectionInfo `json:"vimConnectionInfo,omitempty"`
	InstantiationState        string                       `json:"instantiationState"`
	InstantiatedVnfInfo       *InstantiatedVnfInfo         `json:"instantiatedVnfInfo,omitempty"`
	Metadata                  map[string]any               `json:"metadata,omitempty"`
	Extensions                map[string]any               `json:"extensions,omitempty"`
	Links                     map[string]Link              `json:"_links"`
	Jibe                      *InstanceStatus              `json:"jibe,omitempty"`
}

// InstanceStatus is Jibe's own attribute of VnfInstance, which other clients ignore. It is
// absent where everything has its default, unless a list is asked for the directory.
type InstanceStatus struct {
	// Directory is where the instance is in git. Lists show it to clients that ask for this
	// attribute by name, or filter by it.
	Directory string `json:"directory,omitempty"`
	// Suspended says that vnf.yaml has suspend: true: nothing is done.
	Suspended bool `json:"suspended,omitempty"`
	// Held is the operation that a client made FAILED: nothing is done until the next
	// request or commit.
	Held string `json:"held,omitempty"`
	// DriftPolicy is desired.DriftCorrect or desired.DriftReport.
	DriftPolicy string `json:"driftPolicy,omitempty"`
	// Drifted are the objects that differ from what git says: "Kind/namespace/name".
	Drifted []string `json:"drifted,omitempty"`
	// Failed is the operation in FAILED_TEMP. It waits for a client, unless it is
	// automatic.
	Failed *FailedOperation `json:"failed,omitempty"`
	// RolledBack is the INSTANTIATE that was rolled back last, while the VNF isn't instantiated.
	RolledBack *FailedOperation `json:"rolledBack,omitempty"`
	// Waiting is what isn't begun yet, since a maintenance window is closed or a freeze holds.
	Waiting *StartWait `json:"waiting,omitempty"`
	// WaitsFor is what the instance waits for, whatever that is: its VIM, other instances, a window, a person.
	WaitsFor *Waiting `json:"waitsFor,omitempty"`
	// Problems say why the instance's file in git isn't obeyed.
	Problems []desired.Problem `json:"problems,omitempty"`
}

// StartWait is an operation that isn't begun yet.
type StartWait struct {
	Operation lcm.Type `json:"operation"`
	// Commit asks for it.
	Commit string `json:"commit,omitempty"`
	// For tells people what it waits for, and until when.
	For string `json:"for"`
	// Until is when it may begin, "" for no time in sight.
	Until string `json:"until,omitempty"`
}

// FailedOperation is an operation that failed, as the instance shows it.
type FailedOperation struct {
	ID        string   `json:"id"`
	Operation lcm.Type `json:"operation"`
	// Automatic says that it is tried again by itself.
	Automatic bool   `json:"automatic,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// The values of instantiationState.
const (
	stateInstantiated    = "INSTANTIATED"
	stateNotInstantiated = "NOT_INSTANTIATED"
)

// VimConnectionInfo is SOL003 clause 4.4.1.6.
type VimConnectionInfo struct {
	VimID         string            `json:"vimId,omitempty"`
	VimType       string            `json:"vimType"`
	InterfaceInfo InterfaceInfo     `json:"interfaceInfo,omitempty"`
	AccessInfo    map[string]string `json:"accessInfo,omitempty"`
	Extra         map[string]any    `json:"extra,omitempty"`
}

// InstantiatedVnfInfo is the attribute of that name of VnfInstance.
type InstantiatedVnfInfo struct {
	FlavourID        string                       `json:"flavourId"`
	VnfState         string                       `json:"vnfState"`
	ScaleStatus      []ScaleInfo                  `json:"scaleStatus,omitempty"`
	MaxScaleLevels   []ScaleInfo                  `json:"maxScaleLevels,omitempty"`
	VnfcResourceInfo []VnfcResourceInfo           `json:"vnfcResourceInfo,omitempty"`
	ExtCpInfo        []ExtCpInfo                  `json:"extCpInfo,omitempty"`
	ExtVirtualLinks  []notify.ExtVirtualLinkInfo  `json:"extVirtualLinkInfo,omitempty"`
	ExtManagedLinks  []ExtManagedVirtualLinkInfo  `json:"extManagedVirtualLinkInfo,omitempty"`
	VirtualLinks     []VirtualLinkResourceInfo    `json:"vnfVirtualLinkResourceInfo,omitempty"`
	VirtualStorages  []VirtualStorageResourceInfo `json:"virtualStorageResourceInfo,omitempty"`
	VnfcInfo         []VnfcInfo                   `json:"vnfcInfo,omitempty"`
	Metadata         map[string]any               `json:"metadata,omitempty"`
}

// ScaleInfo is SOL003 clause 5.5.3.4.
type ScaleInfo struct {
	AspectID string `json:"aspectId"`
	VnfdID   string `json:"vnfdId,omitempty"`
	Level    int    `json:"scaleLevel"`
}

// VnfcInfo is SOL003 clause 5.5.3.23.
type VnfcInfo struct {
	ID                 string `json:"id"`
	VduID              string `json:"vduId"`
	VnfcResourceInfoID string `json:"vnfcResourceInfoId,omitempty"`
	VnfcState          string `json:"vnfcState"`
}

// VnfLcmOpOcc is SOL003 clause 5.5.2.13.
type VnfLcmOpOcc struct {
	ID                    string                      `json:"id"`
	OperationState        lcm.State                   `json:"operationState"`
	StateEnteredTime      string                      `json:"stateEnteredTime"`
	StartTime             string                      `json:"startTime"`
	VnfInstanceID         string                      `json:"vnfInstanceId"`
	GrantID               string                      `json:"grantId,omitempty"`
	Operation             lcm.Type                    `json:"operation"`
	IsAutomaticInvocation bool                        `json:"isAutomaticInvocation"`
	OperationParams       json.RawMessage             `json:"operationParams,omitempty"`
	IsCancelPending       bool                        `json:"isCancelPending"`
	CancelMode            string                      `json:"cancelMode,omitempty"`
	Error                 *lcm.ProblemDetails         `json:"error,omitempty"`
	ResourceChanges       *notify.ResourceChanges     `json:"resourceChanges,omitempty"`
	ChangedInfo           json.RawMessage             `json:"changedInfo,omitempty"`
	ChangedExtConn        []notify.ExtVirtualLinkInfo `json:"changedExtConnectivity,omitempty"`
	PkgChange             json.RawMessage             `json:"modificationsTriggeredByVnfPkgChange,omitempty"`
	LcmCoordinations      []LcmCoordination           `json:"lcmCoordinations,omitempty"`
	RejectedCoordinations []RejectedLcmCoordination   `json:"rejectedLcmCoordinations,omitempty"`
	Warnings              []string                    `json:"warnings,omitempty"`
	Links                 map[string]Link             `json:"_links"`
	Jibe                  *OperationStatus            `json:"jibe,omitempty"`
}

// OperationStatus is Jibe's own attribute of VnfLcmOpOcc, which other clients ignore. It is
// absent where there is nothing to say.
type OperationStatus struct {
	Waiting *Waiting `json:"waiting,omitempty"`
	// RequestedBy is who asked for it: the caller, who pushed, or else the author that a commit
	// of a forge names, with a mail address, whom nobody vouches for.
	RequestedBy string `json:"requestedBy,omitempty"`
	// PullRequest is the one that proposes what was asked for, once it is open.
	PullRequest *PullRequest `json:"pullRequest,omitempty"`
}

// PullRequest is one on the forge of the desired repository.
type PullRequest struct {
	Number int64 `json:"number"`
	// Link is the URL of its page.
	Link string `json:"link,omitempty"`
}

// Waiting is what an operation waits for beside its VIM, for people.
type Waiting struct {
	For   string `json:"for"` // "the grant of nfvo-a: …"
	Since string `json:"since"`
}

// createVnfRequest is SOL003 clause 5.5.2.3.
type createVnfRequest struct {
	VnfdID      string         `json:"vnfdId"`
	Name        string         `json:"vnfInstanceName"`
	Description string         `json:"vnfInstanceDescription"`
	Metadata    map[string]any `json:"metadata"`
}

// instantiateVnfRequest is SOL003 clause 5.5.2.4.
type instantiateVnfRequest struct {
	FlavourID                 string                       `json:"flavourId"`
	InstantiationLevelID      string                       `json:"instantiationLevelId,omitempty"`
	ExtVirtualLinks           []any                        `json:"extVirtualLinks,omitempty"`
	ExtManagedVirtualLinks    []any                        `json:"extManagedVirtualLinks,omitempty"`
	VimConnectionInfo         map[string]VimConnectionInfo `json:"vimConnectionInfo,omitempty"`
	LocalizationLanguage      string                       `json:"localizationLanguage,omitempty"`
	AdditionalParams          map[string]any               `json:"additionalParams,omitempty"`
	Extensions                map[string]any               `json:"extensions,omitempty"`
	VnfConfigurableProperties map[string]any               `json:"vnfConfigurableProperties,omitempty"`
}

// changeVnfPkgRequest is ChangeCurrentVnfPkgRequest of SOL003 clause 5.5.2.11a.
type changeVnfPkgRequest struct {
	VnfdID                    string                       `json:"vnfdId"`
	ExtVirtualLinks           []any                        `json:"extVirtualLinks,omitempty"`
	ExtManagedVirtualLinks    []any                        `json:"extManagedVirtualLinks,omitempty"`
	VimConnectionInfo         map[string]VimConnectionInfo `json:"vimConnectionInfo,omitempty"`
	AdditionalParams          map[string]any               `json:"additionalParams,omitempty"`
	Extensions                map[string]any               `json:"extensions,omitempty"`
	VnfConfigurableProperties map[string]any               `json:"vnfConfigurableProperties,omitempty"`
}

// changeExtConnRequest is ChangeExtVnfConnectivityRequest of SOL003 clause 5.5.2.11.
type changeExtConnRequest struct {
	ExtVirtualLinks   []any                        `json:"extVirtualLinks"`
	VimConnectionInfo map[string]VimConnectionInfo `json:"vimConnectionInfo,omitempty"`
	AdditionalParams  map[string]any               `json:"additionalParams,omitempty"`
}

// scaleVnfRequest is SOL003 clause 5.5.2.5.
type scaleVnfRequest struct {
	Type             string         `json:"type"`
	AspectID         string         `json:"aspectId"`
	NumberOfSteps    number         `json:"numberOfSteps,omitzero"`
	AdditionalParams map[string]any `json:"additionalParams,omitempty"`
}

// terminateVnfRequest is SOL003 clause 5.5.2.8.
type terminateVnfRequest struct {
	TerminationType            string         `json:"terminationType"`
	GracefulTerminationTimeout number         `json:"gracefulTerminationTimeout,omitzero"`
	AdditionalParams           map[string]any `json:"additionalParams,omitempty"`
}

// healVnfRequest is HealVnfRequest of SOL003 clause 5.5.2.9, with the attributes
// that SOL002 has beside them: vnfcInstanceId and healScript.
type healVnfRequest struct {
	VnfcInstanceID   vnfcIDs        `json:"vnfcInstanceId,omitzero"`
	Cause            string         `json:"cause,omitempty"`
	AdditionalParams map[string]any `json:"additionalParams,omitempty"`
	HealScript       string         `json:"healScript,omitempty"`
}

// cancelMode is SOL003 clause 5.5.2.14.
type cancelMode struct {
	CancelMode string `json:"cancelMode"`
}
