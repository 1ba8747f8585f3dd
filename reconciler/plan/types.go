// Package plan decides what to do next for one VNF instance.
//
// It compares what should exist ([Desired]) with what does ([Observed]), minds
// what cannot be observed ([Journal]), and answers with plain data ([Step]). It
// is the only decider in Jibe, and it is pure: no I/O, no clock, no driver. It
// imports nothing but the standard library.
package plan

import "strconv"

// Desired is what one VNF instance should be at its VIM, as a driver rendered
// it. The zero value means that nothing of the instance should exist.
type Desired struct {
	// Objects in the order in which they are created. They are deleted in reverse.
	Objects []Object
	// Groups of units, at most one per VDU and owner.
	Groups []Group
	// Condemned names incarnations that must not exist (heal): key -> incarnation.
	Condemned map[string]string
}

// Object is one thing that the VIM stores: a Kubernetes object, a Heat stack.
type Object struct {
	// Key names the object whatever its incarnation: "Kind/namespace/name".
	Key string
	// Wave orders creation: a wave is applied only when every earlier one is ready.
	Wave int
	// Digest identifies the rendered content, without the number of units.
	Digest string
}

// Group is the units (VNFCs) of one VDU that one object owns.
type Group struct {
	VDU   string
	Owner string // the key of the owning object
	// Count is the number of units that should exist.
	Count int
	// Free says that the VIM decides how many units there are (a DaemonSet, an
	// autoscaled Deployment): Count is then ignored.
	Free bool
}

// Observed is what exists now, whoever made it.
type Observed struct {
	Objects []ObservedObject
	Units   []Unit
}

// Retention says when an object that is no longer desired may be deleted.
type Retention string

const (
	// RetainNot: as soon as it is no longer desired.
	RetainNot Retention = ""
	// RetainWithInstance: only when the whole instance goes (claims of a StatefulSet).
	RetainWithInstance Retention = "instance"
	// RetainAlways: never (namespaces, CRDs).
	RetainAlways Retention = "always"
)

// ObservedObject is the present incarnation of an object.
type ObservedObject struct {
	Key string
	// Incarnation is the VIM's identity of it (a Kubernetes UID), never reused.
	Incarnation string
	// Digest is that of the render which stands there; it differs from
	// [Object.Digest] when the object must be applied.
	Digest string
	// Count is the number of units that the object asks the VIM for, or -1
	// where it has no such number.
	Count     int
	Ready     bool
	Deleting  bool
	Retention Retention
	// Reason tells a person why the object isn't ready.
	Reason string
	// Failure, if not empty, tells why the object will not become ready by itself.
	Failure string
}

// Unit is one VNFC: a pod, a server.
type Unit struct {
	// ID is the incarnation (pod UID; server id and launch time).
	ID string `json:"id"`
	// Key names the unit in tombstones: "Pod/namespace/name".
	Key string `json:"key"`
	// Name is the VIM's name or id of it: pod name, server id.
	Name  string `json:"name"`
	VDU   string `json:"vdu"`
	Owner string `json:"owner,omitempty"`
	Ready bool   `json:"ready"`
	// Deleting units still run but will go; they don't count.
	Deleting bool   `json:"deleting,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Failure  string `json:"failure,omitempty"`
	// Kind is the VIM's type of the unit's owner, as vimLevelResourceType
	// reports it: "Deployment", "Pod", "OS::Nova::Server".
	Kind string `json:"kind,omitempty"`
	// Metadata is shown in vnfcResourceInfo.metadata: node, address, image.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Journal holds, for the attempt under way, what the VIM can't tell.
// The zero value means that no operation is open.
type Journal struct {
	// Operation is the ETSI type of the open operation ("SCALE"), or "".
	Operation string `json:"operation,omitempty"`
	// Rollback is set while the operation is being rolled back.
	Rollback bool `json:"rollback,omitempty"`
	// Granted is set once the grant was given, or where none is needed.
	Granted bool `json:"granted,omitempty"`
	// Hooks done in this operation, by name ("scale_start").
	Hooks []string `json:"hooks,omitempty"`
	// Issued are the keys of the steps handed to the driver in this attempt. A
	// failure seen at the VIM counts only where a step on that object was issued.
	Issued []string `json:"issued,omitempty"`
}

// Action is what a step does.
type Action string

// The actions, in the order in which an operation meets them.
const (
	Grant      Action = "grant"      // ask for the right to use resources
	Hook       Action = "hook"       // run a management driver's program
	Apply      Action = "apply"      // create the object or bring it to its render
	Scale      Action = "scale"      // change only the number of units of an object
	DeleteUnit Action = "deleteUnit" // delete one incarnation of a unit
	Delete     Action = "delete"     // delete one incarnation of an object
	Wait       Action = "wait"       // nothing to do but watch
)

// Step is one idempotent action, as data. Steps are never stored.
type Step struct {
	// Stage orders steps: those of one stage may be done in one batch; those of
	// the next only after everything was observed and computed again.
	Stage  int    `json:"stage"`
	Action Action `json:"action"`
	// Object is the key of the object or unit, or the name of the hook.
	Object string `json:"object"`
	// Incarnation is what Delete and DeleteUnit act on; a successor is never hit.
	Incarnation string `json:"incarnation,omitempty"`
	// From and To are numbers of units, for Scale (and Apply of a scalable
	// object); From is -1 where the object doesn't exist yet.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Reason tells a person why: "new", "changed", "2 of 3 pods are ready".
	Reason string `json:"reason,omitempty"`
	// Failure on a Wait says that waiting is in vain, and why.
	Failure string `json:"failure,omitempty"`
}

// Key identifies the step among all that an instance may ever need: the same
// action on the same thing to the same end has the same key.
func (s Step) Key() string {
	k := string(s.Action) + ":" + s.Object
	if s.Incarnation != "" {
		k += "@" + s.Incarnation
	}
	if s.Action == Scale {
		k += "=" + strconv.Itoa(s.To)
	}
	return k
}

// Next is the leading batch of steps: those of the first stage.
func Next(steps []Step) []Step {
	for i, s := range steps {
		if s.Stage != steps[0].Stage {
			return steps[:i]
		}
	}
	return steps
}

// String is the step as people read it: "scale Deployment/amf/vdu1 2 -> 3".
func (s Step) String() string {
	line := string(s.Action) + " " + s.Object
	if s.Action == Scale || s.Action == Apply && s.To > 0 {
		if s.From < 0 {
			line += " 0"
		} else {
			line += " " + strconv.Itoa(s.From)
		}
		line += " -> " + strconv.Itoa(s.To)
	}
	if why := s.Failure; why != "" {
		return line + " (failing: " + why + ")"
	}
	if s.Reason != "" {
		line += " (" + s.Reason + ")"
	}
	return line
}
