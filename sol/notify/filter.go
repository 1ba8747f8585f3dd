package notify

import (
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// The notification types (SOL003 clauses 5.5.2.17 to 5.5.2.19).
const (
	OperationNotification = "VnfLcmOperationOccurrenceNotification"
	CreationNotification  = "VnfIdentifierCreationNotification"
	DeletionNotification  = "VnfIdentifierDeletionNotification"
)

// Filter is LifecycleChangeNotificationsFilter (SOL003 clause 5.5.3.12): all
// attributes that are present must match, and one entry of each.
type Filter struct {
	Instances         *InstanceFilter `json:"vnfInstanceSubscriptionFilter,omitempty"`
	NotificationTypes []string        `json:"notificationTypes,omitempty"`
	OperationTypes    []string        `json:"operationTypes,omitempty"`
	OperationStates   []string        `json:"operationStates,omitempty"`
}

// InstanceFilter is VnfInstanceSubscriptionFilter (SOL003 clause 4.4.1.5).
type InstanceFilter struct {
	VnfdIDs   []string         `json:"vnfdIds,omitempty"`
	Providers []ProviderFilter `json:"vnfProductsFromProviders,omitempty"`
	IDs       []string         `json:"vnfInstanceIds,omitempty"`
	Names     []string         `json:"vnfInstanceNames,omitempty"`
}

// ProviderFilter matches products of one provider: all, or those listed.
type ProviderFilter struct {
	Provider string          `json:"vnfProvider"`
	Products []ProductFilter `json:"vnfProducts,omitempty"`
}

// ProductFilter matches a product: all versions, or those listed.
type ProductFilter struct {
	Name     string          `json:"vnfProductName"`
	Versions []VersionFilter `json:"versions,omitempty"`
}

// VersionFilter matches a software version, with all versions of its VNFD or those listed.
type VersionFilter struct {
	SoftwareVersion string   `json:"vnfSoftwareVersion"`
	VnfdVersions    []string `json:"vnfdVersions,omitempty"`
}

// Match says whether the subscriber wants a notification of the event. Operation types and
// states don't apply to the creation and deletion of identifiers, which pass.
func (f *Filter) Match(e oplog.Event) bool {
	if !among(f.NotificationTypes, notificationType(e.Type)) || !f.Instances.match(e.Instance, e.VNF) {
		return false
	}
	if e.Type != oplog.OperationEvent {
		return true
	}
	return among(f.OperationTypes, string(e.Operation.Type)) && among(f.OperationStates, string(e.Operation.State))
}

// among says whether v is in list. An empty list stands for all values.
func among(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }

func (f *InstanceFilter) match(id string, v lcm.VNF) bool {
	return f == nil || among(f.IDs, id) && among(f.Names, v.Name) && among(f.VnfdIDs, v.VnfdID) &&
		(len(f.Providers) == 0 || slices.ContainsFunc(f.Providers, func(p ProviderFilter) bool { return p.match(v) }))
}

func (p ProviderFilter) match(v lcm.VNF) bool {
	return p.Provider == v.Provider &&
		(len(p.Products) == 0 || slices.ContainsFunc(p.Products, func(p ProductFilter) bool { return p.match(v) }))
}

func (p ProductFilter) match(v lcm.VNF) bool {
	return p.Name == v.ProductName &&
		(len(p.Versions) == 0 || slices.ContainsFunc(p.Versions, func(f VersionFilter) bool {
			return f.SoftwareVersion == v.SoftwareVersion && among(f.VnfdVersions, v.VnfdVersion)
		}))
}

func notificationType(t oplog.EventType) string {
	switch t {
	case oplog.CreatedEvent:
		return CreationNotification
	case oplog.DeletedEvent:
		return DeletionNotification
	}
	return OperationNotification
}

// validate refuses a filter that could never match: a wrong word in it is an
// error now rather than silence later.
func (f *Filter) validate() error {
	types := []string{"INSTANTIATE", "SCALE", "SCALE_TO_LEVEL", "CHANGE_FLAVOUR", "TERMINATE", "HEAL", "OPERATE",
		"CHANGE_EXT_CONN", "MODIFY_INFO", "CREATE_SNAPSHOT", "REVERT_TO_SNAPSHOT", "CHANGE_VNFPKG"}
	var states []string
	for _, s := range lcm.States() {
		if s != lcm.Prepared {
			states = append(states, string(s))
		}
	}
	for _, c := range []struct {
		attribute    string
		have, expect []string
	}{
		{"notificationTypes", f.NotificationTypes, []string{OperationNotification, CreationNotification, DeletionNotification}},
		{"operationTypes", f.OperationTypes, types},
		{"operationStates", f.OperationStates, states},
	} {
		for _, v := range c.have {
			if !slices.Contains(c.expect, v) {
				return fmt.Errorf("%w: filter.%s: %.64q is none of %q", ErrInvalid, c.attribute, v, c.expect)
			}
		}
	}
	if f.Instances == nil {
		return nil
	}
	for _, p := range f.Instances.Providers {
		if p.Provider == "" {
			return fmt.Errorf("%w: filter.vnfInstanceSubscriptionFilter.vnfProductsFromProviders: vnfProvider is missing", ErrInvalid)
		}
		for _, q := range p.Products {
			if q.Name == "" {
				return fmt.Errorf("%w: filter.vnfInstanceSubscriptionFilter.vnfProductsFromProviders.vnfProducts: vnfProductName is missing", ErrInvalid)
			}
			for _, v := range q.Versions {
				if v.SoftwareVersion == "" {
					return fmt.Errorf("%w: filter.vnfInstanceSubscriptionFilter.vnfProductsFromProviders.vnfProducts.versions: vnfSoftwareVersion is missing", ErrInvalid)
				}
			}
		}
	}
	return nil
}
