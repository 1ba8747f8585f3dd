package packages

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// These are the sample templates that clients of other managers know; the next version has one
// thing more.
const (
	sampleTop = `
heat_template_version: 2013-05-23
description: Sample template for Upgrade.
parameters:
  image_id: {type: string, description: Image ID to use for the instance.}
  flavor_name: {type: string, description: Flavor name to use for the instance.}
  num_of_instances: {type: number, description: Number of instances to create.}
  ext_network_id: {type: string, description: External Network ID.}
resources:
  group1:
    type: OS::Heat::AutoScalingGroup
    properties:
      min_size: 1
      max_size: 4
      desired_capacity: {get_param: num_of_instances}
      resource:
        type: nested_server.yaml
        properties:
          image_id: {get_param: image_id}
          flavor_name: {get_param: flavor_name}
          ext_network_id: {get_param: ext_network_id}
`
	sampleNested = `
heat_template_version: 2013-05-23
description: Sample template for scaling.
parameters:
  image_id: {type: string, description: Image ID to use for the instance.}
  flavor_name: {type: string, description: Flavor name to use for the instance.}
  ext_network_id: {type: string}
resources:
  cp:
    type: OS::Neutron::Port
    properties: {network: {get_param: ext_network_id}}
  group1:
    type: OS::Nova::Server
    properties:
      name: sample_server
      image: {get_param: image_id}
      flavor: {get_param: flavor_name}
      networks: [{port: {get_resource: cp}}]
`
	sampleDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app-name}
spec:
  replicas: 2
  selector: {matchLabels: {app: app-name}}
  template:
    metadata: {labels: {app: app-name, version: original-version}}
    spec:
      containers:
        - name: app-name
          image: nginx:alpine
          ports: [{containerPort: 80}]
          volumeMounts: [{name: config, mountPath: /usr/share/nginx/html}]
      volumes: [{name: config, configMap: {name: nginx-app-original}}]
  strategy: {type: RollingUpdate}
`
	sampleService = `
apiVersion: v1
kind: Service
metadata: {name: app-svc-name}
spec:
  selector: {app: app-name, version: original-version}
  ports: [{name: http, protocol: TCP, port: 8089, targetPort: 80}]
  type: ClusterIP
`
)

func TestTheSamplesAreThoseThatClientsOfOtherManagersKnow(t *testing.T) {
	for file, want := range map[string]string{
		"vm-sample-1.0/BaseHOT/simple/top.yaml":                  sampleTop,
		"vm-sample-1.1/BaseHOT/simple/top.yaml":                  sampleTop,
		"vm-sample-1.0/BaseHOT/simple/nested/nested_server.yaml": sampleNested,
		"vm-sample-1.1/BaseHOT/simple/nested/nested_server.yaml": sampleNested + `      metadata: {edition: "1.1"}`,
		"cnf-sample-1.0/Files/kubernetes/deployment.yaml":        sampleDeployment,
		"cnf-sample-1.0/Files/kubernetes/service.yaml":           sampleService,
		"cnf-sample-1.1/Files/kubernetes/service.yaml":           sampleService,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var is, should any
		if err := yaml.Unmarshal(text, &is); err != nil {
			t.Fatal(file, err)
		}
		if err := yaml.Unmarshal([]byte(want), &should); err != nil {
			t.Fatal(file, err)
		}
		if diff := cmp.Diff(should, is); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestBothVersionsOfTheCNFSampleHaveTheSameScripts(t *testing.T) {
	sameScripts(t, "cnf-sample-1.1", "cnf-sample-1.0")
}
