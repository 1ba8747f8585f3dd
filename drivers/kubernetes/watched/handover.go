package watched

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// keep is what the successor of an object takes over, in the form in which it
// stands in plan.ObservedObject.Keep: what the cluster gave the object, on which
// others may rely.
type keep struct {
	// IPs, Families and Policy are a Service's clusterIPs, ipFamilies and ipFamilyPolicy.
	IPs      []string `json:"ips,omitempty"`
	Families []string `json:"families,omitempty"`
	Policy   string   `json:"policy,omitempty"`
	// NodePorts of a Service, by the port's name, or by "80/TCP" where it has none.
	NodePorts map[string]int64 `json:"nodePorts,omitempty"`
	// HealthCheck is a Service's healthCheckNodePort.
	HealthCheck int64 `json:"healthCheck,omitempty"`
	// Replicas is the number of units that an autoscaler gave a workload.
	Replicas *int64 `json:"replicas,omitempty"`
}

// headless is the clusterIP of a Service that has none.
const headless = "None"

// keptOf reads what a successor must take over of an object itself; "" where
// that is nothing, which it is for every kind but Service.
func keptOf(gk schema.GroupKind, u *unstructured.Unstructured) string {
	if gk != manifest.KindService {
		return ""
	}
	spec, _ := u.Object["spec"].(map[string]any)
	k := keep{HealthCheck: raw.Int(spec["healthCheckNodePort"])}
	if ips := raw.Strings(spec, "clusterIPs"); len(ips) > 0 && ips[0] != headless {
		k.IPs, k.Families, k.Policy = ips, raw.Strings(spec, "ipFamilies"), raw.String(spec, "ipFamilyPolicy")
	}
	for _, port := range raw.Maps(spec, "ports") {
		if n := raw.Int(port["nodePort"]); n > 0 {
			if k.NodePorts == nil {
				k.NodePorts = map[string]int64{}
			}
			k.NodePorts[portName(port)] = n
		}
	}
	return k.String()
}

// keptReplicas is that of a workload whose number of units isn't Jibe's to say.
func keptReplicas(n int) string {
	replicas := int64(n)
	return keep{Replicas: &replicas}.String()
}

// String is the form in which plans have it; "" where there is nothing to take over.
func (k keep) String() string {
	data, err := json.Marshal(k)
	if err != nil || string(data) == "{}" {
		return ""
	}
	return string(data)
}

// TakeOver is the object with what its predecessor had, where its manifest
// doesn't say itself what that should be. The digest is the render's, as it was. An
// object that exists by now keeps its own number of units: it began with the
// predecessor's, and its autoscaler may have gone on from there.
func TakeOver(obj *unstructured.Unstructured, kept string, now *Fact) (*unstructured.Unstructured, error) {
	if kept == "" {
		return obj, nil
	}
	var k keep
	if err := json.Unmarshal([]byte(kept), &k); err != nil {
		return nil, fmt.Errorf("what %s %s should take over can't be read: %w", obj.GetKind(), obj.GetName(), err)
	}
	obj = obj.DeepCopy()
	spec, _ := obj.Object["spec"].(map[string]any)
	if spec == nil {
		return obj, nil
	}
	if _, given := spec["replicas"]; !given && k.Replicas != nil && (now == nil || now.Deleting) {
		spec["replicas"] = *k.Replicas
	}
	if obj.GroupVersionKind().GroupKind() == manifest.KindService {
		k.intoService(spec)
	}
	return obj, nil
}

// StillCounted is a workload that an autoscaler rules over with the number of
// units that it has, if Jibe wrote that number when it made the workload: to leave
// it out would give it up, and the server would fall back to one unit. That is what it should
// do where Jibe had stopped the workload: an autoscaler doesn't begin with none.
func StillCounted(obj *unstructured.Unstructured, now *Fact) *unstructured.Unstructured {
	spec, _ := obj.Object["spec"].(map[string]any)
	if spec == nil || spec["replicas"] != nil || now.Count <= 0 || !fields.Parse(now.Fields.Value()).Has(fieldpath.MakePathOrDie("spec", "replicas")) {
		return obj
	}
	obj = obj.DeepCopy()
	obj.Object["spec"].(map[string]any)["replicas"] = int64(now.Count)
	return obj
}

// intoService gives a Service its predecessor's addresses, as far as its manifest
// still leaves room for them: another type or family of addresses than the
// predecessor's is wanted on purpose.
func (k keep) intoService(spec map[string]any) {
	kind := raw.String(spec, "type")
	if kind == "ExternalName" {
		return
	}
	if len(k.IPs) > 0 && k.familiesFit(spec) && spec["clusterIP"] == nil && spec["clusterIPs"] == nil {
		spec["clusterIP"], spec["clusterIPs"] = k.IPs[0], raw.List(k.IPs)
		if len(k.Families) > 0 {
			spec["ipFamilies"] = raw.List(k.Families)
		}
		if k.Policy != "" {
			spec["ipFamilyPolicy"] = k.Policy
		}
	}
	if kind != "NodePort" && kind != "LoadBalancer" {
		return
	}
	taken := map[int64]bool{}
	for _, port := range raw.Maps(spec, "ports") {
		taken[raw.Int(port["nodePort"])] = true
	}
	for _, port := range raw.Maps(spec, "ports") {
		n := k.NodePorts[portName(port)]
		if n == 0 {
			n = k.NodePorts[portNumber(port)]
		}
		if raw.Int(port["nodePort"]) == 0 && n > 0 && !taken[n] {
			port["nodePort"] = n
		}
	}
	if kind == "LoadBalancer" && raw.String(spec, "externalTrafficPolicy") == "Local" && spec["healthCheckNodePort"] == nil && k.HealthCheck > 0 {
		spec["healthCheckNodePort"] = k.HealthCheck
	}
}

// familiesFit says whether the manifest asks for the families that the
// predecessor had, or for none in particular.
func (k keep) familiesFit(spec map[string]any) bool {
	if p := raw.String(spec, "ipFamilyPolicy"); p != "" && p != k.Policy {
		return false
	}
	families := raw.Strings(spec, "ipFamilies")
	return len(families) == 0 || slices.Equal(families, k.Families)
}

func portName(port map[string]any) string {
	if name := raw.String(port, "name"); name != "" {
		return name
	}
	return portNumber(port)
}

func portNumber(port map[string]any) string {
	protocol := raw.String(port, "protocol")
	if protocol == "" {
		protocol = "TCP"
	}
	return strconv.FormatInt(raw.Int(port["port"]), 10) + "/" + protocol
}
