package lcm

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
)

// Classify returns the type of the operation that brings about another intent, with the
// operationParams that a REST request for the same would have had, free of secrets. A nil
// intent means that the directory doesn't exist. ok is false where no operation is due:
// nothing that matters changed, or only an identifier was created or deleted.
//
// Where one commit changes many things, the dominant one names the operation:
// TERMINATE, INSTANTIATE, CHANGE_VNFPKG, CHANGE_FLAVOUR, CHANGE_EXT_CONN, OPERATE, SCALE
// (SCALE_TO_LEVEL for several aspects), HEAL, MODIFY_INFO. A pin that Jibe filled in (package, vim) is no
// change; an unpinned after must be pinned before it is classified. No operation takes a
// VNF that runs to another VIM.
//
// What an instantiation left that was set to FAILED ends with the mark (held) that it left, or with the file: that is
// a TERMINATE, too.
//
// Levels are compared as written, an aspect that isn't named as 0. Where the
// VNFD is at hand, [ClassifyLevels] is exact.
func Classify(before, after *desired.Instance) (t Type, params json.RawMessage, ok bool) {
	return ClassifyLevels(before, after, levels(before), levels(after))
}

// ClassifyLevels is [Classify] with the effective scale level of every aspect, as
// the VNFD gives it where the instance names none.
func ClassifyLevels(before, after *desired.Instance, from, to map[string]int) (Type, json.RawMessage, bool) {
	was, is := runs(before), runs(after)
	switch {
	case was && !is, desired.HasRemains(before) && !desired.MayHaveObjects(after):
		return Terminate, encode(map[string]any{"terminationType": Forceful}), true
	case !was && is:
		return Instantiate, instantiateParams(after), true
	case before == nil || after == nil:
		return "", nil, false
	case !was:
		if changed(before, after, "vnfdId") || repinned(before, after) || infoChanged(before, after) {
			return ModifyInfo, modifyParams(before, after), true
		}
		return "", nil, false
	}
	fresh := condemnedAnew(before, after)
	switch {
	case containerUpdate(before, after) && len(aspects(from, to)) == 0:
		return ModifyInfo, modifyParams(before, after), true
	case len(fresh) > 0 && collapses(before, after):
		return Heal, healParams(fresh), true
	case flavourChanged(before, after):
		return ChangeFlavour, changeFlavourParams(before, after), true
	case packageChanged(before, after):
		return ChangePackage, changePackageParams(before, after), true
	case extConnChanged(before, after):
		return ChangeExtConn, encode(map[string]any{"extVirtualLinks": after.ExtVirtualLinks}), true
	case (before.State == desired.Stopped) != (after.State == desired.Stopped):
		return Operate, encode(operateParams(after)), true
	}
	if t, params, ok := scaleChange(before, after, from, to, fresh); ok {
		return t, params, true
	}
	if len(fresh) > 0 {
		return Heal, healParams(fresh), true
	}
	if infoChanged(before, after) {
		return ModifyInfo, modifyParams(before, after), true
	}
	return "", nil, false
}

// NoRollbackLevels returns why the change can't be rolled back although the type that
// dominates it could be: one of its parts removes what can't be brought back. ""
// means that nothing prevents it. from and to are the effective scale levels of
// every aspect. The answer belongs in Operation.NoRollback.
func NoRollbackLevels(before, after *desired.Instance, from, to map[string]int) string {
	if !runs(before) || !runs(after) {
		return ""
	}
	for _, a := range aspects(from, to) {
		// The levels of two flavours can't be compared, and what a flavour hasn't is made anew.
		if to[a] < from[a] && before.Flavour == after.Flavour {
			return "aspect " + a + " is scaled in, and the units that it removed can't be brought back"
		}
	}
	if len(condemnedAnew(before, after)) > 0 {
		return "it heals, and the units that it replaced can't be brought back"
	}
	return ""
}

// runs says whether the VNF is to run.
func runs(in *desired.Instance) bool { return in != nil && in.State != desired.NotInstantiated }

func levels(in *desired.Instance) map[string]int {
	if in == nil {
		return nil
	}
	return in.Levels
}

// aspects returns the scaling aspects whose level differs, sorted.
func aspects(from, to map[string]int) []string {
	names := map[string]bool{}
	for a := range from {
		names[a] = true
	}
	for a := range to {
		names[a] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(a string) bool { return from[a] == to[a] })
}

func repinned(before, after *desired.Instance) bool {
	return before.Package != "" && after.Package != "" && before.Package != after.Package
}

func extConnChanged(before, after *desired.Instance) bool {
	return changed(before, after, "extVirtualLinks")
}

// changed says whether one of the keys of vnf.yaml differs in meaning.
func changed(before, after *desired.Instance, keys ...string) bool {
	return slices.ContainsFunc(desired.Changed(before, after), func(k string) bool { return slices.Contains(keys, k) })
}

func scaleChange(before, after *desired.Instance, from, to map[string]int, victims map[string]string) (Type, json.RawMessage, bool) {
	moved := aspects(from, to)
	switch {
	case before.InstantiationLevel != after.InstantiationLevel && after.InstantiationLevel != "":
		return ScaleToLevel, encode(map[string]any{"instantiationLevelId": after.InstantiationLevel}), true
	case before.InstantiationLevel != after.InstantiationLevel:
		// The default level, which a request can't ask for without naming it.
		return ScaleToLevel, encode(map[string]any{"scaleInfo": scaleInfo(to, slices.Sorted(maps.Keys(to)))}), true
	case len(moved) == 0:
		return "", nil, false
	case len(moved) == 1:
		a := moved[0]
		p := scaleParams{Type: ScaleOut, Aspect: a, Steps: to[a] - from[a]}
		if p.Steps < 0 {
			p.Type, p.Steps = ScaleIn, -p.Steps
			if ids, _ := condemnedVNFCs(victims); len(ids) > 0 {
				p.AdditionalParams = map[string]any{"vnfcInstanceId": ids}
			}
		}
		return Scale, encode(p), true
	}
	return ScaleToLevel, encode(map[string]any{"scaleInfo": scaleInfo(to, moved)}), true
}

// scaleLevel is one ScaleInfo (SOL003 clause 5.5.3.4).
type scaleLevel struct {
	Aspect string `json:"aspectId"`
	Level  int    `json:"scaleLevel"`
}

// scaleInfo lists the levels of the aspects.
func scaleInfo(levels map[string]int, aspects []string) []scaleLevel {
	info := []scaleLevel{}
	for _, a := range aspects {
		info = append(info, scaleLevel{a, levels[a]})
	}
	return info
}

// The values of ScaleVnfRequest.type (SOL003 clause 5.5.2.5).
const (
	ScaleOut = "SCALE_OUT"
	ScaleIn  = "SCALE_IN"
)

type scaleParams struct {
	Type   string `json:"type"`
	Aspect string `json:"aspectId"`
	Steps  int    `json:"numberOfSteps"`

	AdditionalParams map[string]any `json:"additionalParams,omitempty"`
}

// scalesIn reads the direction out of a ScaleVnfRequest. It takes params that can't be
// read for a scale-in, so that a rollback is refused rather than tried.
func scalesIn(params json.RawMessage) bool {
	var p scaleParams
	return json.Unmarshal(params, &p) != nil || p.Type != ScaleOut
}

// condemnedAnew returns the tombstones that before doesn't have, by key.
func condemnedAnew(before, after *desired.Instance) map[string]string {
	fresh := map[string]string{}
	for key, incarnation := range after.Condemned {
		if before.Condemned[key] != incarnation {
			fresh[key] = incarnation
		}
	}
	return fresh
}

// healParams returns a HealVnfRequest for the tombstones. It names VNFCs and says whether
// their storage is healed too; the data type has no place for other objects, such as the
// top-level ones that the heal of a whole VNF lists.
func healParams(fresh map[string]string) json.RawMessage {
	ids, stored := condemnedVNFCs(fresh)
	p := map[string]any{}
	if len(ids) > 0 {
		p["vnfcInstanceId"] = ids
	}
	if len(ids) > 0 && stored {
		p["additionalParams"] = map[string]any{"all": true}
	}
	return encode(p)
}

// condemnedVNFCs returns the ids of the VNFCs among the tombstones, sorted, and whether
// there is storage among them.
func condemnedVNFCs(fresh map[string]string) (ids []string, stored bool) {
	for key, incarnation := range fresh {
		switch kind, _, _ := strings.Cut(key, "/"); kind {
		case "Pod", "Server":
			ids = append(ids, plan.Unit{ID: incarnation}.Resource())
		case "Volume":
			stored = true
		}
	}
	slices.Sort(ids)
	return ids, stored
}

func infoChanged(before, after *desired.Instance) bool {
	return changed(before, after, "name", "description", "vimConnectionInfo", "placement", "metadata", "extensions", "vnfConfigurableProperties")
}

func instantiateParams(in *desired.Instance) json.RawMessage {
	p := map[string]any{"flavourId": in.Flavour}
	if in.InstantiationLevel != "" {
		p["instantiationLevelId"] = in.InstantiationLevel
	}
	if len(in.VIMConnections) > 0 {
		p["vimConnectionInfo"] = connections(in.VIMConnections)
	}
	if len(in.ExtVirtualLinks) > 0 {
		p["extVirtualLinks"] = in.ExtVirtualLinks
	}
	if len(in.ExtManagedVirtualLinks) > 0 {
		p["extManagedVirtualLinks"] = in.ExtManagedVirtualLinks
	}
	additional := maps.Clone(in.Params)
	if len(in.Placement) > 0 {
		if additional == nil {
			additional = map[string]any{}
		}
		additional["placement"] = in.Placement
	}
	put(p, "additionalParams", additional)
	put(p, "extensions", in.Extensions)
	put(p, "vnfConfigurableProperties", in.ConfigurableProperties)
	return encode(p)
}

func modifyParams(before, after *desired.Instance) json.RawMessage {
	p := map[string]any{}
	for _, key := range desired.Changed(before, after) {
		switch key {
		case "name":
			p["vnfInstanceName"] = after.Name
		case "description":
			p["vnfInstanceDescription"] = after.Description
		case "vnfdId":
			p["vnfdId"] = after.VnfdID
		case "metadata":
			p[key] = redact(after.Metadata)
		case "extensions":
			p[key] = redact(after.Extensions)
		case "vnfConfigurableProperties":
			p[key] = redact(after.ConfigurableProperties)
		case "vimConnectionInfo":
			p[key] = connections(after.VIMConnections)
		}
	}
	return encode(p)
}

func put(p map[string]any, key string, m map[string]any) {
	if len(m) > 0 {
		p[key] = redact(m)
	}
}

// connections returns VIM connections as the API shows them, without secrets.
func connections(in map[string]desired.VIMConnection) map[string]any {
	out := map[string]any{}
	for id, c := range in {
		var shown map[string]any
		if json.Unmarshal(encode(c), &shown) == nil {
			out[id] = redact(shown)
		}
	}
	return out
}

// redact returns v without what is secret by its name. Callers that know the VNFD also
// take out what that declares secret.
func redact(v any) any { return desired.SecretNames{}.Strip(v) }

// encode can't fail: its values were decoded from YAML or JSON.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
