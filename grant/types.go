// Package grant asks for the right to carry out operations (SOL003 v3.3.1 clause 9): it makes
// the request out of a plan, puts it to an NFVO or holds it against the policy in git, and
// makes of the answer what is to stand in the instance's granted.yaml.
//
// It decides nothing about steps, keeps nothing, and writes neither git nor the store: when it
// is asked, and what comes of the answer, is the reconciler's.
package grant

import "github.com/jibe-vnfm/jibe/desired"

// Version is that of the API "grant" in SOL003 v3.3.1.
const Version = "1.4.0"

// Request is a GrantRequest (clause 9.5.2.2).
type Request struct {
	VnfInstanceID        string                `json:"vnfInstanceId"`
	VnfLcmOpOccID        string                `json:"vnfLcmOpOccId"`
	VnfdID               string                `json:"vnfdId"`
	DstVnfdID            string                `json:"dstVnfdId,omitempty"`
	FlavourID            string                `json:"flavourId,omitempty"`
	Operation            string                `json:"operation"`
	Automatic            bool                  `json:"isAutomaticInvocation"`
	InstantiationLevelID string                `json:"instantiationLevelId,omitempty"`
	Add                  []ResourceDefinition  `json:"addResources,omitempty"`
	Remove               []ResourceDefinition  `json:"removeResources,omitempty"`
	Update               []ResourceDefinition  `json:"updateResources,omitempty"`
	Placement            []PlacementConstraint `json:"placementConstraints,omitempty"`
	VIMConstraints       []VIMConstraint       `json:"vimConstraints,omitempty"`
	AdditionalParams     map[string]any        `json:"additionalParams,omitempty"`
	Links                Links                 `json:"_links"`
}

// Links are those of a request and of a grant.
type Links struct {
	Self        *Link `json:"self,omitempty"`
	VnfLcmOpOcc Link  `json:"vnfLcmOpOcc"`
	VnfInstance Link  `json:"vnfInstance"`
}

// Link is an absolute URI.
type Link struct {
	Href string `json:"href"`
}

// ResourceDefinition is one resource of the plan (clause 9.5.3.2). Resource is set for those
// that exist.
type ResourceDefinition struct {
	ID         string                  `json:"id"`
	Type       string                  `json:"type"`
	VduID      string                  `json:"vduId,omitempty"`
	VnfdID     string                  `json:"vnfdId,omitempty"`
	TemplateID string                  `json:"resourceTemplateId,omitempty"`
	Resource   *desired.ResourceHandle `json:"resource,omitempty"`
}

// compute is the type of the definition of a unit; the other types are plan.ResourceKind's.
const compute = "COMPUTE"

// PlacementConstraint is the data type of that name (clause 9.5.3.6).
type PlacementConstraint struct {
	Kind     string        `json:"affinityOrAntiAffinity"`
	Scope    string        `json:"scope"`
	Resource []ResourceRef `json:"resource"`
}

// VIMConstraint is the data type VimConstraint (clause 9.5.3.7).
type VIMConstraint struct {
	Resource []ResourceRef `json:"resource"`
}

// ResourceRef is ConstraintResourceRef (clause 9.5.3.8).
type ResourceRef struct {
	IDType          string `json:"idType"`
	ResourceID      string `json:"resourceId"`
	VIMConnectionID string `json:"vimConnectionId,omitempty"`
}

// The values of ResourceRef.IDType.
const (
	idGrant   = "GRANT"
	idAtVIM   = "RES_MGMT"
	affine    = "AFFINITY"
	antiAffin = "ANTI_AFFINITY"
)

// Grant is the data type of that name (clause 9.5.2.3), as far as Jibe can follow it. What it
// can't follow is in the fields that [Apply] refuses where they aren't empty.
type Grant struct {
	ID                     string                          `json:"id"`
	VnfInstanceID          string                          `json:"vnfInstanceId"`
	VnfLcmOpOccID          string                          `json:"vnfLcmOpOccId"`
	VIMConnections         map[string]VIMConnection        `json:"vimConnectionInfo"`
	Zones                  []Zone                          `json:"zones"`
	Add                    []Info                          `json:"addResources"`
	Temp                   []Info                          `json:"tempResources"`
	Remove                 []Info                          `json:"removeResources"`
	Update                 []Info                          `json:"updateResources"`
	VIMAssets              VIMAssets                       `json:"vimAssets"`
	ExtVirtualLinks        []desired.ExtVirtualLink        `json:"extVirtualLinks"`
	ExtManagedVirtualLinks []desired.ExtManagedVirtualLink `json:"extManagedVirtualLinks"`
	Links                  Links                           `json:"_links"`
}

// VIMConnection is a VimConnectionInfo whose secrets are in clear. It must reach nothing but
// [Sealer].
type VIMConnection struct {
	VimID         string         `json:"vimId"`
	VimType       string         `json:"vimType"`
	InterfaceInfo map[string]any `json:"interfaceInfo"`
	AccessInfo    map[string]any `json:"accessInfo"`
	Extra         map[string]any `json:"extra"`
}

// Zone is ZoneInfo (clause 9.5.3.4).
type Zone struct {
	ID              string `json:"id"`
	ZoneID          string `json:"zoneId"`
	VIMConnectionID string `json:"vimConnectionId"`
}

// Info is GrantInfo (clause 9.5.3.3): what was decided about one resource of the request.
type Info struct {
	ResourceDefinitionID string `json:"resourceDefinitionId"`
	ReservationID        string `json:"reservationId"`
	VIMConnectionID      string `json:"vimConnectionId"`
	ZoneID               string `json:"zoneId"`
	ResourceGroupID      string `json:"resourceGroupId"`
}

// VIMAssets are what the NFVO holds ready at VIMs (clause 9.5.2.3).
type VIMAssets struct {
	Flavours []struct {
		VIMConnectionID string `json:"vimConnectionId"`
		DescID          string `json:"vnfdVirtualComputeDescId"`
		FlavourID       string `json:"vimFlavourId"`
	} `json:"computeResourceFlavours"`
	Images []struct {
		VIMConnectionID string `json:"vimConnectionId"`
		ImageID         string `json:"vnfdSoftwareImageId"`
		VIMImageID      string `json:"vimSoftwareImageId"`
	} `json:"softwareImages"`
}
