package lcm

import (
	"encoding/json"
	"reflect"

	"github.com/jibe-vnfm/jibe/desired"
)

// flavourChanged says whether the change deploys another flavour of the same package.
func flavourChanged(before, after *desired.Instance) bool {
	return before.Flavour != after.Flavour && before.VnfdID == after.VnfdID && !repinned(before, after)
}

// changeFlavourParams returns the ChangeVnfFlavourRequest that would have brought after about
// (SOL003 clause 5.5.2.7), as far as a request can.
func changeFlavourParams(before, after *desired.Instance) json.RawMessage {
	p := map[string]any{"newFlavourId": after.Flavour}
	if after.InstantiationLevel != "" {
		p["instantiationLevelId"] = after.InstantiationLevel
	}
	if extConnChanged(before, after) {
		p["extVirtualLinks"] = after.ExtVirtualLinks
	}
	if !reflect.DeepEqual(before.ExtManagedVirtualLinks, after.ExtManagedVirtualLinks) {
		p["extManagedVirtualLinks"] = after.ExtManagedVirtualLinks
	}
	for _, key := range desired.Changed(before, after) {
		switch key {
		case "vimConnectionInfo":
			p[key] = connections(after.VIMConnections)
		case "params":
			put(p, "additionalParams", after.Params)
		case "extensions":
			put(p, key, after.Extensions)
		case "vnfConfigurableProperties":
			put(p, key, after.ConfigurableProperties)
		}
	}
	return encode(p)
}
