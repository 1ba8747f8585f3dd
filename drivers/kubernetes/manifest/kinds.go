package manifest

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Class orders what one batch does: everything of a class is done, side by side,
// before the next class begins. Deleting goes the other way round.
type Class int

// The classes, in the order in which they are made.
const (
	ClassFirst     Class = iota // namespaces, definitions, the inventory
	ClassSupports               // what pods need to start
	ClassWorkloads              // what makes pods
	ClassOthers                 // what needs or wraps workloads, and unknown kinds
	Classes                     // how many classes there are
)

// KindInfo is what must be known of a kind without asking the API server, as
// rendering is pure.
type KindInfo struct {
	// Class is when objects of the kind are made.
	Class Class
	// Cluster says that they are in no namespace.
	Cluster bool
	// Always says that the kind is watched for every VIM, so that what an instance
	// left behind is found without its package. Other kinds stand in the inventory.
	Always bool
	// Shared kinds outlive instances and may be used by several: they are never
	// deleted, and one that exists already is used as it stands.
	Shared bool
	// Posted kinds are taken by the API server and not kept: it serves no get and no list
	// of them. Most have no name.
	Posted bool
}

// Groups of kinds that every API server has.
const (
	GroupCore       = ""
	apps            = "apps"
	GroupBatch      = "batch"
	GroupRBAC       = "rbac.authorization.k8s.io"
	networking      = "networking.k8s.io"
	storage         = "storage.k8s.io"
	admission       = "admissionregistration.k8s.io"
	flowcontrol     = "flowcontrol.apiserver.k8s.io"
	apiext          = "apiextensions.k8s.io"
	autoscaling     = "autoscaling"
	policy          = "policy"
	authentication  = "authentication.k8s.io"
	authorization   = "authorization.k8s.io"
	GroupScheduling = "scheduling.k8s.io"
	node            = "node.k8s.io"
	coordination    = "coordination.k8s.io"
	discovering     = "discovery.k8s.io"
)

// Kinds of which more is to be known than the table has.
var (
	KindPod         = schema.GroupKind{Group: GroupCore, Kind: "Pod"}
	KindClaim       = schema.GroupKind{Group: GroupCore, Kind: "PersistentVolumeClaim"}
	KindVolume      = schema.GroupKind{Group: GroupCore, Kind: "PersistentVolume"}
	KindService     = schema.GroupKind{Group: GroupCore, Kind: "Service"}
	KindConfigMap   = schema.GroupKind{Group: GroupCore, Kind: "ConfigMap"}
	KindNamespace   = schema.GroupKind{Group: GroupCore, Kind: "Namespace"}
	KindDeployment  = schema.GroupKind{Group: apps, Kind: "Deployment"}
	KindReplicaSet  = schema.GroupKind{Group: apps, Kind: "ReplicaSet"}
	KindStatefulSet = schema.GroupKind{Group: apps, Kind: "StatefulSet"}
	KindDaemonSet   = schema.GroupKind{Group: apps, Kind: "DaemonSet"}
	KindJob         = schema.GroupKind{Group: GroupBatch, Kind: "Job"}
	KindCRD         = schema.GroupKind{Group: apiext, Kind: "CustomResourceDefinition"}
	KindStorage     = schema.GroupKind{Group: storage, Kind: "StorageClass"}
	KindSlice       = schema.GroupKind{Group: discovering, Kind: "EndpointSlice"}
	kindSecret      = schema.GroupKind{Group: GroupCore, Kind: "Secret"}
	kindController  = schema.GroupKind{Group: GroupCore, Kind: "ReplicationController"}
	kindCronJob     = schema.GroupKind{Group: GroupBatch, Kind: "CronJob"}
	kindBudget      = schema.GroupKind{Group: policy, Kind: "PodDisruptionBudget"}
	kindPolicy      = schema.GroupKind{Group: networking, Kind: "NetworkPolicy"}
	kindAccount     = schema.GroupKind{Group: GroupCore, Kind: "ServiceAccount"}
	KindAutoscaler  = schema.GroupKind{Group: autoscaling, Kind: "HorizontalPodAutoscaler"}
)

// Kinds are those that every API server has. It is a table, never changed.
var Kinds = map[schema.GroupKind]KindInfo{
	KindNamespace: {Class: ClassFirst, Cluster: true, Shared: true},
	KindCRD:       {Class: ClassFirst, Cluster: true, Shared: true},

	{Group: GroupScheduling, Kind: "PriorityClass"}: {Class: ClassSupports, Cluster: true},
	{Group: node, Kind: "RuntimeClass"}:             {Class: ClassSupports, Cluster: true},
	KindStorage:                                     {Class: ClassSupports, Cluster: true},
	{Group: storage, Kind: "CSIDriver"}:             {Class: ClassSupports, Cluster: true},
	{Group: networking, Kind: "IngressClass"}:       {Class: ClassSupports, Cluster: true},
	{Group: GroupCore, Kind: "Node"}:                {Class: ClassSupports, Cluster: true},
	{Group: GroupCore, Kind: "ResourceQuota"}:       {Class: ClassSupports},
	{Group: GroupCore, Kind: "LimitRange"}:          {Class: ClassSupports},
	{Group: GroupCore, Kind: "ServiceAccount"}:      {Class: ClassSupports, Always: true},
	{Group: GroupRBAC, Kind: "Role"}:                {Class: ClassSupports, Always: true},
	{Group: GroupRBAC, Kind: "RoleBinding"}:         {Class: ClassSupports, Always: true},
	{Group: GroupRBAC, Kind: "ClusterRole"}:         {Class: ClassSupports, Cluster: true},
	{Group: GroupRBAC, Kind: "ClusterRoleBinding"}:  {Class: ClassSupports, Cluster: true},
	KindConfigMap:                           {Class: ClassSupports, Always: true},
	{Group: GroupCore, Kind: "Secret"}:      {Class: ClassSupports, Always: true},
	KindVolume:                              {Class: ClassSupports, Cluster: true},
	KindClaim:                               {Class: ClassSupports, Always: true},
	KindService:                             {Class: ClassSupports, Always: true},
	{Group: GroupCore, Kind: "Endpoints"}:   {Class: ClassSupports},
	KindSlice:                               {Class: ClassSupports, Always: true},
	{Group: GroupCore, Kind: "PodTemplate"}: {Class: ClassSupports},
	{Group: networking, Kind: "NetworkPolicy"}: {Class: ClassSupports, Always: true},

	KindPod:         {Class: ClassWorkloads, Always: true},
	KindReplicaSet:  {Class: ClassWorkloads, Always: true},
	KindDeployment:  {Class: ClassWorkloads, Always: true},
	KindStatefulSet: {Class: ClassWorkloads, Always: true},
	KindDaemonSet:   {Class: ClassWorkloads, Always: true},
	{Group: GroupCore, Kind: "ReplicationController"}: {Class: ClassWorkloads},
	{Group: GroupBatch, Kind: "Job"}:                  {Class: ClassWorkloads, Always: true},
	{Group: GroupBatch, Kind: "CronJob"}:              {Class: ClassWorkloads, Always: true},

	KindAutoscaler: {Class: ClassOthers, Always: true},
	{Group: policy, Kind: "PodDisruptionBudget"}:                 {Class: ClassOthers, Always: true},
	{Group: networking, Kind: "Ingress"}:                         {Class: ClassOthers, Always: true},
	{Group: coordination, Kind: "Lease"}:                         {Class: ClassOthers},
	{Group: apps, Kind: "ControllerRevision"}:                    {Class: ClassOthers},
	{Group: storage, Kind: "VolumeAttachment"}:                   {Class: ClassOthers, Cluster: true},
	{Group: flowcontrol, Kind: "FlowSchema"}:                     {Class: ClassOthers, Cluster: true},
	{Group: flowcontrol, Kind: "PriorityLevelConfiguration"}:     {Class: ClassOthers, Cluster: true},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:        {Class: ClassOthers, Cluster: true},
	{Group: admission, Kind: "ValidatingAdmissionPolicy"}:        {Class: ClassOthers, Cluster: true},
	{Group: admission, Kind: "ValidatingAdmissionPolicyBinding"}: {Class: ClassOthers, Cluster: true},
	{Group: admission, Kind: "ValidatingWebhookConfiguration"}:   {Class: ClassOthers, Cluster: true},
	{Group: admission, Kind: "MutatingWebhookConfiguration"}:     {Class: ClassOthers, Cluster: true},

	{Group: authentication, Kind: "TokenReview"}:            {Class: ClassOthers, Cluster: true, Posted: true},
	{Group: authentication, Kind: "SelfSubjectReview"}:      {Class: ClassOthers, Cluster: true, Posted: true},
	{Group: authorization, Kind: "SubjectAccessReview"}:     {Class: ClassOthers, Cluster: true, Posted: true},
	{Group: authorization, Kind: "SelfSubjectAccessReview"}: {Class: ClassOthers, Cluster: true, Posted: true},
	{Group: authorization, Kind: "SelfSubjectRulesReview"}:  {Class: ClassOthers, Cluster: true, Posted: true},
	kindLocal:    {Class: ClassOthers, Posted: true},
	KindEviction: {Class: ClassOthers, Posted: true},
	KindBinding:  {Class: ClassOthers, Posted: true},
}

// InfoOf is the table's row; a kind that isn't in it is a custom resource, and
// lives in a namespace unless its definition says otherwise.
func InfoOf(gk schema.GroupKind) KindInfo {
	if info, ok := Kinds[gk]; ok {
		return info
	}
	return KindInfo{Class: ClassOthers}
}

// IsCustom reports whether the kind isn't built in: a CustomResourceDefinition defines it, or
// another API server serves it.
func IsCustom(gk schema.GroupKind) bool {
	_, builtIn := Kinds[gk]
	return !builtIn
}

// IsScalable kinds have spec.replicas.
func IsScalable(gk schema.GroupKind) bool {
	return gk == KindDeployment || gk == KindReplicaSet || gk == KindStatefulSet
}

// IsVDUKind says whether a VDU can be an object of this kind.
func IsVDUKind(gk schema.GroupKind) bool {
	return IsScalable(gk) || gk == KindDaemonSet || gk == KindPod
}

// Key names an object in plans: "Kind/namespace/name", with "Kind.group" where
// the kind isn't one that every API server has.
func Key(gk schema.GroupKind, namespace, name string) string {
	return KindName(gk) + "/" + namespace + "/" + name
}

// KindName is the kind as keys have it.
func KindName(gk schema.GroupKind) string {
	if _, ok := Kinds[gk]; ok || gk.Group == GroupCore {
		return gk.Kind
	}
	return gk.Kind + "." + gk.Group
}

// SplitKey is the reverse of [Key]; ok is false where the text is no key.
func SplitKey(key string) (gk schema.GroupKind, namespace, name string, ok bool) {
	kind, tail, ok1 := strings.Cut(key, "/")
	namespace, name, ok2 := strings.Cut(tail, "/")
	return ParseKind(kind), namespace, name, ok1 && ok2 && kind != "" && name != ""
}

// ParseKind is the reverse of [KindName].
func ParseKind(s string) schema.GroupKind {
	if kind, group, ok := strings.Cut(s, "."); ok {
		return schema.GroupKind{Group: group, Kind: kind}
	}
	for gk := range Kinds {
		if gk.Kind == s {
			return gk
		}
	}
	return schema.GroupKind{Kind: s}
}
