package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

func TestAnInstantiationWaitsForAnInstanceThatTerminatesAndHasItsObjectsStill(t *testing.T) {
	b := newBench(t, usual)
	old, file, d := b.pushed(plain, "")
	b.awaitPods(1)
	b.awaitHistory(old, "INSTANTIATE COMPLETED")
	b.finalize("Deployment/web", true) // it can't go yet
	dir := strings.TrimSuffix(file, "/vnf.yaml")
	d.Pull()
	d.Git("rm", "-r", "--quiet", dir)
	d.Push("Remove it")
	const fresh = "f2e50000-0000-4000-8000-000000000000"
	id := fresh[:24] + b.namespace[len(b.namespace)-8:] + "0000"
	d.Pull()
	d.Write("instances/again/"+b.namespace+"/vnf.yaml", fmt.Sprintf("id: %s\nname: again-%[2]s\nvnfdId: %[3]s\nflavour: simple\nparams: {namespace: %[2]s}\n", id, b.namespace, plain))
	d.Push("The same again, as another VNF")
	b.awaitHistory(old, "INSTANTIATE COMPLETED, TERMINATE PROCESSING")
	kit.Eventually(t, func() error {
		ops := b.history(t, id)
		if len(ops) != 1 {
			return fmt.Errorf("%d operations", len(ops))
		}
		story, _, _ := b.cli(t, "get", "operation", ops[0].text("id"))
		if want := "wait for the termination of VNF instance " + old; !strings.Contains(story, want) {
			return fmt.Errorf("the operation doesn't say %q:\n%s", want, story)
		}
		return nil
	})
	b.finalize("Deployment/web", false)
	b.awaitHistory(old, "INSTANTIATE COMPLETED, TERMINATE COMPLETED")
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	b.awaitPods(1)
}

func TestASecondVNFOntoAForeignNameIsRolledBack(t *testing.T) {
	b := newBench(t, usual)
	b.runs(plain) // the API server's verdicts of the package's objects are known from here on
	other := benchAt(t, b.server, b.config, os.Getenv(kubeenv.EnvKubeconfig))
	labels := map[string]string{"app": "foreign"}
	none := int32(0)
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
	if _, err := other.api.AppsV1().Deployments(other.namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	id := other.create(plain)
	other.must(t, 202, "POST", instances+"/"+id+"/instantiate", other.request())

	ops := other.awaitHistory(id, "INSTANTIATE ROLLED_BACK")
	if why := ops[0].text("error", "detail"); !strings.Contains(why, "Deployment/"+other.namespace+"/web") || !strings.Contains(why, "is not Jibe's") {
		t.Errorf("the reason is %q", why)
	}
}
