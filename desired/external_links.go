package desired

// ExtVirtualLink is ExtVirtualLinkData (SOL003 v3.3.1 clause 4.4.1.11): a network
// outside the VNF that some of its connection points are on.
type ExtVirtualLink struct {
	ID              string        `json:"id"`
	VIMConnectionID string        `json:"vimConnectionId,omitempty"`
	ProviderID      string        `json:"resourceProviderId,omitempty"`
	ResourceID      string        `json:"resourceId"` // of the network at the VIM
	ExtCps          []ExtCp       `json:"extCps"`
	ExtLinkPorts    []ExtLinkPort `json:"extLinkPorts,omitempty"`
}

// ExtCp is VnfExtCpData (clause 4.4.1.12): the instances of one connection point of
// the VNFD on the network, by an id of their own.
type ExtCp struct {
	CpdID    string                 `json:"cpdId"`
	CpConfig map[string]ExtCpConfig `json:"cpConfig"`
}

// ExtCpConfig is VnfExtCpConfig (clause 4.4.1.12a).
type ExtCpConfig struct {
	ParentCpConfigID string       `json:"parentCpConfigId,omitempty"`
	LinkPortID       string       `json:"linkPortId,omitempty"`
	CreateLinkPort   bool         `json:"createExtLinkPort,omitempty"`
	Protocols        []CpProtocol `json:"cpProtocolData,omitempty"`
}

// CpProtocol is CpProtocolData (clause 4.4.1.12b); LayerProtocol is "IP_OVER_ETHERNET".
type CpProtocol struct {
	LayerProtocol  string          `json:"layerProtocol"`
	IPOverEthernet *IPOverEthernet `json:"ipOverEthernet,omitempty"`
}

// IPOverEthernet is IpOverEthernetAddressData (clause 4.4.1.10c).
type IPOverEthernet struct {
	MACAddress  string      `json:"macAddress,omitempty"`
	IPAddresses []IPAddress `json:"ipAddresses,omitempty"`
}

// IPAddress is one entry of ipAddresses there: fixed addresses, or how many are to be
// taken, of a subnet.
type IPAddress struct {
	Type                string   `json:"type"` // IPV4, IPV6
	FixedAddresses      []string `json:"fixedAddresses,omitempty"`
	NumDynamicAddresses int      `json:"numDynamicAddresses,omitempty"`
	SubnetID            string   `json:"subnetId,omitempty"`
}

// ExtLinkPort is ExtLinkPortData (clause 4.4.1.14): a port that exists already.
type ExtLinkPort struct {
	ID             string         `json:"id"`
	ResourceHandle ResourceHandle `json:"resourceHandle"`
}

// ResourceHandle names a resource at a VIM (clause 4.4.1.7).
type ResourceHandle struct {
	VIMConnectionID string `json:"vimConnectionId,omitempty"`
	ProviderID      string `json:"resourceProviderId,omitempty"`
	ResourceID      string `json:"resourceId"`
	Type            string `json:"vimLevelResourceType,omitempty"`
}

// ExtManagedVirtualLink is ExtManagedVirtualLinkData (clause 4.4.1.13): a network that
// takes the place of a virtual link which the VNF would have made itself.
type ExtManagedVirtualLink struct {
	ID                string `json:"id"`
	VirtualLinkDescID string `json:"vnfVirtualLinkDescId"`
	VIMConnectionID   string `json:"vimConnectionId,omitempty"`
	ProviderID        string `json:"resourceProviderId,omitempty"`
	ResourceID        string `json:"resourceId"`
}
