// Package plan decides what to do next for one VNF instance.
//
// It compares what should exist ([Desired]) with what does ([Observed]), minds
// what cannot be observed ([Journal]), and answers with plain data ([Step]). It
// is the only decider in Jibe, and it is pure: no I/O, no clock, no driver. It
// imports nothing but the standard library.
package plan

import (
	"fmt"
	"slices"
	"time"
)

// Desired is what one VNF instance should be at its VIM, as a driver rendered
// it. The zero value means that nothing of the instance should exist.
type Desired struct {
	// Objects in the order in which they are created. They are deleted in reverse.
	Objects []Object
	// Groups of units, at most one per VDU and owner.
	Groups []Group
	// Condemned names incarnations that must not exist (heal): key -> incarnation.
	Condemned map[string]string
	// Generation is that of the units that should run, "" where the VIM has no
	// generations. While units or objects of another generation exist, two stand
	// side by side: traffic is redirected only when the desired one is ready, and the
	// other goes last (blue-green).
	Generation string
	// UserData says that a hook of the package computes parameters before all else.
	UserData bool
	// CoordinateNew and CoordinateOld say that a change of package has a coordination
	// script for the new VNF, and one for the old VNF.
	CoordinateNew, CoordinateOld bool
	// CoordinateVDUs are the VDUs to whose units the scripts speak, where they run for
	// each unit that a change renews; none means all.
	CoordinateVDUs []string
	// Coordinated are the LCM coordination actions (SOL002 clause 10), in their order, for which
	// somebody outside is asked at a point of the operation: [HookName] of it, before the hook of
	// that name at its start and after it at its end; [CoordinateNew] and [CoordinateOld], after
	// the script, for each unit where a script would run for each.
	Coordinated map[string][]string
	// Drain says that, after traffic was redirected, connections get time to end
	// before the generation that they are on goes.
	Drain bool
	// Grace says that a termination or a stop leaves the units time before they are deleted or
	// stopped, where their owner is passive; others leave it by themselves.
	Grace bool
	// Within, where it isn't nil, is how many seconds units that are being deleted get at
	// most, however many they ask for.
	Within *int
}

// Object is one thing that the VIM stores: a Kubernetes object, a Heat stack.
type Object struct {
	// Key names the object whatever its incarnation: "Kind/namespace/name".
	Key string
	// Wave orders creation: a wave is applied only when every earlier one is ready.
	Wave int
	// Digest identifies the rendered content, without the number of units.
	Digest string
	// Once says that the object does its work and may then be tidied away (a Job): it may
	// be missing unless it is still to be run.
	Once bool
	// Directs says that the object directs traffic to units (a Service): one that
	// exists is changed by a change of package only when those units are ready.
	Directs bool
	// Posted says that the VIM doesn't keep the object (a SubjectAccessReview): an instantiation
	// hands it over once. It is never observed, so it can't be missing or superfluous.
	Posted bool
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
	// Stopped says that the units should exist and not run, where their owner is passive. An
	// active owner's, which can't do that, are none instead.
	Stopped bool
	// Digest identifies what the units are made of; "" where the driver doesn't tell. The
	// planner decides nothing by it: it tells which VDUs a change of package touches.
	Digest string
}

// Observed is what exists now regardless of who made it.
type Observed struct {
	Objects []ObservedObject
	Units   []Unit
	// Resources are what the units use and the VIM reports beside them. Nothing is
	// decided on them.
	Resources []Resource
	// Others live as units do but are no VNFCs (the pods of a Job): nothing is
	// decided on them. Their Reason tells a person why they can't be healed.
	Others []Unit
	// Left is the handover of objects that somebody else deleted to their successors
	// ([ObservedObject.Keep]), by key, as far as it is remembered.
	Left map[string]string
}

// Has says whether the incarnation exists under the key, be it an object or a unit.
func (o Observed) Has(key, incarnation string) bool {
	return slices.ContainsFunc(o.Objects, func(x ObservedObject) bool { return x.Key == key && x.Incarnation == incarnation }) ||
		slices.ContainsFunc(o.Units, func(u Unit) bool { return u.Key == key && u.ID == incarnation })
}

// Unspent are the tombstones whose incarnation still exists; the others have
// done their work and may be dropped.
func (o Observed) Unspent(condemned map[string]string) map[string]string {
	var left map[string]string
	for key, incarnation := range condemned {
		if o.Has(key, incarnation) {
			if left == nil {
				left = map[string]string{}
			}
			left[key] = incarnation
		}
	}
	return left
}

// Retention says when an object may be deleted: because it is no longer desired,
// or because the whole VNF is healed, which creates anew what is RetainNot.
type Retention string

const (
	// RetainNot: as soon as it is no longer desired.
	RetainNot Retention = ""
	// RetainData: as soon as it is no longer desired, but a heal of the whole VNF
	// leaves it unless it is asked otherwise (claims and volumes of the package).
	RetainData Retention = "data"
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
	// Digest identifies the content that stands there; it differs from [Object.Digest] when
	// the object must be applied.
	Digest string
	// Count is the number of units that the object asks the VIM for, or -1
	// where it has no such number.
	Count int
	// Counts are these numbers by VDU, where the object owns the units of several; nil
	// where Count says it all.
	Counts map[string]int
	// Passive says that the object does nothing for its units by itself (a Heat stack): it
	// makes no successor of a dead one, loses exactly those that a step names when their
	// number shrinks, and brings each one to its render when a step says so (Renew).
	Passive bool
	// Ordered says that the object numbers its units by itself, and takes those with the
	// highest numbers first when there are to be fewer (a StatefulSet).
	Ordered bool
	// Autoscaled, if not empty, is what at the VIM decides how many units the object asks for, as
	// long as they are not none (a HorizontalPodAutoscaler that came with no package).
	Autoscaled string
	Ready      bool
	Deleting   bool
	Retention  Retention
	// Data reports that data are lost with the object: a volume, or what has volumes.
	Data bool
	// Created is when the incarnation was made, zero where the VIM doesn't say.
	Created time.Time
	// Reason tells a person why the object isn't ready.
	Reason string
	// Failure, if not empty, says why the object will not become ready by itself.
	Failure string
	// Stalled, if not empty, says in which failure the last work on the object ended,
	// where it goes on only when the object is applied again (a stack in UPDATE_FAILED).
	Stalled string
	// Dead, if not empty, says why this incarnation will never run again, so that
	// only a successor can take its place (a bare Pod that was evicted).
	Dead string
	// Outgrown, if not empty, says why this incarnation can't be brought to its
	// render, so that it must be made anew (a bare Pod whose volumes changed).
	Outgrown string
	// LeftBy, if not empty, is the key of the object's owner, which was deleted and left it
	// behind. One that is made anew under that key takes it back.
	LeftBy string
	// Generation is that of which the object is, "" for what generations share.
	Generation string
	// Keep is the handover of this incarnation to a successor, in the driver's
	// own form (the addresses of a Service); "" where there is nothing.
	Keep string
	// Marked says that the object directs traffic to another generation than the desired
	// one by Jibe's mark of that generation, although the package's own labels tell the two
	// apart as well: who switches it by these alone would leave it with no units at all.
	Marked bool
	// Blurred says that the object directs traffic to another generation than the desired
	// one, and that nothing would keep it from the desired one's units once there are any.
	Blurred bool
}

// Unit is one VNFC: a pod, a server.
type Unit struct {
	// ID is the incarnation: the VIM's id (a pod UID), and after an @ which of its lives
	// it is, where the VIM brings one id to life again (a server that is rebuilt).
	ID string `json:"id"`
	// Key names the unit in tombstones: "Pod/namespace/name".
	Key string `json:"key"`
	// Name is the VIM's name or id of it: pod name, server id.
	Name  string `json:"name"`
	VDU   string `json:"vdu"`
	Owner string `json:"owner,omitempty"`
	Ready bool   `json:"ready"`
	// Deleting units still run but will go; they don't count.
	Deleting bool `json:"deleting,omitempty"`
	// Grace is how many seconds the VIM gives a unit that is being deleted to end by itself.
	Grace int `json:"-"`
	// Stopped units have been turned off by the VIM, or are about to be: until then they are
	// still Ready. They count.
	Stopped bool   `json:"stopped,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Generation is that of which the unit is, "" where the VIM has none.
	Generation string `json:"generation,omitempty"`
	// Outdated, if not empty, says in what the unit differs from what its owner makes
	// now, where the owner won't replace it by itself (a ReplicaSet).
	Outdated string `json:"-"`
	// Blocks reports whether the owner makes and replaces no unit until this one, which isn't ready, is gone.
	Blocks bool `json:"-"`
	// Dead, if not empty, says why this incarnation will never run again, where its
	// owner won't make a successor by itself (a server that was deleted behind Heat).
	Dead string `json:"-"`
	// Orphan says that nothing at the VIM owns the unit any more, so that nobody ends it: its
	// owner was deleted and left it behind. An owner that is made anew may take it back.
	Orphan bool `json:"-"`
	// Created is when the unit was made, where its owner is passive: the newest goes first.
	Created time.Time `json:"created,omitzero"`
	// Kind is the VIM's type of the unit's owner, as vimLevelResourceType
	// reports it: "Deployment", "Pod", "OS::Nova::Server".
	Kind string `json:"kind,omitempty"`
	// VIM names the VIM that the unit runs at, where an instance is spread over several.
	VIM string `json:"vim,omitempty"`
	// Metadata is shown in vnfcResourceInfo.metadata: node, address, image.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Resource is the VIM's id of the unit, whichever of its lives this one is.
func (u Unit) Resource() string { return ResourceOf(u.ID) }

// ResourceKind is what a resource is for: the type of a ResourceDefinition (SOL003
// v3.3.1 clause 9.5.3.2).
type ResourceKind string

// The kinds of resources that units use.
const (
	LinkPort    ResourceKind = "LINKPORT"
	Storage     ResourceKind = "STORAGE"
	VirtualLink ResourceKind = "VL"
)

// Resource is something that units use and that the VIM reports beside them: a port,
// a volume, a network.
type Resource struct {
	Kind ResourceKind `json:"kind"`
	// ID is the VIM's id of it, Type the VIM's type ("OS::Neutron::Port").
	ID   string `json:"id"`
	Type string `json:"type"`
	// Name is the VNFD's: of the connection point, the storage, the virtual link.
	Name string `json:"name"`
	// Unit is the key of the unit that uses it, "" for what units share.
	Unit string `json:"unit,omitempty"`
	// VIM is as that of a unit.
	VIM string `json:"vim,omitempty"`
	// Network is the VIM's id of the network that a port is on. External says that the
	// network isn't the VNF's own.
	Network  string `json:"network,omitempty"`
	External bool   `json:"external,omitempty"`
	// MAC, Addresses (fixed) and Floating are a port's addresses.
	MAC       string    `json:"mac,omitempty"`
	Addresses []Address `json:"addresses,omitempty"`
	Floating  string    `json:"floating,omitempty"`
}

// Address is an IP address of a port, and the subnet that it is of.
type Address struct {
	IP     string `json:"ip"`
	Subnet string `json:"subnet,omitempty"`
}

// Action is what a step does.
type Action string

// The actions, in the order in which an operation meets them.
const (
	Grant      Action = "grant"      // ask for the right to use resources
	Hook       Action = "hook"       // run a hook of the package
	Apply      Action = "apply"      // create the object or bring it to its render
	Post       Action = "post"       // hand over an object that the VIM doesn't keep
	Scale      Action = "scale"      // change only the number of units of an object
	DeleteUnit Action = "deleteUnit" // delete one incarnation of a unit
	Renew      Action = "renew"      // bring one unit to what its owner makes now, in place or by a successor
	Stop       Action = "stop"       // turn one unit off, which stays
	Start      Action = "start"      // turn one unit on
	Delete     Action = "delete"     // delete one incarnation of an object
	Reselect   Action = "reselect"   // direct traffic to the same units by other labels ([ObservedObject.Marked], Blurred)
	Drain      Action = "drain"      // leave connections time to end
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
	// VDU is the one whose units Scale counts, where the object has those of several.
	VDU string `json:"vdu,omitempty"`
	// Victims are the incarnations of units that go when Scale shrinks what is passive.
	Victims []string `json:"victims,omitempty"`
	// Reason tells a person why: "new", "changed", "2 of 3 pods are ready".
	Reason string `json:"reason,omitempty"`
	// Failure on a Wait says that waiting is in vain, and why.
	Failure string `json:"failure,omitempty"`
	// Owner is the key of the object that owns the unit, for DeleteUnit, Renew, Stop and Start.
	Owner string `json:"owner,omitempty"`
	// Within, where it isn't nil, is how many seconds DeleteUnit leaves the unit.
	Within *int `json:"within,omitempty"`
	// Keep, on the Delete of an object that will be made anew, is what its
	// successor must take over; on the Apply of the successor it is that again.
	Keep string `json:"keep,omitempty"`
	// Directs is set on the Apply that switches traffic to other units.
	Directs bool `json:"directs,omitempty"`
	// Prunes is set on the Delete of what is no longer desired: [Journal.Pruned] keeps it, which a
	// Delete of what is made anew must not set.
	Prunes bool `json:"-"`
}

// Next is the first batch of steps: those of the first stage.
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
	if s.VDU != "" {
		line += " " + s.VDU
	}
	switch {
	case s.Action == Drain:
		line = "drain connections"
	case s.Action == Scale || s.Action == Apply && (s.To > 0 || s.From > 0):
		line += fmt.Sprintf(" %d -> %d", max(s.From, 0), s.To)
	}
	if why := s.Failure; why != "" {
		return line + " (failing: " + why + ")"
	}
	if s.Reason != "" {
		line += " (" + s.Reason + ")"
	}
	return line
}

// shows says whether a VIM shows that the step is done.
func (s Step) shows() bool {
	switch s.Action {
	case Grant, Hook, Drain, Post:
		return false
	}
	return true
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
