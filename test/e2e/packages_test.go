package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// vdu is a workload of a test's package. Its aspect is <name>_aspect: up to 5
// steps of one pod.
type vdu struct {
	kind, name string
	initial    int
	pod        string // more of the pod's spec, a line
	more       string // more of the workload's spec, a line
	app        string // label that the selector asks for; "" is the name
}

// The vnfdIds of the packages that tests use. webapp and every-kind are the
// examples.
const (
	webapp    = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b01"
	everyKind = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b02"
	plain     = "e2e00000-0000-4000-8000-000000000001"
	byHand    = "e2e00000-0000-4000-8000-000000000002"
	claims    = "e2e00000-0000-4000-8000-000000000003"
	fixed     = "e2e00000-0000-4000-8000-000000000004"
	huge      = "e2e00000-0000-4000-8000-000000000005"
	crowdA    = "e2e00000-0000-4000-8000-000000000006"
	crowdB    = "e2e00000-0000-4000-8000-000000000007"
	refused   = "e2e00000-0000-4000-8000-000000000008"
	whole     = "e2e00000-0000-4000-8000-000000000009"
	twins     = "e2e00000-0000-4000-8000-00000000000a"
	hpa       = "e2e00000-0000-4000-8000-00000000000b"
	remote    = "e2e00000-0000-4000-8000-00000000000c"
	asking    = "e2e00000-0000-4000-8000-00000000000d"
)

// nobody is a scheduler that isn't there: the test says when a pod gets its node.
const nobody = "schedulerName: nobody, "

var packages = map[string][]vdu{
	plain:  {{kind: "Deployment", name: "web", initial: 1}},
	byHand: {{kind: "Deployment", name: "web", initial: 1, pod: nobody}},
	claims: {{kind: "StatefulSet", name: "store", initial: 1, more: `serviceName: store, volumeClaimTemplates: [{metadata: {name: data},
    spec: {storageClassName: by-hand, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}], `}},
	fixed: {{kind: "DaemonSet", name: "agent"}, {kind: "Pod", name: "probe", initial: 1}, {kind: "Deployment", name: "web", initial: 1}},
	huge:  {{kind: "Deployment", name: "web", pod: "hugePages: no, "}},
	// Two packages whose workloads ask for the same label, and of whose names one
	// begins with the other.
	crowdA:  {{kind: "Deployment", name: "web", initial: 1, app: "web"}},
	crowdB:  {{kind: "Deployment", name: "web-1", initial: 2, app: "web"}},
	refused: {{kind: "Deployment", name: "web", initial: 1, more: "nonsense: true, "}},
	// One of everything; see beside.
	whole: {{kind: "Deployment", name: "web", initial: 2, pod: "automountServiceAccountToken: false, "}, {kind: "ReplicaSet", name: "cache", initial: 1},
		{kind: "StatefulSet", name: "store", initial: 1, more: `serviceName: store, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain},
    volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: by-hand, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}], `},
		{kind: "DaemonSet", name: "agent"}, {kind: "Pod", name: "probe", initial: 1}},
	twins: {{kind: "Deployment", name: "web", initial: 1}, {kind: "Deployment", name: "back", initial: 1}},
	// It asks the cluster something that this doesn't keep.
	asking: {{kind: "Deployment", name: "web", initial: 1, pod: nobody}},
	hpa:    {{kind: "Deployment", name: "web"}, {kind: "Deployment", name: "back", initial: 1}},
	// Its pod runs on a node that only it may use, and takes its time to end.
	remote: {{kind: "Deployment", name: "web", initial: 1, pod: `terminationGracePeriodSeconds: 30, schedulerName: nobody, tolerations: [{key: e2e.test/only, operator: Exists}], `}},
}

// beside are the objects of packages that no VDU stands for.
var beside = map[string]string{
	whole: `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.e2e.jibe.test}
spec:
  group: e2e.jibe.test
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
{apiVersion: e2e.jibe.test/v1, kind: Widget, metadata: {name: gear}, spec: {teeth: 12}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "registry.k8s.io/pause:3.10"}]}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: library}, spec: {storageClassName: by-hand, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {password: from-the-package}}
---
{apiVersion: v1, kind: Service, metadata: {name: store}, spec: {clusterIP: None, selector: {app: store}, ports: [{name: store, port: 6379}]}}
` + settings + front,
	twins: settings + front,
	asking: `---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: robot, resourceAttributes: {verb: list, resource: pods}}
---
apiVersion: authorization.k8s.io/v1
kind: LocalSubjectAccessReview
metadata: {namespace: default}
spec: {user: robot, resourceAttributes: {verb: list, resource: pods, namespace: default}}
`,
	hpa: `---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 9,
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}
`,
}

const (
	settings = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {tier: gold}}, data: {mode: fast}}\n"
	front    = "---\n{apiVersion: v1, kind: Service, metadata: {name: front}, spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}\n"
)

// writePackage makes the package in a folder of dir.
func writePackage(dir, id string, vdus []vdu) error {
	var manifests, nodes, aspects, policies strings.Builder
	for _, v := range vdus {
		manifests.WriteString(v.manifest())
		fmt.Fprintf(&nodes, `
    %[1]s:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: %[2]s, description: %[3]s, vdu_profile: {min_number_of_instances: 0, max_number_of_instances: 100}}`,
			strings.ToUpper(v.name), v.name, v.kind)
		fmt.Fprintf(&aspects, "\n            %[1]s_aspect: {name: %[1]s_aspect, description: more, max_scale_level: 5, step_deltas: [delta_1]}", v.name)
		fmt.Fprintf(&policies, `
    - %[1]s_initial:
        type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: %[3]d}}
        targets: [%[2]s]
    - %[1]s_deltas:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: %[1]s_aspect, deltas: {delta_1: {number_of_instances: 1}}}
        targets: [%[2]s]`, v.name, strings.ToUpper(v.name), v.initial)
	}
	manifests.WriteString(beside[id])
	vnfd := fmt.Sprintf(`tosca_definitions_version: tosca_simple_yaml_1_2
imports: [etsi_nfv_sol001_common_types.yaml, etsi_nfv_sol001_vnfd_types.yaml]
topology_template:
  substitution_mappings:
    node_type: tosca.nodes.nfv.VNF
    properties: {flavour_id: simple}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties:
        descriptor_id: %[1]s
        descriptor_version: '1.0'
        provider: Tests
        product_name: p-%[2]s
        software_version: '1.0'
        flavour_id: simple
        vnfm_info: [jibe]
%[3]s
  policies:
    - scaling_aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties:
          aspects:%[4]s
%[5]s
`, id, id[len(id)-1:], nodes.String(), aspects.String(), policies.String())
	for name, text := range map[string]string{
		"TOSCA-Metadata/TOSCA.meta":  "TOSCA-Meta-File-Version: 1.0\nCreated-by: Tests\nCSAR-Version: 1.1\nEntry-Definitions: Definitions/vnfd.yaml\n",
		"Definitions/vnfd.yaml":      vnfd,
		"Files/kubernetes/all.yaml":  manifests.String(),
		"Files/kubernetes/none.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: fast}}\n",
	} {
		path := filepath.Join(dir, id, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (v vdu) manifest() string {
	app := v.app
	if app == "" {
		app = v.name
	}
	cpu := "1m"
	if strings.HasPrefix(v.pod, "hugePages") {
		v.pod, cpu = "", "5000"
	}
	if !strings.Contains(v.pod, "terminationGracePeriodSeconds") {
		v.pod += "terminationGracePeriodSeconds: 0, "
	}
	pod := fmt.Sprintf(`{%scontainers: [{name: c, image: "registry.k8s.io/pause:3.10", env: [{name: MODE, value: fast}], resources: {requests: {cpu: %q}}}]}`, v.pod, cpu)
	if v.kind == "Pod" {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %s}}, spec: %s}\n", v.name, app, pod)
	}
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s}
spec: {%[3]sselector: {matchLabels: {app: %[4]s}}, template: {metadata: {labels: {app: %[4]s}}, spec: %[5]s}}
`, v.kind, v.name, v.more, app, pod)
}
