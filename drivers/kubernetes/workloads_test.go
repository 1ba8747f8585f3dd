package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

const telling = `
apiVersion: v1
kind: Secret
metadata: {name: pin}
stringData: {pin: open-sesame}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, annotations: {note: kept, kubectl.kubernetes.io/last-applied-configuration: "{\"password\":\"hunter1\"}"}}
spec:
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: front
        image: pause
        args: [--verbose, --password=hunter2, --token, hunter3]
        env: [{name: MODE, value: fast}, {name: DB_PASSWORD, value: hunter4}, {name: SNMP_COMMUNITY, value: hunter5}, {name: NOTE, value: "-----BEGIN PRIVATE KEY-----\nhunter6"}, {name: PIN, valueFrom: {secretKeyRef: {name: pin, key: pin}}}]
        livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: Authorization, value: hunter7}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {containers: [{name: c, image: pause}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: no-vdu}
spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: pause}]}}}
`

func TestTheWorkloadOfEachVDUIsToldAsItIsSentButWithoutSecrets(t *testing.T) {
	d := &Driver{renderer: manifest.NewRenderer([]byte("0123456789abcdef"))}
	descriptor := sample.Workloads("front", "bare", "unmatched")
	descriptor.SecretParams = []string{"snmp_community"}
	src := sample.Source("c0ffee", "ns", telling, descriptor, map[string]int{"front_aspect": 1})
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(formOf(want).Objects)
	if err != nil {
		t.Fatal(err)
	}
	all := d.Workloads(want)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter", "open-sesame", manifest.AnnotationDigest, manifest.AnnotationImmutable, "no-vdu"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is told: %s", secret, text)
		}
	}
	type container struct {
		Args []string
		Env  []struct {
			Name, Value string
			ValueFrom   map[string]any
		}
	}
	var told map[string]struct {
		Kind     string
		Metadata struct {
			Name, Namespace     string
			Annotations, Labels map[string]string
		}
		Spec struct {
			Replicas int
			Template struct {
				Spec struct{ Containers []container }
			}
		}
	}
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	front, bare := told["FRONT"], told["BARE"]
	if len(told) != 2 || front.Kind != "Deployment" || bare.Kind != "Pod" {
		t.Fatalf("told is %s", text)
	}
	if m := front.Metadata; m.Name != "front" || m.Namespace != "ns" || front.Spec.Replicas != 3 || m.Labels[manifest.LabelInstance] != "c0ffee" || bare.Metadata.Annotations != nil {
		t.Errorf("told is %s", text)
	}
	if d := cmp.Diff(map[string]string{"note": "kept", lastApplied: redacted}, front.Metadata.Annotations); d != "" {
		t.Error(d)
	}
	c := front.Spec.Template.Spec.Containers[0]
	if d := cmp.Diff([]string{"--verbose", "--password=" + redacted, "--token", redacted}, c.Args); d != "" {
		t.Error(d)
	}
	for i, value := range []string{"fast", redacted, redacted, redacted, ""} {
		if c.Env[i].Value != value {
			t.Errorf("%s is told to be %q, want %q", c.Env[i].Name, c.Env[i].Value, value)
		}
	}
	if after, err := json.Marshal(formOf(want).Objects); err != nil || string(after) != string(before) {
		t.Errorf("what is sent was altered: %s, %v", after, err)
	}
}
