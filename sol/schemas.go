package sol

import (
	"reflect"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// schemas are the attributes of what lists show, by type.
type schemas struct{ instance, operation, subscription *filter.Schema }

func newSchemas() schemas {
	more := neverShown()
	return schemas{
		instance:     filter.SchemaOf(VnfInstance{}, more),
		operation:    filter.SchemaOf(VnfLcmOpOcc{}, more),
		subscription: filter.SchemaOf(notify.Subscription{}, more),
	}
}

// neverShown are attributes of SOL003 v3.3.1 about which Jibe has nothing to say. A filter may
// name them, and matches nothing.
func neverShown() filter.More {
	return filter.More{
		reflect.TypeFor[VnfLcmOpOcc]():                   {"grantId", "vnfSnapshotInfoId"},
		reflect.TypeFor[lcm.ProblemDetails]():            {"type", "instance"},
		reflect.TypeFor[InstantiatedVnfInfo]():           {"localizationLanguage", "monitoringParameters"},
		reflect.TypeFor[ResourceHandle]():                {"resourceProviderId"},
		reflect.TypeFor[VnfcResourceInfo]():              {"reservationId", "zoneId"},
		reflect.TypeFor[VirtualStorageResourceInfo]():    {"vnfdId", "reservationId", "zoneId", "metadata"},
		reflect.TypeFor[ExtCpInfo]():                     {"vnfdId", "associatedVnfVirtualLinkId"},
		reflect.TypeFor[ExtManagedVirtualLinkInfo]():     {"vnfdId", "extManagedMultisiteVirtualLinkId"},
		reflect.TypeFor[IPOverEthernetInfo]():            {"segmentationId"},
		reflect.TypeFor[IPAddressInfo]():                 {"addressRange", "isDynamic"},
		reflect.TypeFor[notify.AffectedVnfc]():           {"vnfdId", "resourceDefinitionId", "zoneId"},
		reflect.TypeFor[notify.AffectedVirtualLink]():    {"vnfdId", "resourceDefinitionId", "zoneId", "metadata"},
		reflect.TypeFor[notify.AffectedExtLinkPort]():    {"resourceDefinitionId"},
		reflect.TypeFor[notify.AffectedVirtualStorage](): {"vnfdId", "resourceDefinitionId", "zoneId", "metadata"},
	}
}
