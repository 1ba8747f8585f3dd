package plan

import (
	"strconv"
	"strings"
)

// The texts under which a journal holds steps, targets and hooks. They are written and
// read here alone.
const (
	// atIncarnation stands before an incarnation, and before a VDU that is scaled.
	atIncarnation = "@"
	// toCount stands before the number of units that an object is scaled to.
	toCount = "="
	// ownedBy stands between a unit and its owner.
	ownedBy = " of "
	// atUnit stands between the name of a script and the key of the unit that it runs for.
	atUnit = "@"
	// atLife stands between the VIM's id of a unit and which of its lives it is.
	atLife = "@"
)

// StepKey identifies a step among all that an instance may ever need: the same action on
// the same thing to the same end has the same key. It is
//
//	action:object                      apply:Deployment/amf/vdu1
//	action:object=count[@vdu]          scale:Stack/vnf-1=2@web
//	action:object@incarnation          delete:Pod/amf/bare@b1
//	action:unit@incarnation of owner   deleteUnit:Pod/amf/vdu1-a@u1 of Deployment/amf/vdu1
//
// An object's name may hold an @, too, and so may an incarnation: a key is compared with
// what it may be of, and not taken apart.
type StepKey string

// Key is the step's key.
func (s Step) Key() StepKey {
	k := string(s.Action) + ":" + s.Object
	if s.Incarnation != "" {
		k += atIncarnation + s.Incarnation
	}
	if s.Action == Scale {
		k += toCount + strconv.Itoa(s.To)
		if s.VDU != "" {
			k += atIncarnation + s.VDU
		}
	}
	if s.Owner != "" {
		k += ownedBy + s.Owner
	}
	return StepKey(k)
}

// on says whether the step is on the object or unit of that key, or on a unit of it.
func (k StepKey) on(key string) bool {
	_, object, _ := strings.Cut(string(k), ":")
	if _, owner, ok := strings.Cut(object, ownedBy); ok && owner == key {
		return true
	}
	rest, ok := strings.CutPrefix(object, key)
	return ok && (rest == "" || strings.HasPrefix(rest, atIncarnation) || strings.HasPrefix(rest, toCount))
}

// deletes says whether the step deletes the incarnation, of an object or of a unit.
func (k StepKey) deletes(incarnation string) bool {
	step, _, _ := strings.Cut(string(k), ownedBy)
	action, _, _ := strings.Cut(step, ":")
	return (Action(action) == Delete || Action(action) == DeleteUnit) && strings.HasSuffix(step, atIncarnation+incarnation)
}

// Target names a condemned incarnation in [Journal.Targets]: its key, an @, and the
// incarnation. Both may hold an @ themselves.
type Target string

// TargetOf is the target of the incarnation under the key.
func TargetOf(key, incarnation string) Target { return Target(key + atIncarnation + incarnation) }

// is says whether the target is this incarnation.
func (t Target) is(incarnation string) bool {
	return strings.HasSuffix(string(t), atIncarnation+incarnation)
}

// key is the key of the target, where no incarnation holds an @: those of objects don't.
func (t Target) key() string {
	return string(t)[:max(0, strings.LastIndex(string(t), atIncarnation))]
}

// hookNames are the names of the Vnflcm interface's operations, by the type of the operation.
var hookNames = map[string]string{
	"INSTANTIATE":     "instantiate",
	"TERMINATE":       "terminate",
	"SCALE":           "scale",
	"SCALE_TO_LEVEL":  "scale_to_level",
	"HEAL":            "heal",
	"CHANGE_VNFPKG":   "change_current_package",
	"CHANGE_EXT_CONN": "change_external_connectivity",
	"CHANGE_FLAVOUR":  "change_flavour",
	"OPERATE":         "operate",
	"MODIFY_INFO":     "modify_information",
}

// HookName is the name of an operation's preamble ("start") or postamble
// ("end") in the VNFD's Vnflcm interface (SOL001 clause 6.7), or "" for an
// operation that has none.
func HookName(operation string, rollback bool, side string) string {
	base, ok := hookNames[operation]
	if !ok {
		return ""
	}
	if rollback {
		base += "_rollback"
	}
	return base + "_" + side
}

// ofAction stands between the point of an operation and the LCM coordination action for which
// somebody is asked there, in the name of a hook.
const ofAction = ":"

// CoordinationHook is the name of the hook that asks for an LCM coordination action at a point
// of the operation ([Desired.Coordinated]). It may get a unit as any other hook.
func CoordinationHook(point, action string) string { return point + ofAction + action }

// Coordination splits the name of a hook, without its unit, into the point of the operation and
// the LCM coordination action; action is "" for a hook that runs a program.
func Coordination(hook string) (point, action string) {
	point, action, _ = strings.Cut(hook, ofAction)
	return point, action
}

// unitHook is the name of a hook that runs the script for one unit.
func unitHook(script, unit string) string { return script + atUnit + unit }

// HookUnit splits the name of a hook that runs for one unit into the script's name and
// the unit's key; unit is "" for one that runs for the whole VNF.
func HookUnit(name string) (script, unit string) {
	script, unit, _ = strings.Cut(name, atUnit)
	return script, unit
}

// KindOf is the kind of the object or unit under the key ([Object.Key]).
func KindOf(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

// ResourceOf is the VIM's id of the unit with this incarnation, whichever of its lives that
// is ([Unit.ID]).
func ResourceOf(incarnation string) string {
	id, _, _ := strings.Cut(incarnation, atLife)
	return id
}
