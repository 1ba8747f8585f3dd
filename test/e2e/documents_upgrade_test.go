package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// documentsChange is the request to change the package as the document has it.
const documentsChange = `{ "vnfdId": "093c38b5-a731-4593-a578-d12e42596b3e", "additionalParams": { "upgrade_type": "Blue-Green", "lcm-operation-coordinate-old-vnf": "./coordinate_old_vnf.py", "lcm-operation-coordinate-old-vnf-class": "CoordinateOldVnf", "lcm-operation-coordinate-new-vnf": "./coordinate_new_vnf.py", "lcm-operation-coordinate-new-vnf-class": "CoordinateNewVnf", "vdu_params": { "vdu_id": "VDU1", "old_vnfc_param": { "cp_name": "CP1", "username": "ubuntu", "password": "ubuntu" }, "new_vnfc_param": { "cp_name": "CP1", "username": "ubuntu", "password": "ubuntu" } }, "external_lb_param": { "ip_address": "10.10.0.50", "username": "ubuntu", "password": "ubuntu" }, "lcm-kubernetes-def-files": [ "Files/kubernetes/deployment.yaml" ] } }`

// The manifests of the document, but for the namespace.
const (
	documentsDeployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-name
  namespace: NAMESPACE
spec:
  replicas: 2
  selector:
    matchLabels:
      app: app-name
  template:
    metadata:
      labels:
        app: app-name
        version: VERSION-version
    spec:
      containers:
      - name: app-name
        image: nginx:IMAGE
        ports:
        - containerPort: 80
        volumeMounts:
        - name: config
          mountPath: /usr/share/nginx/html
      volumes:
      - name: config
        configMap:
          name: nginx-app-VERSION
  strategy:
    type: RollingUpdate
`
	documentsService = `apiVersion: v1
kind: Service
metadata:
  name: app-svc-name
  namespace: NAMESPACE
spec:
  selector:
    app: app-name
    version: VERSION-version
  ports:
  - name: http
    protocol: TCP
    port: 8089
    targetPort: 80
  type: ClusterIP
`
	documentsConfig = `{apiVersion: v1, kind: ConfigMap, metadata: {name: nginx-app-VERSION, namespace: NAMESPACE}, data: {index.html: VERSION}}
`
	// A script of the older contract: it has a class, and tells the test of its call.
	documentsScript = `import json
import os
import pickle
import sys
import time


class CLASS(object):
    def __init__(self, given):
        self.given = given

    def coordinate(self):
        with open("DIR/CLASS.part", "w") as f:
            json.dump({k: self.given.get(k) for k in ("cp_name", "username", "password", "external_lb_param", "is_rollback")}, f)
        os.rename("DIR/CLASS.part", "DIR/CLASS")
        while not os.path.exists("DIR/go"):
            time.sleep(0.05)


def main():
    CLASS(pickle.load(sys.stdin.buffer)).coordinate()


if __name__ == "__main__":
    main()
`
)

// publishDocuments pushes a version of the package of which the document has the manifests.
// Its scripts tell of their calls in dir.
func (b *bench) publishDocuments(id, version, image, dir string) {
	b.Helper()
	words := strings.NewReplacer("NAMESPACE", b.namespace, "VERSION", version, "IMAGE", image)
	b.publishAs(id, []vdu{{kind: "Deployment", name: "vdu1", initial: 2}}, func(d *process.WorkTree) {
		d.Write("Definitions/vnfd.yaml", strings.Replace(d.Read("Definitions/vnfd.yaml"), "properties: {name: vdu1,", "properties: {name: app-name,", 1))
		if err := os.Remove(filepath.Join(d.Dir(), "Files/kubernetes/all.yaml")); err != nil {
			b.Fatal(err)
		}
		d.Write("Files/kubernetes/deployment.yaml", words.Replace(documentsDeployment))
		d.Write("Files/kubernetes/service.yaml", words.Replace(documentsService))
		d.Write("Files/kubernetes/configmap.yaml", words.Replace(documentsConfig))
		for name, class := range map[string]string{"coordinate_old_vnf.py": "CoordinateOldVnf", "coordinate_new_vnf.py": "CoordinateNewVnf"} {
			d.Write(name, strings.NewReplacer("CLASS", class, "DIR", dir).Replace(documentsScript))
		}
	})
}

// documentsVNFCs are the resources of the VNFCs in the document's table.
func (b *bench) documentsVNFCs(id string) (pods, ids, deployments []string) {
	b.Helper()
	for _, c := range b.show(b.T, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
		pods, ids = append(pods, c.text("computeResource", "resourceId")), append(ids, c.text("id"))
		deployments = append(deployments, c.text("metadata", "Deployment", "name"))
	}
	slices.Sort(pods)
	slices.Sort(ids)
	return pods, ids, slices.Compact(deployments)
}

func TestTheBodyOfTheChangeOfPackageInTheDocuments(t *testing.T) {
	b := newDocuments(t)
	dir, err := os.MkdirTemp("", "jibe-script-") // a hook runs as another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	b.publishDocuments(documentsFormer, "original", "alpine", dir)
	b.publishDocuments(documentsNext, "new", "1.27-alpine", dir)
	idle, id := b.create(documentsFormer), b.create(documentsFormer)
	files := []string{"Files/kubernetes/deployment.yaml", "Files/kubernetes/service.yaml", "Files/kubernetes/configmap.yaml"}
	b.run(t, id, "instantiate", object{"flavourId": "simple", "additionalParams": object{"lcm-kubernetes-def-files": files}})
	pods, ids, deployments := b.documentsVNFCs(id)
	service := b.read("Service/app-svc-name").GetUID()
	if !slices.Equal(deployments, []string{"app-name"}) || len(pods) != 2 {
		t.Fatalf("pods %v of Deployments %v", pods, deployments)
	}

	// Blue-green, as the document has it.
	b.refusedUnless(idle, "change_vnfpkg", documentsChange)
	at := b.sent("POST", id, "change_vnfpkg", documentsChange)
	called := func(class string) (given object) {
		t.Helper()
		kit.Eventually(t, func() error {
			text, err := os.ReadFile(filepath.Join(dir, class))
			if err != nil {
				return err
			}
			return json.Unmarshal(text, &given)
		})
		return given
	}
	given := called("CoordinateNewVnf")
	if given.text("username") != "ubuntu" || given.text("password") != "ubuntu" || given.text("cp_name") != "CP1" || given.text("external_lb_param", "ip_address") != "10.10.0.50" {
		t.Errorf("the new VNF's script was given %v", given)
	}
	// "This operation conflicted with another operation on this resource."
	b.must(t, 409, "POST", path.Join(instances, id, "change_vnfpkg"), json.RawMessage(documentsChange))
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	op := b.await(t, at, "COMPLETED")
	called("CoordinateOldVnf")
	if op.text("operation") != "CHANGE_VNFPKG" || strings.Contains(fmt.Sprint(op["operationParams"]), "password") {
		t.Errorf("%v", op)
	}
	b.awaitPods(2)
	newPods, newIDs, newDeployments := b.documentsVNFCs(id)
	if b.show(t, id).text("vnfdId") != documentsNext {
		t.Error("vnfdId isn't the new one")
	}
	for _, p := range pods {
		if slices.Contains(newPods, p) {
			t.Errorf("resourceId %s is as before", p)
		}
	}
	if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(newIDs, id) }) {
		t.Errorf("vnfcResourceInfo had ids %v and has %v", ids, newIDs)
	}
	if len(newDeployments) != 1 || newDeployments[0] == "app-name" || b.read("Deployment/"+newDeployments[0]) == nil {
		t.Errorf("the Deployment's name was app-name and is %v", newDeployments)
	}
	// Here the document has a new connection point; a Service that stays keeps its address.
	links := b.show(t, id).list("instantiatedVnfInfo", "vnfVirtualLinkResourceInfo")
	if len(links) != 1 || links[0].text("networkResource", "resourceId") != "app-svc-name" || b.read("Service/app-svc-name").GetUID() != service {
		t.Errorf("the Service is %v", links)
	}

	// The same by a rolling update, back to the former package.
	deployment := b.read("Deployment/" + newDeployments[0])
	rolling := strings.NewReplacer(documentsNext, documentsFormer, "Blue-Green", "Rolling update").Replace(documentsChange)
	b.await(t, b.sent("POST", id, "change_vnfpkg", rolling), "COMPLETED")
	b.awaitPods(2)
	lastPods, lastIDs, lastDeployments := b.documentsVNFCs(id)
	if !slices.Equal(lastDeployments, newDeployments) || b.read("Deployment/"+newDeployments[0]).GetUID() != deployment.GetUID() {
		t.Errorf("the Deployment's name was %v and is %v: a rolling update leaves it", newDeployments, lastDeployments)
	}
	if slices.ContainsFunc(newPods, func(p string) bool { return slices.Contains(lastPods, p) }) || slices.ContainsFunc(newIDs, func(id string) bool { return slices.Contains(lastIDs, id) }) {
		t.Errorf("VNFCs were %v and are %v", newPods, lastPods)
	}
	shown := b.show(t, id)
	if shown.text("vnfdId") != documentsFormer || !strings.Contains(fmt.Sprint(shown.get("metadata", "lcm-kubernetes-def-files")), "Files/kubernetes/deployment.yaml") {
		t.Errorf("%v", shown)
	}
	for _, c := range shown.list("instantiatedVnfInfo", "vnfcResourceInfo") {
		if c.text("metadata", "image") != "nginx:alpine" {
			t.Errorf("metadata are %v", c["metadata"])
		}
	}
}
