package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestARepairGoesOnAtOnceWhenTheNamespaceIsBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	namespaces := b.api.CoreV1().Namespaces()
	b.namespace += "-lost"
	create := func() {
		t.Helper()
		if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() error {
		return namespaces.Delete(b.background(), b.namespace, metav1.DeleteOptions{})
	}
	create()
	t.Cleanup(func() { _ = remove() }) // it is gone where the test ended early
	id, file := uuid.NewString(), "instances/lost/"+b.namespace+"/vnf.yaml"
	d := b.clone(t, "desired.git")
	d.Write(file, fmt.Sprintf("id: %s\nname: %[2]s\nvnfdId: %s\nflavour: simple\nparams: {namespace: %[2]s}\n", id, b.namespace, plain))
	d.Push("Run")
	b.awaitHistory(id, "INSTANTIATE COMPLETED") // what goes before that is no drift
	b.awaitPods(1)

	if err := remove(); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		_, err := namespaces.Get(t.Context(), b.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("the namespace is still there"))
	})
	var heal string
	var next time.Time
	kit.Eventually(t, func() error { // until the pause is long
		for _, x := range decodeList(t, b.must(t, http.StatusOK, "GET", "/jibe/v1/drift", nil).Body) {
			if x.text("instance") != id || x.text("state") != "failing" {
				continue
			}
			heal = x.text("operation")
			var err error
			if next, err = time.Parse(time.RFC3339Nano, x.text("next")); err != nil {
				return err
			}
			if left := time.Until(next); left < 30*time.Second {
				return fmt.Errorf("the pause is over in %s", left)
			}
			return nil
		}
		return fmt.Errorf("no repair has failed")
	})
	create()
	op := b.recovered(t, heal)
	if at, err := time.Parse(time.RFC3339Nano, op.text("stateEnteredTime")); err != nil || !at.Before(next) {
		t.Errorf("it was repaired at %s, when the pause was over at %s (%v)", at, next, err)
	}
	b.awaitPods(1)
	d.Pull()
	d.Git("rm", "-r", "--quiet", "instances/lost/"+b.namespace)
	d.Push("Terminate")
	b.awaitPods(0)
}

// recovered waits until the operation, which was FAILED_TEMP, is COMPLETED.
func (s *server) recovered(t *testing.T, id string) object {
	t.Helper()
	var op object
	kit.Eventually(t, func() error {
		op = s.must(t, http.StatusOK, http.MethodGet, operations+"/"+id, nil).object(t)
		if now := op.text("operationState"); now != "COMPLETED" {
			return fmt.Errorf("the repair is %s: %v", now, op["error"])
		}
		return nil
	})
	return op
}
