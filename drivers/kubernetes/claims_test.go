package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
)

// TestAClaimThatWaitsForAPodHoldsNothing has a claim that only a CronJob will use: it is bound when
// that runs, by its storage class, and not before.
func TestAClaimThatWaitsForAPodHoldsNothing(t *testing.T) {
	c := newCluster(t)
	classes := c.api(t).StorageV1().StorageClasses()
	for mode, waits := range map[storagev1.VolumeBindingMode]bool{storagev1.VolumeBindingWaitForFirstConsumer: true, storagev1.VolumeBindingImmediate: false} {
		t.Run(string(mode), func(t *testing.T) {
			d, namespace, class := c.connect(t), c.namespace(t), "test-"+uuid.NewString()
			_, err := classes.Create(t.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode,
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := classes.Delete(t.Context(), class, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}()
			claim := strings.Replace(`
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: reports}
spec: {storageClassName: CLASS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, volumes: [{name: v, persistentVolumeClaim: {claimName: reports}}], containers: [{name: c, image: i}]}}}}
`, "CLASS", class, 1)
			src := sample.Source(uuid.NewString(), namespace, deployment("one", pause)+claim, sample.Workloads("one"), nil)

			if waits {
				converge(t, d, src, true)
			} else {
				stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "not bound") })
			}

			converge(t, d, src, false)
		})
	}
}
