package e2e

import (
	"testing"

	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"k8s.io/client-go/kubernetes"
)

func TestOneFileRunsAVNFAtKubernetesAndOpenStack(t *testing.T) {
	kubeconfig := kubeenv.Kubeconfig(t)
	c := newFakeCloud(t, mixed1)
	c.namespace = kubeenv.Namespace(t, kubeconfig)
	var err error
	c.config = kubeenv.RestConfig(t)
	if c.api, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	d := c.clone(t, "desired.git")
	d.Write("vims/kube-a.yaml", c.process.Keep(t, "type: kubernetes\nkubeconfig: file:"+kubeconfig+"\n"))
	const file = "instances/site-a/mixed/vnf.yaml"
	d.Write(file, machinesFile("mixed", mixed1, "kube-a", "placement: {DB: openstack-a}\nlevels: {web_aspect: 1}\nparams: {namespace: "+c.namespace+"}\n", link("database", "net0", "DB_CP")))
	d.Push("Run")
	id := c.own(c.idOf("mixed"))
	op := c.outcome(id, 0, "INSTANTIATE COMPLETED")
	c.affected(op, "ADDED", "DB", "WEB", "WEB")
	c.awaitPods(2)
	both := func(pods, servers int) {
		t.Helper()
		if n := len(c.machines(id)); n != servers {
			t.Errorf("there are %d servers, want %d", n, servers)
		}
		for _, v := range c.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
			at := v.text("computeResource", "vimConnectionId")
			if _, pod := c.pods()[v.text("computeResource", "resourceId")]; pod != (v.text("vduId") == "WEB") || at == "" {
				t.Errorf("%v at %q", v, at)
			}
		}
		if n := len(c.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo")); n != pods+servers {
			t.Errorf("the API shows %d VNFCs, want %d", n, pods+servers)
		}
	}
	both(2, 1)

	c.step("another level at both")
	d.Pull()
	d.Replace(file, "web_aspect: 1", "web_aspect: 0, db_aspect: 1")
	d.Push("Scale")
	c.outcome(id, 1, "SCALE_TO_LEVEL COMPLETED")
	c.awaitPods(1)
	both(1, 2)

	c.step("heal a server")
	sick, pods := c.vnfcs(id, "DB")[0], c.pods()
	op = c.run(t, id, "heal", object{"vnfcInstanceId": []string{sick.text("id")}})
	both(1, 2)
	for name := range c.pods() {
		if _, was := pods[name]; !was {
			t.Errorf("the heal of %v made the pod %s", sick, name)
		}
	}
	for _, v := range op.list("resourceChanges", "affectedVnfcs") {
		if v.text("vduId") != "DB" {
			t.Errorf("the heal of %v affected %v", sick, v)
		}
	}

	c.step("terminate")
	d.Pull()
	d.Git("rm", "-r", "--quiet", "instances/site-a")
	d.Push("Terminate")
	c.outcome(id, 3, "TERMINATE COMPLETED")
	c.awaitPods(0)
	c.nothingIsLeft(id)
	c.step("done")
}
