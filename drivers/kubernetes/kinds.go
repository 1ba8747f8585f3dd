package kubernetes

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// class orders what one batch does: everything of a class is done, side by side,
// before the next class begins. Deleting goes the other way round.
type class int

const (
	first     class = iota // namespaces, definitions, the inventory
	supports               // what pods need to start
	workloads              // what makes pods
	others                 // what needs or wraps workloads, and unknown kinds
	classes
)

// kindInfo is what must be known of a kind without asking the API server, as
// rendering is pure.
type kindInfo struct {
	class   class
	cluster bool // not in a namespace
	// always says that the kind is watched for every VIM, so that what an instance
	// left behind is found without its package. Other kinds stand in the inventory.
	always bool
	// shared kinds outlive instances and may be used by several: they are never
	// deleted, and one that exists already is used as it stands.
	shared bool
}

const (
	core         = ""
	apps         = "apps"
	batch        = "batch"
	rbac         = "rbac.authorization.k8s.io"
	networking   = "networking.k8s.io"
	storage      = "storage.k8s.io"
	admission    = "admissionregistration.k8s.io"
	flowcontrol  = "flowcontrol.apiserver.k8s.io"
	apiext       = "apiextensions.k8s.io"
	autoscaling  = "autoscaling"
	policy       = "policy"
	scheduling   = "scheduling.k8s.io"
	node         = "node.k8s.io"
	coordination = "coordination.k8s.io"
	discovering  = "discovery.k8s.io"
)

var (
	kindPod         = schema.GroupKind{Group: core, Kind: "Pod"}
	kindClaim       = schema.GroupKind{Group: core, Kind: "PersistentVolumeClaim"}
	kindVolume      = schema.GroupKind{Group: core, Kind: "PersistentVolume"}
	kindService     = schema.GroupKind{Group: core, Kind: "Service"}
	kindConfigMap   = schema.GroupKind{Group: core, Kind: "ConfigMap"}
	kindNamespace   = schema.GroupKind{Group: core, Kind: "Namespace"}
	kindDeployment  = schema.GroupKind{Group: apps, Kind: "Deployment"}
	kindReplicaSet  = schema.GroupKind{Group: apps, Kind: "ReplicaSet"}
	kindStatefulSet = schema.GroupKind{Group: apps, Kind: "StatefulSet"}
	kindDaemonSet   = schema.GroupKind{Group: apps, Kind: "DaemonSet"}
	kindJob         = schema.GroupKind{Group: batch, Kind: "Job"}
	kindCRD         = schema.GroupKind{Group: apiext, Kind: "CustomResourceDefinition"}
	kindSlice       = schema.GroupKind{Group: discovering, Kind: "EndpointSlice"}
	kindHPA         = schema.GroupKind{Group: autoscaling, Kind: "HorizontalPodAutoscaler"}
)

// kinds are those that every API server has. It is a table, never changed.
var kinds = map[schema.GroupKind]kindInfo{
	kindNamespace: {class: first, cluster: true, shared: true},
	kindCRD:       {class: first, cluster: true, shared: true},

	{Group: scheduling, Kind: "PriorityClass"}: {class: supports, cluster: true},
	{Group: node, Kind: "RuntimeClass"}:        {class: supports, cluster: true},
	{Group: storage, Kind: "StorageClass"}:     {class: supports, cluster: true},
	{Group: storage, Kind: "CSIDriver"}:        {class: supports, cluster: true},
	{Group: networking, Kind: "IngressClass"}:  {class: supports, cluster: true},
	{Group: core, Kind: "Node"}:                {class: supports, cluster: true},
	{Group: core, Kind: "ResourceQuota"}:       {class: supports},
	{Group: core, Kind: "LimitRange"}:          {class: supports},
	{Group: core, Kind: "ServiceAccount"}:      {class: supports, always: true},
	{Group: rbac, Kind: "Role"}:                {class: supports, always: true},
	{Group: rbac, Kind: "RoleBinding"}:         {class: supports, always: true},
	{Group: rbac, Kind: "ClusterRole"}:         {class: supports, cluster: true},
	{Group: rbac, Kind: "ClusterRoleBinding"}:  {class: supports, cluster: true},
	kindConfigMap:                      {class: supports, always: true},
	{Group: core, Kind: "Secret"}:      {class: supports, always: true},
	kindVolume:                         {class: supports, cluster: true},
	kindClaim:                          {class: supports, always: true},
	kindService:                        {class: supports, always: true},
	{Group: core, Kind: "Endpoints"}:   {class: supports},
	kindSlice:                          {class: supports, always: true},
	{Group: core, Kind: "PodTemplate"}: {class: supports},
	{Group: networking, Kind: "NetworkPolicy"}: {class: supports, always: true},

	kindPod:         {class: workloads, always: true},
	kindReplicaSet:  {class: workloads, always: true},
	kindDeployment:  {class: workloads, always: true},
	kindStatefulSet: {class: workloads, always: true},
	kindDaemonSet:   {class: workloads, always: true},
	{Group: core, Kind: "ReplicationController"}: {class: workloads},
	{Group: batch, Kind: "Job"}:                  {class: workloads, always: true},
	{Group: batch, Kind: "CronJob"}:              {class: workloads, always: true},

	kindHPA: {class: others, always: true},
	{Group: policy, Kind: "PodDisruptionBudget"}:                 {class: others, always: true},
	{Group: networking, Kind: "Ingress"}:                         {class: others, always: true},
	{Group: coordination, Kind: "Lease"}:                         {class: others},
	{Group: apps, Kind: "ControllerRevision"}:                    {class: others},
	{Group: storage, Kind: "VolumeAttachment"}:                   {class: others, cluster: true},
	{Group: flowcontrol, Kind: "FlowSchema"}:                     {class: others, cluster: true},
	{Group: flowcontrol, Kind: "PriorityLevelConfiguration"}:     {class: others, cluster: true},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:        {class: others, cluster: true},
	{Group: admission, Kind: "ValidatingAdmissionPolicy"}:        {class: others, cluster: true},
	{Group: admission, Kind: "ValidatingAdmissionPolicyBinding"}: {class: others, cluster: true},
	{Group: admission, Kind: "ValidatingWebhookConfiguration"}:   {class: others, cluster: true},
	{Group: admission, Kind: "MutatingWebhookConfiguration"}:     {class: others, cluster: true},
}

// infoOf is the table's row; a kind that isn't in it is a custom resource, and
// lives in a namespace unless its definition says otherwise.
func infoOf(gk schema.GroupKind) kindInfo {
	if info, ok := kinds[gk]; ok {
		return info
	}
	return kindInfo{class: others}
}

// scalable kinds have spec.replicas.
func scalable(gk schema.GroupKind) bool {
	return gk == kindDeployment || gk == kindReplicaSet || gk == kindStatefulSet
}

// vduKind says whether a VDU can be an object of this kind.
func vduKind(gk schema.GroupKind) bool {
	return scalable(gk) || gk == kindDaemonSet || gk == kindPod
}

// keyOf names an object in plans: "Kind/namespace/name", with "Kind.group" where
// the kind isn't one that every API server has.
func keyOf(gk schema.GroupKind, namespace, name string) string {
	return kindName(gk) + "/" + namespace + "/" + name
}

func kindName(gk schema.GroupKind) string {
	if _, ok := kinds[gk]; ok || gk.Group == core {
		return gk.Kind
	}
	return gk.Kind + "." + gk.Group
}

// splitKey is the reverse of keyOf.
func splitKey(key string) (gk schema.GroupKind, namespace, name string, ok bool) {
	kind, tail, ok1 := strings.Cut(key, "/")
	namespace, name, ok2 := strings.Cut(tail, "/")
	return parseKind(kind), namespace, name, ok1 && ok2 && kind != "" && name != ""
}

func parseKind(s string) schema.GroupKind {
	if kind, group, ok := strings.Cut(s, "."); ok {
		return schema.GroupKind{Group: group, Kind: kind}
	}
	for gk := range kinds {
		if gk.Kind == s {
			return gk
		}
	}
	return schema.GroupKind{Kind: s}
}
